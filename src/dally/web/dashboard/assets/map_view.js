// What part of the map is seen: pixels of a GPU, and where the upper left corner lies.

export const EDGE = 10;  // pixels left free around everything
export const CLOSEST = 64;  // pixels of a GPU, at the most
const GLIDE_MS = 260;
const GPU_PX = 5;  // from so many pixels on, single GPUs are drawn
const MACHINE_PX = 6.5;  // machines
const DOMAIN_PX = 16;  // domains above them

const eased = (share) => 1 - (1 - share) ** 3;
const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

export class View {
  constructor(changed) {
    this.changed = changed;
    Object.assign(this, { width: 1, height: 1, unit: 1, x: 0, y: 0, layout: null, touched: false });
  }

  show(layout, width, height) {
    Object.assign(this, { layout, width, height });
    if (this.touched) this.#place(this.unit, this.x, this.y);
    else this.fit(false);
  }

  get whole() {
    const { width, height } = this.layout;
    return Math.min((this.width - 2 * EDGE) / width, (this.height - 2 * EDGE) / height, CLOSEST);
  }

  // "gpu", or the tier whose domains are the smallest that are drawn.
  get level() {
    const { layout, unit } = this;
    if (unit >= GPU_PX) return "gpu";
    const last = Math.max(0, layout.tree.root - 1);
    for (let tier = 0; tier < last; tier += 1) {
      const side = Math.min(layout.typical[tier].w, layout.typical[tier].h) * unit;
      if (side >= (tier ? DOMAIN_PX : MACHINE_PX)) return tier;
    }
    return last;
  }

  // The tier of what is walked over and picked at this level.
  get tier() {
    return this.level === "gpu" ? 0 : this.level;
  }

  px(x) {
    return (x - this.x) * this.unit;
  }

  py(y) {
    return (y - this.y) * this.unit;
  }

  world(px, py) {
    return { x: this.x + px / this.unit, y: this.y + py / this.unit };
  }

  fit(glide = true) {
    this.touched = false;
    const unit = this.whole;
    this.#go({ unit, ...this.#centred(unit, this.layout.width / 2, this.layout.height / 2) }, glide);
  }

  // A factor about a point of the screen.
  zoom(factor, px = this.width / 2, py = this.height / 2, glide = false) {
    const from = this.aim || this;
    const unit = Math.min(CLOSEST, Math.max(this.whole, from.unit * factor));
    this.touched = unit > this.whole * 1.001;
    const at = { x: from.x + px / from.unit, y: from.y + py / from.unit };
    this.#go({ unit, x: at.x - px / unit, y: at.y - py / unit }, glide);
  }

  pan(dx, dy) {
    this.touched = true;
    this.#go({ unit: this.unit, x: this.x - dx / this.unit, y: this.y - dy / this.unit }, false);
  }

  // So that a box of the map fills most of the screen.
  reach(box, least = 0, share = 0.86) {
    const fits = share * Math.min(this.width / box.w, this.height / box.h);
    const unit = Math.min(CLOSEST, Math.max(this.whole, fits, least));
    this.touched = true;
    this.#go({ unit, ...this.#centred(unit, box.x + box.w / 2, box.y + box.h / 2) }, true);
  }

  // Only if it is outside.
  bring(box) {
    const { unit, x, y } = this.aim || this;
    const [left, top, right, bottom] = [box.x - x, box.y - y, box.x + box.w - x, box.y + box.h - y];
    if (left >= 0 && top >= 0 && right * unit <= this.width && bottom * unit <= this.height) return;
    this.touched = true;
    this.#go({ unit, ...this.#centred(unit, box.x + box.w / 2, box.y + box.h / 2) }, true);
  }

  // Called for every frame while something moves; says whether it goes on.
  step(now) {
    if (!this.aim) return false;
    const share = Math.min(1, (now - this.left.at) / GLIDE_MS);
    const part = eased(share);
    const unit = this.left.unit * (this.aim.unit / this.left.unit) ** part;
    // The corner follows the scale, so that what is aimed at stays in line.
    const far = 1 / this.left.unit - 1 / this.aim.unit;
    const along = Math.abs(far) < 1e-9 ? part : (1 / this.left.unit - 1 / unit) / far;
    const [x, y] = ["x", "y"].map((side) => this.left[side] + (this.aim[side] - this.left[side]) * along);
    if (share === 1) this.aim = null;
    this.#place(unit, x, y);
    return true;
  }

  #centred(unit, x, y) {
    return { x: x - this.width / 2 / unit, y: y - this.height / 2 / unit };
  }

  #go(aim, glide) {
    const { unit } = aim;
    const x = this.#held(aim.x, unit, this.width, this.layout.width);
    const held = { unit, x, y: this.#held(aim.y, unit, this.height, this.layout.height) };
    this.aim = null;
    if (!glide || calm()) return this.#place(held.unit, held.x, held.y);
    this.left = { unit: this.unit, x: this.x, y: this.y, at: performance.now() };
    this.aim = held;
    return this.changed();
  }

  #place(unit, x, y) {
    this.unit = Math.min(CLOSEST, Math.max(this.whole, unit));
    this.x = this.#held(x, this.unit, this.width, this.layout.width);
    this.y = this.#held(y, this.unit, this.height, this.layout.height);
    this.changed();
  }

  // The map is never pushed out of sight; what is smaller than the screen stands in its middle.
  #held(corner, unit, pixels, extent) {
    const seen = pixels / unit;
    const edge = EDGE / unit;
    if (seen >= extent + 2 * edge) return (extent - seen) / 2;
    return Math.min(extent + edge - seen, Math.max(-edge, corner));
  }
}
