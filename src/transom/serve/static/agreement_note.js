// Beside every picture of what mattered: how far estimates agree with true knock-outs of random arrows. It is asked for
// after the picture, a few knock-outs at a time; where they take long, only if a person wants to wait.

import { get } from "./api.js";
import { button, hint, make } from "./dom.js";
import { formatChange } from "./explained.js";
import { isOffline } from "./offline.js";
import { state } from "./state.js";

const STEPS = [4, 16]; // arrows that are knocked out
const QUICK = 5; // seconds of a forward and a backward pass up to which the knock-outs are made unasked
const KNOCK_OUT = 0.4; // of such a pass

const known = new Map(); // by run and token: the largest sample so far

const formatR = (number) => (number === null ? "–" : number.toFixed(2));

export function agreementSentence({ samples, pearson, rank, worst, near_one: nearOne, ...found }) {
  if (!samples) return "No arrow reaches this prediction, so nothing could be compared.";
  const some = found.small_steps < samples && found.pearson_of_small_steps !== null
    ? ` (${formatR(found.pearson_of_small_steps)} for the ${found.small_steps} with up to 0.9 of a row’s weight)`
    : "";
  const most = `the furthest was ${formatChange(worst.estimate)} for ${formatChange(worst.change)}`;
  const beyond = nearOne
    ? ` ${nearOne} arrows of the model have over 0.9 of a row’s weight: taking one out is a large step.`
    : "";
  return `Agreement: ${samples} random arrows of all heads were knocked out truly. Estimates correlate with what ` +
    `that did: Pearson ${formatR(pearson)}${some}, ranks ${formatR(rank)}; ${most}.${beyond}`;
}

export class AgreementNote {
  constructor() {
    this.text = hint();
    this.progress = make("progress", { max: STEPS.at(-1), hidden: true, "aria-label": "knocking arrows out truly" });
    this.more = make("span");
    this.element = make("div", { class: "agreement" }, this.text, this.progress, this.more);
  }

  // For the estimates of a prediction that took so many seconds; nothing where none is shown.
  show(token, seconds) {
    const { run } = state.now;
    const name = `${run} ${token}`;
    if (this.name === name) return;
    this.close();
    if (token === null || isOffline) return;
    Object.assign(this, { name, aborting: new AbortController() });
    const found = known.get(name);
    if (found) this.write(found);
    if (found?.isAll) return;
    if (seconds <= QUICK) this.measure(`/api/runs/${run}/agreement`, token);
    else this.offer(`/api/runs/${run}/agreement`, token, seconds);
  }

  close() {
    this.aborting?.abort();
    this.name = null;
    this.text.textContent = "";
    this.progress.hidden = true;
    this.more.replaceChildren();
  }

  offer(path, token, seconds) {
    const wait = Math.round(STEPS[0] * KNOCK_OUT * seconds);
    this.text.textContent ||= "First-order estimates; how far they agree with true knock-outs was not tried yet.";
    const title = `Knock out ${STEPS[0]} random arrows to compare (about ${wait} s)`;
    this.more.replaceChildren(button(title, () => this.measure(path, token, [STEPS[0]]), { type: "button" }));
  }

  async measure(path, token, steps = STEPS) {
    const { name, aborting: { signal } } = this;
    this.more.replaceChildren();
    this.text.textContent ||= "First-order estimates, now compared with true knock-outs of random arrows …";
    this.progress.removeAttribute("value");
    this.progress.hidden = false;
    try {
      for (const samples of steps) {
        const found = await get(path, { token, samples }, signal);
        if (signal.aborted) return;
        const isAll = samples === STEPS.at(-1) || found.samples < samples; // no more arrows reach it
        known.set(name, { ...found, isAll });
        this.write(found);
        this.progress.value = found.samples;
        if (isAll) break;
      }
    } catch (error) {
      if (!signal.aborted) this.text.textContent = `How far the estimates agree is not known: ${error.message}`;
    }
    if (!signal.aborted) this.progress.hidden = true;
  }

  write(found) {
    this.text.textContent = agreementSentence(found);
  }
}
