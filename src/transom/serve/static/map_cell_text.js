// What is at a cell of a map, in words.

import { changeText } from "./explained.js";
import { keyTokens, rowTokens } from "./state.js";
import { displayToken, formatNumber } from "./token_text.js";

const placeName = (index, tokens) =>
  tokens[index] === undefined ? `${index}` : `${index} ${displayToken(tokens[index])}`;

// `found` is the number there and how many edges a side it covers.
export function cellText(row, key, found, about) {
  return `row ${placeName(row, rowTokens())}, column ${placeName(key, keyTokens())}, ${describe(found, about)}`;
}

function describe({ value, side }, { isSigned, pool, explained }) {
  const pooled = pool === "max" ? "largest" : "mean";
  if (explained) {
    const change = changeText(value, explained);
    return side === 1 ? `influence ${change}` : `${pooled} influence of ${side} × ${side}: ${change}`;
  }
  const less = isSigned ? " less the other run's" : "";
  if (side === 1) return `weight${less} ${formatNumber(value)}`;
  return `${pooled} weight of ${side} × ${side}${less}: ${formatNumber(value)}`;
}
