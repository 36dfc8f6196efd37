// The question of a screen: an answer is chosen or typed before the numbers are shown, and judged by the checker.

import { post } from "../api.js";
import { button, make, row } from "../dom.js";
import { announce, withErrors } from "../state.js";

// Choices as buttons, or a field for a number; `onAnswer` gets the verdict, or null if the reader only wants to see.
export function buildQuestion(predict, request, onAnswer) {
  const form = make("form", { class: "lesson-ask", onsubmit: (event) => event.preventDefault() });
  form.append(make("p", {}, make("strong", {}, "Predict: "), predict.ask));
  const skip = button("Show me", () => onAnswer(null), { type: "button" });
  if (predict.choices.length) {
    const choose = (choice) => onAnswer({ said: choice.says, right: choice.right, causes: choice.causes });
    const choices = predict.choices.map((choice) => button(choice.says, () => choose(choice), { type: "button" }));
    form.append(row(...choices, skip));
    return form;
  }
  const field = make("input", {
    type: "text",
    inputmode: "decimal",
    "aria-label": "Your answer",
    size: 10,
    maxlength: 60,
  });
  form.addEventListener(
    "submit",
    () => withErrors(async () => onAnswer(await judge(field.value.trim(), predict, request))),
  );
  form.append(row(field, make("button", { class: "main" }, "Answer"), skip));
  form.append(make("p", { class: "hint" }, digitsHint(predict.digits)));
  return form;
}

function digitsHint(digits) {
  return digits ? `A number with ${digits} decimal${digits > 1 ? "s" : ""}.` : "A whole number.";
}

// The checker's word; a page without a server compares the digits and knows no cause.
async function judge(said, predict, request) {
  if (!/^[-−+]?\d*[.,]?\d+$/.test(said)) {
    throw new Error(`an answer must be a number, but got “${said}”; type digits, like 0.25`);
  }
  const answer = said.replace(",", ".").replace("−", "-");
  if (!request) {
    const right = Math.abs(Number(answer) - Number(predict.right)) <= 0.5 * 10 ** -predict.digits + 1e-9;
    return { said, right, causes: [] };
  }
  const { right, causes } = await post("/api/lessons/answer", { ...request, answer });
  return { said, right, causes };
}

// What is right and why, and for a wrong answer the cause that the checker finds.
export function buildVerdict(predict, verdict) {
  const place = make("div", {
    class: `lesson-ask ${verdict ? (verdict.right ? "right" : "wrong") : ""}`,
    role: "status",
  });
  place.append(make("p", {}, make("strong", {}, "Predict: "), predict.ask));
  if (verdict) {
    const text = verdict.right ? "Right." : `Not quite: you said ${verdict.said}.`;
    place.append(make("p", {}, make("strong", {}, `${verdict.right ? "✓" : "✗"} ${text}`)));
    announce(text);
    for (const cause of verdict.right ? [] : verdict.causes) {
      place.append(make("p", { class: "lesson-cause" }, `Likely: ${cause}.`));
    }
  }
  place.append(make("p", {}, `Answer: ${predict.right}. ${predict.because}`));
  return place;
}
