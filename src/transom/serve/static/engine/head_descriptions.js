// What a head does, in plain words, as in transom/lens/metrics/head_descriptions.py.

const EVEN = 0.85;
const SINK = 0.4;
const [MOST, OFTEN] = [0.5, 0.25];
const FOCUSED = 0.6;
const FEWEST_ROWS = 3;
const BACK = 1.5;
const PLACES = {
  sink: "the first token",
  own: "its own token",
  previous: "the token before",
  next: "the token after",
};
const COPIES = {
  induction: "what followed an earlier copy of its own token (induction)",
  retrieval: "an earlier copy of the token that comes next (retrieval)",
  duplicate: "earlier copies of its own token",
};

const percent = (share) => `${Math.floor(100 * share + 0.5)} %`;
const howOften = (share) => (share >= MOST ? "mostly" : "often");

// One sentence from the measures of a head; null if they say nothing.
export function describeHead(values, counts, isCross) {
  if (values.confidence === null || values.entropy === null) return null;
  const other = isCross ? " of the other text" : "";
  if (values.entropy >= EVEN) return `spreads evenly over ${isCross ? "all of the other text" : "all it may see"}`;
  const parts = describePlaces(values, other);
  const copies = Object.keys(COPIES).filter((name) => counts[name] >= FEWEST_ROWS && values[name] >= OFTEN);
  const [best] = copies.sort((one, another) => values[another] - values[one]);
  if (best) parts.push(`where it can, ${howOften(values[best])} reads ${COPIES[best]}: ${percent(values[best])}`);
  return parts.join("; ") || describeFocus(values, other);
}

// The places that get a large share of the weight, the largest first.
function describePlaces(values, other) {
  const shares = Object.entries(PLACES).map(([name, words]) => [values[name] ?? 0, words]);
  if (shares[0][0] >= MOST) shares[0][1] += " (a sink)";
  const largest = Math.max(...shares.map(([share]) => share));
  const isElsewhere = values.largest_sink >= SINK && values.largest_sink > largest;
  if (isElsewhere) shares.push([values.largest_sink, `one and the same token${other} (a sink)`]);
  const named = shares.filter(([share]) => share >= OFTEN).sort(([one], [another]) => another - one);
  return named.slice(0, 2).map(([share, words]) => `${howOften(share)} reads ${words}: ${percent(share)}`);
}

// How many tokens it reads, and how far away, where no place is named.
function describeFocus({ confidence, entropy, distance }, other) {
  const many = entropy < MOST ? "a few" : "many";
  const what = confidence >= FOCUSED ? `reads one token${other} at a time` : `reads ${many} tokens${other}`;
  const away = (distance ?? 0) >= BACK ? `, ${Math.floor(distance + 0.5)} tokens away` : "";
  return other ? what : `${what}${away}, by no rule measured here`;
}
