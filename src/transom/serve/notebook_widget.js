// The page of a run as a widget of a notebook: it lives in a frame that cannot reach the notebook, and both tell each
// other what is chosen, by messages.

const NAMES = ["attention", "head", "row", "key"];
const HEIGHT = "760px";

const isIndex = (value) => value === null || (Number.isInteger(value) && value >= 0);

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.title = "The attention of one run";
  Object.assign(frame.style, { width: "100%", height: HEIGHT, border: "0" });
  const send = () => frame.contentWindow?.postMessage({ transom: model.get("chosen") }, "*");
  const receive = (event) => {
    if (event.source !== frame.contentWindow || !event.data?.transom) return;
    if (event.data.transom === "ready") {
      send();
      return;
    }
    const chosen = Object.fromEntries(NAMES.map((name) => [name, event.data.transom[name] ?? null]));
    if (!Object.values(chosen).every(isIndex) || chosen.attention === null || chosen.head === null) return;
    model.set("chosen", chosen);
    model.save_changes();
  };
  addEventListener("message", receive);
  model.on("change:chosen", send);
  frame.srcdoc = model.get("html");
  el.append(frame);
  return () => {
    removeEventListener("message", receive);
    model.off("change:chosen", send);
  };
}

export default { render };
