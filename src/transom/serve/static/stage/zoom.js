// Going in and out: the inner level grows from the rectangle of its small picture, and shrinks back to it.

import { prefersReducedMotion } from "../state.js";

const DURATION = 420; // milliseconds
const EASING = "cubic-bezier(.2, 0, 0, 1)";
const FADED = 0.15;

// `inner` covers its small picture at `rect` of `outer`; `inwards` says which of them is to stay. Resolves when done.
export async function zoom(outer, inner, rect, inwards) {
  const [from, to] = inwards ? [outer, inner] : [inner, outer];
  if (prefersReducedMotion() || !rect || !from.animate) {
    from.remove();
    return;
  }
  const { width, height } = outer.parentElement.getBoundingClientRect();
  const small = `translate(${rect.x}px, ${rect.y}px) scale(${rect.w / width}, ${rect.h / height})`;
  const large = `translate(${-rect.x * (width / rect.w)}px, ${-rect.y * (height / rect.h)}px) scale(${
    width / rect.w
  }, ${height / rect.h})`;
  const clipped = Math.min(6, width / rect.w);
  const grown = width / rect.w > 6 ? `scale(${clipped})` : large;
  outer.style.transformOrigin = width / rect.w > 6 ? `${rect.x + rect.w / 2}px ${rect.y + rect.h / 2}px` : "0 0";
  inner.style.transformOrigin = "0 0";
  const innerFrames = [{ transform: small, opacity: 0 }, { transform: "none", opacity: 1 }];
  const outerFrames = [{ transform: "none", opacity: 1 }, { transform: grown, opacity: FADED }];
  const options = { duration: DURATION, easing: EASING, direction: inwards ? "normal" : "reverse" };
  from.inert = true;
  const running = [inner.animate(innerFrames, options), outer.animate(outerFrames, options)];
  await Promise.allSettled(running.map((one) => one.finished));
  from.remove();
  to.style.transformOrigin = "";
}
