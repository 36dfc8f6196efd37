// What the signs of the picture of the whole model mean.

import { make } from "../dom.js";
import { nextOf, quote } from "../prediction_text.js";

export function legend({ data, now, run, shape }) {
  const influence = data.influence(now.token);
  const next = quote(nextOf(run, now.token)?.token);
  const light = influence?.by === "carried"
    ? [["pane", "a head: the brighter, the more it carries"]]
    : influence === undefined
    ? [["pane", "a head; its light is being computed …"]]
    : [["pane", `a head that helps ${next}: the brighter, the more`], ["pane hinders", `a head that hinders ${next}`]];
  const ribbon = now.by === "influence" && influence?.edges
    ? "what mattered, all heads together; violet hinders"
    : "what a token reads, the mean of the heads";
  const items = [
    ...light,
    ["ribbon", ribbon],
    shape.lanes.length > 1 ? ["memory", "the memory: what the encoder gives for each token"] : null,
    ["plus", "added to the token, after a norm"],
    ["gauge", "what the feed-forward part adds"],
    ["", "layers, heads and tokens are counted from 0"],
  ];
  const item = ([kind, text]) => make("li", {}, make("span", { class: `sign ${kind}`, "aria-hidden": "true" }), text);
  return make("ul", { class: "stage-legend" }, items.filter((one) => one).map(item));
}
