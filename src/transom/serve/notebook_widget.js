// What joins the page of a run, in a frame of a notebook, to Python: both tell each other what is chosen, by messages. It
// shows nothing itself: the frame is the output of the cell, so that a saved notebook shows it without a kernel too.

const NAMES = ["attention", "head", "row", "key"];

const isIndex = (value) => value === null || (Number.isInteger(value) && value >= 0);

function initialize({ model }) {
  const frames = () => [...document.querySelectorAll(`[data-transom-view="${model.get("view")}"] iframe`)];
  const send = () => frames().forEach((frame) => frame.contentWindow?.postMessage({ transom: model.get("chosen") }, "*"));
  const receive = (event) => {
    if (!event.data?.transom || !frames().some((frame) => frame.contentWindow === event.source)) return;
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
  send(); // to a page that was ready before
  return () => {
    removeEventListener("message", receive);
    model.off("change:chosen", send);
  };
}

export default { initialize };
