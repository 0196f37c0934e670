// What lies under a point, and what lies beside a place: {kind: "gpu" | "domain" | "link", tier, domain, number}.

import { LABEL, MARGIN } from "./map_layout.js";
import { uplink } from "./map_links.js";
import { FREE } from "./map_state.js";

const REACH = 6;  // pixels around a link that still are it

const within = ({ x, y, w, h }, at) => at.x >= x && at.y >= y && at.x < x + w && at.y < y + h;

export function pickAt(scene, px, py) {
  const { tree, layout, view } = scene;
  const at = view.world(px, py);
  let [tier, domain] = [tree.root, 0];
  while (tier > view.tier) {
    const link = linkAt(scene, tier, domain, px, py);
    if (link) return link;
    const child = childAt(tree, layout, tier, domain, at);
    if (child < 0) break;
    [tier, domain] = [tier - 1, child];
  }
  if (tier === tree.root) return null;
  if (tier === 0) return view.level === "gpu" ? gpuAt(layout, domain, at) : takenAt(scene, domain, at);
  return { kind: "domain", tier, domain };
}

function childAt(tree, layout, tier, domain, at) {
  const first = tree.first[tier][domain];
  for (let child = first; child < first + tree.count[tier][domain]; child += 1) {
    if (within(layout.box(tier - 1, child), at)) return child;
  }
  return -1;
}

function linkAt(scene, tier, domain, px, py) {
  if (tier < 2) return null;
  const first = scene.tree.first[tier][domain];
  for (let child = first; child < first + scene.tree.count[tier][domain]; child += 1) {
    const { x, top, bottom } = uplink(scene, tier - 1, child);
    if (Math.abs(px - x) <= REACH && py >= top - 2 && py < bottom) return { kind: "link", tier: tier - 1, domain: child };
  }
  return null;
}

function gpuAt(layout, machine, at) {
  const columns = layout.columnsOf(machine);
  const column = Math.floor(at.x - layout.x[0][machine] - MARGIN);
  const row = Math.floor(at.y - layout.y[0][machine] - LABEL);
  const number = row * columns + column;
  const hit = column >= 0 && column < columns && row >= 0 && number < layout.tree.gpus[machine];
  return hit ? { kind: "gpu", tier: 0, domain: machine, number } : { kind: "domain", tier: 0, domain: machine };
}

// Of a machine drawn as a block: the GPU there if a job has it, else the machine.
function takenAt(scene, machine, at) {
  const { layout, tree } = scene;
  const { x, y, w, h } = layout.box(0, machine);
  const columns = layout.columnsOf(machine);
  const rows = Math.ceil(tree.gpus[machine] / columns);
  const number = Math.floor((at.y - y) / h * rows) * columns + Math.floor((at.x - x) / w * columns);
  const place = { kind: "gpu", tier: 0, domain: machine, number: Math.min(number, tree.gpus[machine] - 1) };
  return jobAt(scene, place) ? place : { kind: "domain", tier: 0, domain: machine };
}

export function jobAt({ tree, occupancy }, place) {
  if (!place || place.kind !== "gpu") return null;
  const slot = occupancy.seats[tree.seat[place.domain] + place.number];
  return slot === FREE ? null : occupancy.jobs[slot];
}

export function boxOf({ layout }, place) {
  if (place.kind !== "gpu") return layout.box(place.tier, place.domain);
  return { ...layout.gpu(place.domain, place.number), w: 1, h: 1 };
}

export const samePlace = (one, two) => Boolean(one && two) && one.kind === two.kind && one.tier === two.tier
  && one.domain === two.domain && one.number === two.number;

// The place at the level that is drawn now: what holds `place`, or the first thing within it.
export function atLevel({ tree, view }, place) {
  const tier = view.tier;
  const domain = place.tier <= tier ? tree.over(place.tier, place.domain, tier) : firstWithin(tree, place, tier);
  if (view.level === "gpu") return { kind: "gpu", tier: 0, domain, number: place.kind === "gpu" ? place.number : 0 };
  return { kind: "domain", tier, domain };
}

function firstWithin(tree, place, tier) {
  let { domain } = place;
  for (let level = place.tier; level > tier; level -= 1) domain = tree.first[level][domain];
  return domain;
}

// The closest place of the same kind in a direction; straight ahead counts for more than aside.
export function beside(scene, place, dx, dy) {
  const box = boxOf(scene, place);
  const from = { x: box.x + box.w / 2, y: box.y + box.h / 2 };
  const best = { cost: Infinity, place: null };
  const weigh = (x, y, make) => {
    const along = (x - from.x) * dx + (y - from.y) * dy;
    if (along < 0.01) return;
    const cost = along + 3 * Math.abs((x - from.x) * dy + (y - from.y) * dx);
    if (cost < best.cost) Object.assign(best, { cost, place: make });
  };
  if (place.kind === "gpu") eachGpu(scene, weigh);
  else eachDomain(scene, place.tier, weigh);
  return best.place ? best.place() : null;
}

function eachDomain({ tree, layout }, tier, weigh) {
  for (let domain = 0; domain < tree.size(tier); domain += 1) {
    const { x, y, w, h } = layout.box(tier, domain);
    weigh(x + w / 2, y + h / 2, () => ({ kind: "domain", tier, domain }));
  }
}

function eachGpu({ tree, layout }, weigh) {
  for (let machine = 0; machine < tree.machines; machine += 1) {
    for (let number = 0; number < tree.gpus[machine]; number += 1) {
      const at = layout.gpu(machine, number);
      weigh(at.x + 0.5, at.y + 0.5, () => ({ kind: "gpu", tier: 0, domain: machine, number }));
    }
  }
}
