// What a domain's GPUs are made of, as bands; kept until something in it changes.

import { DOWN, DRAINING, FREE } from "./map_state.js";

export class Shares {
  constructor(tree) {
    this.tree = tree;
    this.clear();
  }

  clear() {
    this.kept = this.tree.names.map(() => []);
  }

  // Machines of which something changed.
  touch(machines) {
    for (const machine of machines) {
      for (let [tier, domain] = [0, machine]; tier <= this.tree.root; tier += 1) {
        this.kept[tier][domain] = undefined;
        domain = this.tree.parent[tier][domain];
      }
    }
  }

  // {bands: [{fill, gpus}], the most first; free, draining, down: idle GPUs; gpus: all}.
  of(tier, domain, occupancy, colouring) {
    const known = this.kept[tier][domain];
    if (known) return known;
    const found = this.#count(this.tree.start[tier][domain], this.tree.start[tier][domain + 1], occupancy, colouring);
    this.kept[tier][domain] = found;
    return found;
  }

  #count(from, to, { seats, up }, { fill, group }) {
    const { seat } = this.tree;
    const groups = new Map();
    const idle = [0, 0, 0];
    for (let machine = from; machine < to; machine += 1) {
      for (let at = seat[machine]; at < seat[machine + 1]; at += 1) {
        const slot = seats[at];
        if (slot === FREE) { idle[up[machine]] += 1; continue; }
        const band = groups.get(group[slot]);
        if (band) band.gpus += 1;
        else groups.set(group[slot], { fill: fill[slot], gpus: 1 });
      }
    }
    const bands = [...groups.values()].sort((one, two) => two.gpus - one.gpus);
    return { bands, free: idle[0], draining: idle[DRAINING], down: idle[DOWN], gpus: seat[to] - seat[from] };
  }
}
