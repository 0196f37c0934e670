// The jobs beside the map: a row that is pointed at shows its job on the map, and a job on the map its row.

export class JobList {
  constructor(box, map) {
    Object.assign(this, { box, map, key: "" });
    for (const kind of ["pointerover", "focusin"]) box.addEventListener(kind, (event) => this.#pointed(event.target));
    for (const kind of ["pointerleave", "focusout"]) box.addEventListener(kind, () => this.#pointed(null));
    box.addEventListener("htmx:afterSwap", () => { this.key = ""; map.redraw(false); });
  }

  #pointed(target) {
    const row = target?.closest("[data-beside]");
    if (!this.map.tree) return;
    this.map.preview(row ? { holds: (job) => job.id === row.dataset.beside, words: row.dataset.beside } : null);
  }

  // Jobs that stand out on the map; null: none.
  mark(jobs) {
    const ids = new Set(jobs?.map((job) => job.id));
    const key = [...ids].join("\n");
    if (key === this.key) return;
    this.key = key;
    for (const row of this.box.querySelectorAll("[data-beside]")) row.classList.toggle("pointed", ids.has(row.dataset.beside));
  }
}
