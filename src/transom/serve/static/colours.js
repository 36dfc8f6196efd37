// Colours of weights, the same as in exported pictures: white to navy, and orange to blue for signed numbers.
// Both can be told apart with any kind of colour blindness.

const BLUES = [[255, 255, 255], [222, 235, 247], [166, 203, 229], [92, 156, 205], [32, 102, 168], [8, 48, 107]];
const DIVERGING = [
  [166, 86, 0],
  [224, 142, 54],
  [247, 208, 160],
  [255, 255, 255],
  [164, 203, 232],
  [66, 139, 202],
  [5, 79, 140],
];

// What mattered: amber helps, white is nothing, violet hinders; of equal depth on both sides.
const HELPS_HINDERS = [
  [122, 70, 0],
  [204, 133, 20],
  [250, 210, 130],
  [255, 255, 255],
  [205, 190, 235],
  [140, 105, 195],
  [72, 32, 130],
];
const SCALES = { weights: BLUES, difference: DIVERGING, influence: HELPS_HINDERS };

function interpolate(points, share) {
  const place = Math.min(1, Math.max(0, share)) * (points.length - 1);
  const first = Math.min(points.length - 2, Math.floor(place));
  return points[first].map((from, i) => Math.round(from + (points[first + 1][i] - from) * (place - first)));
}

// 256 colours as opaque pixels, in the order in which they lie in memory.
export function pixelTable(scale) {
  const bytes = Array.from({ length: 256 }, (_, i) => [...interpolate(SCALES[scale], i / 255), 255]).flat();
  return new Uint32Array(Uint8ClampedArray.from(bytes).buffer);
}

// Black or white, whichever stands out more (WCAG's contrast ratio).
function inkOn(colour) {
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = colour.map((part) => linear(part / 255));
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) ? "#000000" : "#ffffff";
}

export function cellColours(share, scale = "weights") {
  const [r, g, b] = interpolate(SCALES[scale], share);
  return { background: `rgb(${r} ${g} ${b})`, ink: inkOn([r, g, b]) };
}

// Colour the background of an element by a value between two ends, and its text so that it can be read there.
export function paint(element, value, low, high, scale = "weights") {
  const { background, ink } = cellColours((value - low) / (high - low || 1), scale);
  element.style.background = background;
  element.style.color = ink;
}
