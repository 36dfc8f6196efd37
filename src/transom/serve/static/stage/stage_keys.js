// Keys of the stage: Esc goes out, Space plays, / finds a token, [ and ] turn the scenes of the story.

const isTyping = (target) => target.closest("input, textarea, select, [role=application], dialog");

export function listenForKeys(stage) {
  const onKey = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (act(event, stage)) event.preventDefault();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}

function act(event, stage) {
  if (event.key === "Escape") return stage.goOut();
  if (event.key === "/") return stage.header.focusSearch();
  if (event.key === "[" || event.key === "]") return stage.reading.turnScene(event.key === "]" ? 1 : -1);
  const isOnButton = event.target.closest("button, a, [role=button], summary");
  if (event.key !== " " || isOnButton) return false;
  stage.player.toggleplay();
  return true;
}
