// The receipt of an attention: its weights, as they are shown, times its values must give the output that was used.

const EPS = 2 ** -23;
const EXPONENTIALS = 64; // the relative error of a weight, in units of EPS, as in transom/lens/attention/receipt.py

// The number that comes closest to its bound; an error if one exceeds it.
export function checkReceipt(attention) {
  const { name, heads, queries } = attention;
  let worst = { ratio: 0, difference: 0, bound: 0 };
  for (let head = 0; head < heads; head += 1) {
    for (let row = 0; row < queries; row += 1) worst = worstOf(attention, head, row, worst);
  }
  const { difference, bound } = worst;
  const said = `${exponent(difference)} of ${exponent(bound)}`;
  if (difference > bound) {
    throw new Error(`the weights of '${name}' do not reproduce the output that the model used (FAILS: ${said})`);
  }
  return { holds: true, said: `holds: ${said}` };
}

function worstOf({ weights, V, joined, heads, width, keys }, head, row, worst) {
  const line = heads * width;
  for (let i = head * width; i < (head + 1) * width; i += 1) {
    let sum = 0;
    let magnitude = 0;
    for (let key = 0; key < keys; key += 1) {
      const product = weights[head][row * keys + key] * V[key * line + i];
      sum += product;
      magnitude += Math.abs(product);
    }
    const difference = Math.abs(sum - joined[row * line + i]);
    const bound = EXPONENTIALS * EPS * magnitude;
    const ratio = difference > 0 ? difference / bound : 0;
    if (ratio >= worst.ratio) worst = { ratio, difference, bound };
  }
  return worst;
}

// As Python writes 1.2e-07.
function exponent(number) {
  const [digits, power] = number.toExponential(1).split("e");
  return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}
