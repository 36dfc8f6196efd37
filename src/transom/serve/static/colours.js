// Colours that tell weights apart for everyone, the same as in exported pictures: white to navy, and orange to blue for signs.

const BLUES = [[255, 255, 255], [222, 235, 247], [166, 203, 229], [92, 156, 205], [32, 102, 168], [8, 48, 107]];
const DIVERGING = [[166, 86, 0], [224, 142, 54], [247, 208, 160], [255, 255, 255], [164, 203, 232], [66, 139, 202], [5, 79, 140]];

function between(points, share) {
  const place = Math.min(1, Math.max(0, share)) * (points.length - 1), first = Math.min(points.length - 2, Math.floor(place)), part = place - first;
  return points[first].map((from, i) => Math.round(from + (points[first + 1][i] - from) * part));
}

// 256 colours as pixels: red, green, blue and no transparency, in the order in which they lie in memory.
export const table = (diverging) => new Uint32Array(Uint8ClampedArray.from(Array.from({ length: 256 }, (_, i) => [...between(diverging ? DIVERGING : BLUES, i / 255), 255]).flat()).buffer);

// Black or white, whichever stands out more (WCAG's contrast ratio).
export function inkOn(colour) {
  const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}

export function cell(share, diverging = false) {
  const [r, g, b] = between(diverging ? DIVERGING : BLUES, share);
  return { background: `rgb(${r} ${g} ${b})`, ink: inkOn([r, g, b]) };
}
