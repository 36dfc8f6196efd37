// The arrows of a head as SVG, as in transom/show/panels/head_arrows.py.

import { makeVisible } from "../token_text.js";
import { weightBlock } from "./map_tiles.js";

const MOST_TOKENS = 64; // on each side of the arrows
const FAINTEST = 0.001;
const LEAST = 0.02; // weaker arrows are hidden until their row is chosen
const NUMBERED = 0.005; // in a chosen row, an arrow of at least this weight has its number
const LABEL = 24;
const [FROM, AT, MARK, CHOSEN, ARROW] = ["#0b6e4f", "#a04000", "#fff3c4", "#a61b1b", "#0072B2"];
const INKS = { ink: "#1b1f24", faint: "#57606a", paper: "#ffffff" };
const [SIDE, WORD, GAP, RISE, WIDEST, MARGIN] = [40, 26, 7, 190, 11, 16];
const [TOP, LOW] = [WORD + 6, WORD + 6 + RISE];
const SANS =
  "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
const BROAD =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\uff01-\uff60]/u;
const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };

const escape = (text) => text.replace(/[&<>"']/g, (sign) => ESCAPES[sign]);
const short = (number) => number.toFixed(1).replace(/\.0$/, "");
const paint = (attribute, ink) =>
  ink in INKS ? `${attribute}="${INKS[ink]}" class="${ink}-${attribute}"` : `${attribute}="${ink}"`;

function characterWidth(sign) {
  if (BROAD.test(sign)) return 1.1;
  if ("iljtfrI.,:;'|! ·".includes(sign)) return 0.4;
  if ("mwMW@%—".includes(sign)) return 1.02;
  return /\p{Lu}/u.test(sign) ? 0.7 : 0.6;
}

const textWidth = (text, size) => size * [...text].reduce((sum, sign) => sum + characterWidth(sign), 0);

// A token made visible, in at most so many columns.
function shortLabel(token) {
  const signs = [...makeVisible(token)];
  const widths = signs.map((sign) => BROAD.test(sign) ? 2 : 1);
  if (widths.reduce((sum, width) => sum + width, 0) <= LABEL) return signs.join("");
  let width = 1;
  const kept = signs.filter((_, place) => (width += widths[place]) <= LABEL);
  return `${kept.join("")}…`;
}

function textElement(x, y, text, { size = 13, anchor = "start", ink = "ink", bold = false }) {
  const attributes = [`x="${short(x)}" y="${short(y)}"`, size === 13 ? "" : ` font-size="${short(size)}"`];
  attributes.push(anchor === "start" ? "" : ` text-anchor="${anchor}"`, bold ? ' font-weight="600"' : "");
  return `<text ${attributes.join("")} ${paint("fill", ink)}>${escape(text)}</text>`;
}

function rectElement(x, y, width, height, ink) {
  return `<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" ${
    paint("fill", ink)
  }/>`;
}

// The middle and the width of each word on a line, wide enough for the text beneath it too.
function wordPositions(tokens, beneath) {
  let left = SIDE;
  return tokens.map((token, place) => {
    const own = 1.12 * textWidth(shortLabel(token), 15) + 6;
    const width = Math.max(26, own, textWidth(beneath[place] ?? "", 12) + 4);
    const x = left + width / 2;
    left += width + GAP;
    return [x, width];
  });
}

function wordElements(side, tokens, positions, y, chosen) {
  return tokens.map((token, number) => {
    const [x, width] = positions[number];
    const box = rectElement(x - width / 2, y, width, WORD, number === chosen ? MARK : "none");
    const style = { size: 15, anchor: "middle", ink: side === "from" ? FROM : AT, bold: true };
    const word = textElement(x, y + 18, shortLabel(token), style);
    return `<g class="word" id="${side}-${number}">${box}${word}</g>`;
  }).join("");
}

function arrowElement({ row, key, weight }, x, x2, tip, chosen) {
  const kind = weight >= LEAST ? "arrow" : "arrow weak";
  const curve = `C${short(x)} ${short(LOW - RISE / 2)} ${short(x2)} ${short(TOP + RISE / 2)} ${short(x2)} ${
    short(TOP)
  }`;
  const isMarked = row === chosen.row && key === chosen.key;
  const isShown = chosen.row === null ? weight >= LEAST : row === chosen.row;
  const parts = [
    `class="${kind}" data-row="${row}" data-key="${key}" fill="none" d="M${short(x)} ${short(LOW)}${curve}"`,
    `stroke-width="${Math.max(0.6, WIDEST * weight).toFixed(2)}" opacity="${(0.2 + 0.75 * weight).toFixed(2)}"`,
    isMarked ? `stroke="${CHOSEN}" stroke-dasharray="5 4"` : `stroke="${ARROW}"`,
  ];
  if (!isShown) parts.push('display="none"');
  return `<path ${parts.join(" ")}><title>${escape(tip)}</title></path>`;
}

function numberElement({ key, weight }, x) {
  const y = TOP + 16 + (key % 2) * 14;
  const text = weight.toFixed(2);
  const box = rectElement(x + 6, y - 0.82 * 12, 0.9 * textWidth(text, 12) + 2, 1.08 * 12, "paper");
  return box + textElement(x + 7, y, text, { size: 12 });
}

// The widest arrows last, and above them all the numbers, row by row.
function arrowsAndNumbers(block, starts, ends, chosen) {
  const arrows = block.weights.flatMap((row, i) => row.map((weight, key) => ({ row: i, key, weight })));
  const drawn = arrows.filter(({ row, key, weight }) => weight >= FAINTEST && block.scores[row][key] !== null);
  const [rows, keys] = [block.rows, block.keys].map((side) => side.map(makeVisible));
  const paths = drawn.sort((a, b) => a.weight - b.weight).map((arrow) => {
    const tip = `from ${rows[arrow.row]} at ${keys[arrow.key]}: weight ${arrow.weight.toFixed(2)}`;
    return arrowElement(arrow, starts[arrow.row][0], ends[arrow.key][0], tip, chosen);
  });
  const groups = rows.map((_, row) => {
    const own = drawn.filter((arrow) => arrow.row === row && arrow.weight >= NUMBERED);
    const hidden = row === chosen.row ? "" : ' display="none"';
    const inside = own.map((arrow) => numberElement(arrow, ends[arrow.key][0])).join("");
    return `<g class="numbers" data-row="${row}"${hidden}>${inside}</g>`;
  });
  return [...paths, ...groups].join("");
}

// The first tokens of each side with all arrows between them; `token` and `key` are the chosen row and key.
export function arrowsPicture(run, index, { head, token = null, key = null }) {
  const block = weightBlock(run, index, { head, first_row: 0, first_key: 0, rows: MOST_TOKENS, keys: MOST_TOKENS });
  const { predicts } = run.labels(index);
  const beneath = block.rows.map((_, row) => predicts ? `(${shortLabel(predicts[row])})` : null);
  const starts = wordPositions(block.rows, beneath);
  const isSame = String(block.rows) === String(block.keys); // then the copies of a token stand one above the other
  const ends = isSame ? starts : wordPositions(block.keys, []);
  const following = starts.map(([x], row) => {
    if (beneath[row] === null) return "";
    return textElement(x, LOW + WORD + 18, beneath[row], { size: 12, anchor: "middle", ink: "faint" });
  });
  const parts = [
    arrowsAndNumbers(block, starts, ends, { row: token, key }),
    textElement(0, 18, "at", { size: 12, ink: "faint" }),
    `<g class="at">${wordElements("at", block.keys, ends, 0, key)}</g>`,
    textElement(0, LOW + 22, "from", { size: 12, ink: "faint" }),
    `<g class="from">${wordElements("from", block.rows, starts, LOW + 4, token)}</g>`,
    `<g class="next-token">${following.join("")}</g>`,
  ];
  const right = Math.max(...[...starts, ...ends].map(([x, width]) => x + width / 2));
  return figure(run, index, head, parts.join(""), right);
}

// The drawing with its title and its source.
function figure(run, index, head, drawing, right) {
  const title = `Arrows of ${run.attention(index).name}, head ${head}`;
  const source = `model ${run.translator.name} · receipt ${run.receipts[index].said}`;
  const heading = textElement(0, 16, title, { size: 17, bold: true }) +
    textElement(0, 37, source, { size: 12, ink: "faint" });
  const width = Math.ceil(Math.max(right, 1.12 * textWidth(title, 17), textWidth(source, 12)) + 2 * MARGIN);
  const height = Math.ceil(55 + LOW + WORD + 22 + 2 * MARGIN);
  const size = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
  const label = `role="img" aria-label="${escape(`${title}. ${source}`)}" font-family="${SANS}" font-size="13"`;
  const body =
    `<g transform="translate(${MARGIN} ${MARGIN})">${heading}<g transform="translate(0 55)">${drawing}</g></g>`;
  const paper = `<rect width="${width}" height="${height}" ${paint("fill", "paper")}/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${label}>${paper}${body}</svg>`;
}
