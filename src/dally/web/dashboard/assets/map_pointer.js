// Mouse, pen and fingers on the map: drag moves it, wheel and pinch zoom, a click pins.

const STILL = 5;  // pixels that a click may move
const PER_NOTCH = 0.0022;

export class Pointer {
  constructor(canvas, map) {
    Object.assign(this, { canvas, map, down: new Map(), moved: 0 });
    const on = (kind, act, how) => canvas.addEventListener(kind, act, how);
    on("pointerdown", (event) => this.#press(event));
    on("pointermove", (event) => this.#move(event));
    on("pointerup", (event) => this.#lift(event));
    on("pointercancel", (event) => this.down.delete(event.pointerId));
    on("pointerleave", () => { if (!this.down.size) map.point(null); });
    on("dblclick", (event) => map.into(this.#at(event)));
    on("wheel", (event) => this.#wheel(event), { passive: false });
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #press(event) {
    if (event.button) return;
    this.down.set(event.pointerId, this.#at(event));
    this.moved = this.down.size > 1 ? STILL : 0;
    this.canvas.setPointerCapture(event.pointerId);
  }

  #move(event) {
    const at = this.#at(event);
    const before = this.down.get(event.pointerId);
    if (!before) { if (event.pointerType !== "touch") this.map.point(at); return; }
    const others = [...this.down].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.moved += Math.hypot(at.x - before.x, at.y - before.y);
    if (others.length) this.#pinch(before, at, others[0]);
    else if (this.moved > STILL) this.#drag(before, at);
    this.down.set(event.pointerId, at);
  }

  #drag(before, at) {
    this.map.view.pan(at.x - before.x, at.y - before.y);
    this.canvas.classList.add("moving");
  }

  #pinch(before, at, other) {
    const apart = (one) => Math.max(1, Math.hypot(one.x - other.x, one.y - other.y));
    const [x, y] = [(at.x + other.x) / 2, (at.y + other.y) / 2];
    this.map.view.pan((at.x - before.x) / 2, (at.y - before.y) / 2);
    this.map.view.zoom(apart(at) / apart(before), x, y);
  }

  #lift(event) {
    const held = this.down.delete(event.pointerId);
    this.canvas.classList.remove("moving");
    if (held && !this.down.size && this.moved <= STILL) this.map.press(this.#at(event));
  }

  // At the farthest, wheeling out is left to the page.
  #wheel(event) {
    const { view } = this.map;
    if (event.deltaY > 0 && view.unit <= view.whole * 1.001) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const at = this.#at(event);
    view.zoom(Math.exp(-event.deltaY * lines * PER_NOTCH * (event.ctrlKey ? 4 : 1)), at.x, at.y);
  }
}
