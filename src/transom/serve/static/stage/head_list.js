// Which heads mattered for the chosen token: those that helped it most and those that hindered it most, as a list.

import { headName } from "../attention_names.js";
import { button, hint, make } from "../dom.js";
import { isOffline } from "../offline.js";
import { nextOf, quote } from "../prediction_text.js";
import { withErrors } from "../state.js";
import { knockOut } from "./taken_out.js";
import { worthOf } from "./worth_text.js";

const HELPERS = 5;
const HINDERERS = 2;

const share = (value) => (value > 0.9995 ? "> 99.9" : (100 * value).toFixed(1));

// Null where nothing can be followed back to a prediction.
export function headList(stage) {
  const { data, now, run, shape } = stage;
  const influence = shape.predicts ? data.influence(now.token) : null;
  if (influence?.by !== "influence") return null;
  const all = influence.heads.flatMap((changes, index) =>
    changes.map((change, head) => ({ index, head, change: change ?? 0 }))
  );
  all.sort((one, other) => one.change - other.change);
  const helpers = all.slice(0, HELPERS).filter((one) => one.change < 0);
  const hinderers = all.slice(-HINDERERS).reverse().filter((one) => one.change > 0);
  const { token, probability } = nextOf(run, now.token);
  if (probability === null) return null;
  const lines = [...helpers, ...hinderers].map((one) => headLine(stage, one));
  const isMeasured = [...helpers, ...hinderers].every((one) => stage.withoutHead.has(`${one.index} ${one.head}`));
  const measure = button("Measure these by knocking each out", () => measureAll(stage, [...helpers, ...hinderers]), {
    type: "button",
  });
  return make(
    "details",
    { class: "head-list", open: stage.isListOpen, ontoggle: (event) => (stage.isListOpen = event.target.open) },
    make("summary", {}, `Heads that mattered for ${quote(token)}`),
    hint(`Its probability without the head; with all heads ${share(probability)} %.`),
    make("ol", {}, lines),
    run.model && !isOffline && !isMeasured ? measure : null,
  );
}

function headLine(stage, { index, head }) {
  const worth = worthOf(stage, index, head);
  const verb = worth.change <= 0 ? "helps" : "hinders";
  const open = () => stage.open({ level: 3, attention: index, head, row: null });
  const after = `${share(worth.after)} %${worth.isMeasured ? "" : " (estimate)"}`;
  const name = button(headName(index, head), open, { type: "button", class: "plain" });
  return make("li", { class: verb }, name, make("span", { class: "share" }, `${verb}: ${after}`));
}

// One run of the model for each head that was not knocked out before.
async function measureAll(stage, heads) {
  const { run, withoutHead } = stage;
  for (const { index, head } of heads.filter((one) => !withoutHead.has(`${one.index} ${one.head}`))) {
    const edges = [{ layer: run.attentions[index].name, head }];
    const found = await withErrors(() => knockOut(run, edges));
    if (!found || stage.run !== run) return;
    withoutHead.set(`${index} ${head}`, found);
    stage.refresh();
  }
}
