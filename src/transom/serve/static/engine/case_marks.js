// Capitals written as marks, as in transom/text/case_marks.py: a word is the same token in every case.

const [CAPITALISED, AS_IT_IS, ESCAPE, ALL_CAPITALS] = ["\x0e", "\x0f", "\x10", "\x11"];
export const MARKS = "[\x0e-\x11]";
export const LABELS = { [CAPITALISED]: "↑", [ALL_CAPITALS]: "⇈", [AS_IT_IS]: "↓", [ESCAPE]: "␛" };
const LETTERS = "[\\p{L}\\p{Nl}\\p{No}]+"; // what Python calls a letter: \w without decimal digits and _
const DIGIT = "\\p{Nd}";
const WORD = new RegExp(`( ?)(${LETTERS})|(${MARKS})|(${DIGIT})`, "gu");
const MARKED = new RegExp(
  `${ESCAPE}(${MARKS})|([${CAPITALISED}${AS_IT_IS}${ALL_CAPITALS}])?( ?)(${LETTERS})|${MARKS}|(${DIGIT})`,
  "gu",
);

function capitalise(word) {
  const first = String.fromCodePoint(word.codePointAt(0));
  return first.toUpperCase() + word.slice(first.length);
}

const isLong = (word) => word.length > String.fromCodePoint(word.codePointAt(0)).length;

// A text in lower case, with marks, and with a space before it.
export function markCase(text) {
  let first = true;
  const mark = (_, space, word, control, digit) => {
    const expected = first;
    first = first && control !== undefined;
    if (control !== undefined) return ESCAPE + control;
    if (digit !== undefined) return digit;
    const lower = word.toLowerCase();
    const isMixed = word !== lower && isLong(word);
    if (isMixed && capitalise(lower) === word) return `${expected ? "" : CAPITALISED}${space}${lower}`;
    if (isMixed && lower.toUpperCase() === word) return `${ALL_CAPITALS}${space}${lower}`;
    return `${expected && capitalise(word) !== word ? AS_IT_IS : ""}${space}${word}`;
  };
  return text ? ` ${text}`.replace(WORD, mark) : "";
}

// The text that `markCase` read; a mark without a word is left out.
export function restoreCase(text) {
  let first = true;
  const restore = (_, control, mark, space, word, digit) => {
    const expected = first;
    first = first && word === undefined && digit === undefined;
    if (control !== undefined) return control;
    if (word === undefined) return digit ?? "";
    if (mark === ALL_CAPITALS) return space + word.toUpperCase();
    const isCapital = mark === CAPITALISED || (expected && mark === undefined);
    return space + (isCapital ? capitalise(word) : word);
  };
  const restored = text.replace(MARKED, restore);
  return restored.startsWith(" ") ? restored.slice(1) : restored;
}
