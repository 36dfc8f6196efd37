// Colours that tell weights apart for everyone: cividis by a few of its points, and blue to orange for differences.

const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [255, 234, 70]];
const DIVERGING = [[5, 80, 140], [100, 160, 205], [240, 240, 240], [235, 160, 90], [150, 60, 0]];

function between(points, share) {
  const place = Math.min(1, Math.max(0, share)) * (points.length - 1), first = Math.min(points.length - 2, Math.floor(place)), part = place - first;
  return points[first].map((from, i) => Math.round(from + (points[first + 1][i] - from) * part));
}

export const table = (diverging) => Uint8Array.from({ length: 256 * 3 }, (_, i) => between(diverging ? DIVERGING : CIVIDIS, Math.floor(i / 3) / 255)[i % 3]);

// Black or white, whichever stands out more (WCAG's contrast ratio).
export function inkOn(colour) {
  const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}

export function cell(share, diverging = false) {
  const [r, g, b] = between(diverging ? DIVERGING : CIVIDIS, share);
  return { background: `rgb(${r} ${g} ${b})`, ink: inkOn([r, g, b]) };
}
