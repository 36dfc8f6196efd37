// The colours of the stage, from the style sheet, so that light, dark and print are decided in one place.

const NAMES = ["ground", "panel", "ink", "faint", "line", "band", "source", "target", "lit", "hinders", "cut"];

export function stageColours(element = document.documentElement) {
  const style = getComputedStyle(element);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// The colour of a side: a text alone is coloured like a target.
export const colourOf = (colours, side) => (side === "source" ? colours.source : colours.target);

export function toNumbers(colour) {
  return [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
}
