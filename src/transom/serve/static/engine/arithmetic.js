// The arithmetic of one number written out, as in transom/lessons/arithmetic.py.

const DIGITS = 4;
const MOST_TERMS = 64; // of a sum that is written out

// A number to four decimals without needless zeros; only 0 itself is "0".
export function plain(value) {
  if (value === -Infinity) return "masked";
  if (Math.abs(value) >= 1e9) return value.toPrecision(DIGITS);
  if (value === 0) return "0";
  const shown = value.toFixed(DIGITS);
  return Number(shown) === 0 ? shown.replace("-", "") : shown.replace(/0+$/, "").replace(/\.$/, "");
}

function inBrackets(value) {
  const shown = plain(value);
  return shown.startsWith("-") ? `(${shown})` : shown;
}

function joinSum(pieces) {
  if (pieces.length <= MOST_TERMS) return pieces.join(" + ") || "0";
  return [...pieces.slice(0, MOST_TERMS), `… (${pieces.length - MOST_TERMS} more)`].join(" + ");
}

export const givenText = (value) => `${plain(value)}, as given`;

export function unchangedText(value, row, column) {
  return value === -Infinity ? `masked: ${row} may not look at ${column}` : `${plain(value)}, unchanged`;
}

// A sum of products [left, right], and of single numbers [number].
export function sumText(terms, value) {
  return `${joinSum(terms.map((term) => term.map(inBrackets).join("·")))} = ${plain(value)}`;
}

export const quotientText = (above, below, value) => `${plain(above)} / ${below} = ${plain(value)}`;

// The weight of one score among those of its row.
export function softmaxText(own, row, value) {
  if (own === -Infinity) return `masked, so the weight is ${plain(value)}`;
  const scores = row.filter((score) => score !== -Infinity);
  const highest = Math.max(...scores);
  const shift = highest > 50 ? highest : 0; // e^50 has 22 digits: nobody wants to read them
  const powers = joinSum(scores.map((score) => `e^${inBrackets(score - shift)}`));
  const total = scores.reduce((sum, score) => sum + Math.exp(score - shift), 0);
  const quotient = `${plain(Math.exp(own - shift))} / ${plain(total)}`;
  return `e^${inBrackets(own - shift)} / (${powers}) = ${quotient} = ${plain(value)}`;
}
