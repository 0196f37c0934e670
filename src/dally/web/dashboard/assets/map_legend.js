// The legend: what colours mean; pointing at an entry shows its jobs, a click pins them.

import { el } from "./map_dom.js";

const ALWAYS = [["idle", "idle"], ["draining", "draining"], ["down", "down"]];

export class Legend {
  constructor(list, map) {
    Object.assign(this, { list, map, key: "", holds: new Map() });
  }

  show(colouring, theme) {
    const entries = colouring.legend();
    for (const { label, holds } of entries) this.holds.set(`${colouring.mode} ${label}`, holds);
    const key = JSON.stringify([colouring.mode, theme.kind, entries.map(({ label, colour }) => [label, colour])]);
    if (key === this.key) return;
    this.key = key;
    if (this.map.shown) this.map.preview(null);  // a button that goes tells of no pointer that leaves it
    const jobs = el("li", {}, el("i", { class: "swatch jobs" }), "all GPUs of a job in one colour");
    const first = colouring.mode === "job" ? [jobs] : [];
    const rest = ALWAYS.map(([kind, label]) => el("li", {}, el("i", { class: `swatch ${kind}` }), label));
    this.list.replaceChildren(...first, ...entries.map((entry) => this.#entry(entry, `${colouring.mode} ${entry.label}`)), ...rest, ramp(theme));
    paintStripes(jobs.firstChild, theme);
  }

  // Which jobs an entry stands for may change while it stands there.
  #entry({ label, colour }, name) {
    const holds = (job) => this.holds.get(name)(job);
    const swatch = el("i", { class: colour ? "swatch" : "swatch other" });
    if (colour) swatch.style.backgroundColor = colour;
    const preview = (on) => () => this.map.preview(on ? { holds, words: label } : null);
    return el("li", {}, el("button", {
      type: "button",
      onpointerenter: preview(true),
      onpointerleave: preview(false),
      onfocus: preview(true),
      onblur: preview(false),
      onclick: () => this.map.choose({ holds, words: label }),
    }, swatch, label));
  }
}

function paintStripes(swatch, theme) {
  const { colours } = theme.palette;
  const parts = [16, 4, 10, 22, 1].map((at, place) => `${colours[at]} ${20 * place}% ${20 * (place + 1)}%`);
  swatch.style.backgroundImage = `linear-gradient(90deg, ${parts.join(", ")})`;
}

function ramp(theme) {
  const bar = el("i", { class: "swatch ramp" });
  bar.style.backgroundImage = `linear-gradient(90deg, ${theme.loads.join(", ")})`;
  return el("li", { class: "links" }, "links: 0 %", bar, "100 % busy");
}
