// Walking over the map by keyboard, at the level that is drawn: arrows step, Enter goes in, Escape goes out.

import { atLevel, beside, boxOf, jobAt, pickAt } from "./map_pick.js";
import { sentence } from "./map_words.js";

export class Walk {
  // `said` is read aloud.
  constructor(map, said) {
    Object.assign(this, { map, said, place: null });
  }

  // One step in a direction; (0, 0) says where one is.
  step(dx, dy) {
    const from = atLevel(this.map, this.place || this.#middle());
    const next = this.place && (dx || dy) ? beside(this.map, from, dx, dy) : null;
    this.#stand(next || from);
  }

  #middle() {
    const { view } = this.map;
    return pickAt(this.map, view.width / 2, view.height / 2) || { kind: "domain", tier: view.tier, domain: 0 };
  }

  #stand(place) {
    this.place = place;
    this.map.view.bring(boxOf(this.map, place));
    this.said.textContent = sentence(this.map, place);
    this.map.moved();
  }

  leave() {
    this.place = null;
    this.map.moved();
  }

  // Into a domain, or to the page of the job that has the GPU.
  enter() {
    if (!this.place) return this.step(0, 0);
    if (jobAt(this.map, this.place)) return this.map.card.open();
    if (this.place.kind === "gpu") return undefined;
    const { tier, domain } = this.place;
    this.map.goTo(this.place);
    if (!tier) return this.#stand({ kind: "gpu", tier, domain, number: 0 });
    return this.#stand({ kind: "domain", tier: tier - 1, domain: this.map.tree.first[tier][domain] });
  }

  pin() {
    if (!this.place) this.step(0, 0);
    else this.map.choose(this.map.chosenAt(this.place));
  }

  // Lets go of what is pinned, then goes up.
  out() {
    const { map } = this;
    if (map.pinned) return map.choose(null);
    if (!this.place || this.place.tier + 1 >= map.tree.root) return map.view.fit();
    if (this.place.kind === "gpu") return this.#up(this.place.tier);
    return this.#up(this.place.tier + 1);
  }

  #up(tier) {
    const { map } = this;
    const { tier: from, domain } = this.place;
    const above = Math.min(tier + 1, map.tree.root);
    map.view.reach(map.layout.box(above, map.tree.over(from, domain, above)));
    this.#stand({ kind: "domain", tier, domain: map.tree.over(from, domain, tier) });
  }
}
