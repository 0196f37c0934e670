// A part of a page that fetches itself anew holds still while somebody presses something in it: a button that is
// replaced between press and release is never clicked. What came meanwhile is put in place right after.

let pressed = null;
const kept = new Map(); // by part: the latest answer

function press(event) {
  if (event.type === "keydown" ? event.key === " " : event.button === 0) pressed = event.target;
}

function release() {
  if (pressed === null) return;
  pressed = null;
  setTimeout(catchUp); // after the click
}

function catchUp() {
  if (pressed !== null) return;
  for (const [target, { serverResponse: text, requestConfig, ...about }] of kept) {
    const contextElement = requestConfig.elt;
    const eventInfo = { ...about, requestConfig, target };
    if (target.isConnected) window.htmx.swap(target, text, { swapStyle: "innerHTML", settleDelay: 0 }, { contextElement, eventInfo });
  }
  kept.clear();
}

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const { target, requestConfig } = detail;
  kept.delete(target);
  if (!detail.shouldSwap || !target.contains(pressed) || !target.contains(requestConfig.elt)) return;
  detail.shouldSwap = false;
  kept.set(target, { ...detail });
});
for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, press, true);
for (const kind of ["pointerup", "pointercancel", "keyup"]) document.addEventListener(kind, release, true);
window.addEventListener("blur", release);
