// The legend: what colours mean; pointing at an entry shows its jobs, a click pins them.

import { el } from "./map_dom.js";

const ALWAYS = [["idle", "idle"], ["draining", "draining"], ["down", "down"]];

export class Legend {
  constructor(list, map) {
    Object.assign(this, { list, map, key: "" });
  }

  show(colouring, theme) {
    const entries = colouring.legend();
    const key = JSON.stringify([colouring.mode, theme.kind, entries.map(({ label, colour }) => [label, colour])]);
    if (key === this.key) return;
    this.key = key;
    const jobs = el("li", {}, el("i", { class: "swatch jobs" }), "each job its own colour");
    const first = colouring.mode === "job" ? [jobs] : [];
    const rest = ALWAYS.map(([kind, label]) => el("li", {}, el("i", { class: `swatch ${kind}` }), label));
    this.list.replaceChildren(...first, ...entries.map((entry) => this.#entry(entry)), ...rest, ramp(theme));
    paintStripes(jobs.firstChild, theme);
  }

  #entry({ label, colour, holds }) {
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
