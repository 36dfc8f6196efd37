// Fingers on an element, or a pressed mouse: one pans, two zoom about the point between them.

const point = ({ offsetX, offsetY }) => ({ offsetX, offsetY });

// The middle between two pointers, and how far they are apart; one alone is its own middle.
function gesture(pointers) {
  const [one, other = one] = pointers.values();
  const across = one.offsetX - other.offsetX;
  const down = one.offsetY - other.offsetY;
  const distance = Math.max(1, Math.hypot(across, down));
  return { offsetX: one.offsetX - across / 2, offsetY: one.offsetY - down / 2, distance };
}

// Call `onMove` with the gesture before and now, and `onPoint` where something is pointed at or touched.
export function trackPointers(element, onPoint, onMove) {
  const pointers = new Map();
  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, point(event));
    onPoint(event);
  });
  element.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) {
      onPoint(event);
      return;
    }
    const before = gesture(pointers);
    onMove(before, gesture(pointers.set(event.pointerId, point(event))));
  });
  for (const end of ["pointerup", "pointercancel"]) {
    element.addEventListener(end, (event) => pointers.delete(event.pointerId));
  }
}
