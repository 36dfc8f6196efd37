// Fingers on an element, or a mouse that is pressed: one moves what is there, two zoom it about the point between them.

const point = ({ offsetX, offsetY }) => ({ offsetX, offsetY });

// The middle between two fingers, and how far they are apart; one alone is its own middle.
function held(fingers) {
  const [one, other = one] = fingers.values(), across = one.offsetX - other.offsetX, down = one.offsetY - other.offsetY;
  return { offsetX: one.offsetX - across / 2, offsetY: one.offsetY - down / 2, apart: Math.max(1, Math.hypot(across, down)) };
}

// Call `moved` with what was held before and what is held now, and `read` where something is pointed at or touched.
export function follow(element, read, moved) {
  const fingers = new Map();
  element.addEventListener("pointerdown", (event) => { element.setPointerCapture(event.pointerId); fingers.set(event.pointerId, point(event)); read(event); });
  element.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) { read(event); return; }
    const before = held(fingers);
    moved(before, held(fingers.set(event.pointerId, point(event))));
  });
  for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, (event) => fingers.delete(event.pointerId));
}
