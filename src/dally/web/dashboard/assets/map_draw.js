// The lower layer: frames of domains, links, and at the finest level that can be told apart, tiles, machines or GPUs.

import { Buckets, fitting, inset, onScreen, rounded, snapper, write } from "./map_pen.js";
import { drawLinks } from "./map_links.js";
import { LABEL, MARGIN } from "./map_layout.js";
import { DOWN, DRAINING, FREE, UP } from "./map_state.js";

const TILE_TITLE = 13;  // pixels
const COLUMN = 5;  // pixels of a column in a tile

// Domains that are in sight, by tier, down to the finest that is drawn.
function inSight({ tree, layout, view }) {
  const seen = tree.tiers.map(() => []);
  const [right, bottom] = [view.x + view.width / view.unit, view.y + view.height / view.unit];
  const visit = (tier, domain) => {
    const { x, y, w, h } = layout.box(tier, domain);
    const above = (layout.spacing[tier + 1] || { bus: 0 }).bus;
    if (x > right || y - above > bottom || x + w < view.x || y + h < view.y) return;
    seen[tier].push(domain);
    if (tier <= view.tier) return;
    const first = tree.first[tier][domain];
    for (let child = first; child < first + tree.count[tier][domain]; child += 1) visit(tier - 1, child);
  };
  visit(tree.root, 0);
  return seen;
}

export function drawBase(pen, scene) {
  const { tree, view, theme } = scene;
  const seen = inSight(scene);
  pen.fillStyle = theme.ground;
  pen.fillRect(0, 0, view.width, view.height);
  if (tree.root === 1) drawFrame(pen, scene, 1, 0);  // machines without racks
  eachFrame(scene, seen, (tier, domain) => drawFrame(pen, scene, tier, domain));
  drawLinks(pen, scene, seen);
  eachFrame(scene, seen, (tier, domain) => drawTitle(pen, scene, tier, domain));
  if (view.level === "gpu") drawGpus(pen, scene, seen[0]);
  else if (view.tier === 0) drawMachines(pen, scene, seen[0]);
  else drawTiles(pen, scene, view.tier, seen[view.tier]);
  return seen;
}

// Domains above those that are drawn as a whole, from the top down.
function eachFrame({ tree, view }, seen, act) {
  for (let tier = tree.root - 1; tier > view.tier; tier -= 1) for (const domain of seen[tier]) act(tier, domain);
}

function drawFrame(pen, { layout, view, theme }, tier, domain) {
  const box = inset(onScreen(view, layout.box(tier, domain)), 0.5);
  rounded(pen, box, Math.min(10, 0.5 * view.unit + 2 * tier), tier % 2 ? theme.rack : theme.ground, theme.line);
}

function drawTitle(pen, scene, tier, domain) {
  const { tree, layout, view, theme } = scene;
  const high = layout.spacing[tier].title * view.unit;
  const size = Math.min(15, 0.75 * high);
  if (size < 8.5) return;
  const box = onScreen(view, layout.box(tier, domain));
  const pad = Math.max(4, layout.spacing[tier].pad * view.unit);
  const middle = box.y + high / 2 + 1;
  const room = box.w - 2 * pad;
  const name = fitting(tree.names[tier][domain], tree.short[tier][domain], room, size);
  write(pen, name, box.x + pad, middle, room, size, { fill: theme.text, font: theme.font, weight: 600 });
  const { free } = scene.shares.of(tier, domain, scene.occupancy, scene.colouring);
  const said = free ? `${free.toLocaleString("en")} free` : "full";
  if (room - 0.6 * size * name.length > 0.6 * size * said.length) {
    const style = { fill: theme.soft, font: theme.font, align: "right" };
    write(pen, said, box.x + box.w - pad, middle, room, size - 1.5, style);
  }
}

// Whole domains, each as the shares of its GPUs.
export function drawTiles(pen, scene, tier, domains) {
  const buckets = new Buckets();
  for (const domain of domains) drawTile(pen, scene, tier, domain, buckets);
  buckets.flush(pen);
}

function drawTile(pen, { tree, layout, view, theme, shares, occupancy, colouring }, tier, domain, buckets) {
  const box = inset(onScreen(view, layout.box(tier, domain)), 0.5);
  rounded(pen, box, 4, theme.rack, theme.line);
  if (titled(box)) {
    const size = Math.min(12, Math.max(9, box.h / 5));
    const name = fitting(tree.names[tier][domain], tree.short[tier][domain], box.w - 8, size);
    const style = { fill: theme.text, font: theme.font, weight: 600 };
    write(pen, name, box.x + 4, box.y + TILE_TITLE / 2 + 1, box.w - 8, size, style);
  }
  putShares(buckets, tileBar(box), shares.of(tier, domain, occupancy, colouring), theme);
}

const titled = (box) => box.h >= 30 && box.w >= 30;

export function tileBar(box) {
  const top = titled(box) ? TILE_TITLE : 2;
  return { x: box.x + 2.5, y: box.y + top, w: box.w - 5, h: box.h - top - 2.5 };
}

// Jobs one after the other, column by column, the largest first; then what is idle, and what is draining or lost.
function putShares(buckets, bar, { bands, free, draining, down, gpus }, theme) {
  if (bar.w <= 0 || bar.h <= 0 || !gpus) return;
  const idle = [[theme.free, free], [theme.draining, draining], [theme.lost, down]];
  const all = [...bands, ...idle.map(([fill, count]) => ({ fill, gpus: count }))];
  const wide = bar.w / Math.max(1, Math.round(bar.w / COLUMN));
  const length = bar.h * bar.w / wide / gpus;  // of one GPU, along the columns
  let at = 0;
  for (const { fill, gpus: count } of all) {
    putRun(buckets, fill, bar, wide, at, at + count * length);
    at += count * length;
  }
}

// What lies between two points along the columns: the rest of one, whole ones, the start of another.
function putRun(buckets, fill, bar, wide, from, to) {
  if (to - from < 1e-6) return;
  const high = bar.h;
  const [first, last] = [Math.floor(from / high + 1e-9), Math.floor(to / high - 1e-9)];
  const put = (column, count, start, end) => {
    buckets.put(fill, bar.x + column * wide, bar.y + start, count * wide, end - start);
  };
  const [top, bottom] = [from - first * high, to - last * high];
  if (first === last) { put(first, 1, top, bottom); return; }
  const start = top > 0.01 ? first + 1 : first;
  const end = bottom < high - 0.01 ? last : last + 1;
  if (start > first) put(first, 1, top, high);
  if (end > start) put(start, end - start, 0, high);
  if (end === last) put(last, 1, 0, bottom);
}

// Machines as blocks: runs of GPUs of one job, without gaps.
function drawMachines(pen, scene, machines) {
  const { layout, view, theme, occupancy, colouring } = scene;
  const [below, jobs, above] = [new Buckets(), new Buckets(), new Buckets()];
  for (const machine of machines) {
    const box = onScreen(view, layout.box(0, machine));
    const state = occupancy.up[machine];
    below.put(theme.free, box.x, box.y, box.w, box.h);
    putRuns(jobs, scene, machine, box, colouring.fill);
    if (state !== UP) above.put(patternOf(theme, state), box.x, box.y, box.w, box.h);
  }
  for (const layer of [below, jobs, above]) layer.flush(pen);
}

const patternOf = (theme, state) => (state === DRAINING ? theme.draining : theme.lost);

function putRuns(buckets, { tree, layout, occupancy }, machine, box, fills) {
  const { seats } = occupancy;
  const columns = layout.columnsOf(machine);
  const [from, to] = [tree.seat[machine], tree.seat[machine + 1]];
  const rows = Math.ceil((to - from) / columns);
  const snap = snapper();
  const edgeX = (column) => snap(box.x + column * box.w / columns);
  const edgeY = (row) => snap(box.y + row * box.h / rows);
  for (let at = from; at < to;) {
    const row = Math.floor((at - from) / columns);
    const end = Math.min(to, from + (row + 1) * columns);
    let next = at + 1;
    while (next < end && seats[next] === seats[at]) next += 1;
    const fill = seats[at] === FREE ? null : fills[seats[at]];
    if (fill) {
      const [left, top] = [(at - from) % columns, edgeY(row)];
      buckets.put(fill, edgeX(left), top, edgeX(left + next - at) - edgeX(left), edgeY(row + 1) - top);
    }
    at = next;
  }
}

// Every GPU: filled with its job's colour, hollow where it is idle.
function drawGpus(pen, scene, machines) {
  const { layout, view, theme, occupancy } = scene;
  const { unit } = view;
  const buckets = new Buckets();
  for (const machine of machines) {
    const box = onScreen(view, layout.box(0, machine));
    buckets.put(theme.machine, box.x, box.y, box.w, box.h);
  }
  buckets.flush(pen, Math.min(6, 0.22 * unit));
  for (const machine of machines) putCells(buckets, scene, machine);
  buckets.flush(pen, unit >= 9 ? Math.min(5, 0.14 * unit) : 0);
  hollow(pen, scene, machines);
  for (const machine of machines) {
    if (occupancy.up[machine] !== UP) hatchMachine(pen, scene, machine);
    drawName(pen, scene, machine);
  }
}

function hatchMachine(pen, { layout, view, theme, occupancy }, machine) {
  const state = occupancy.up[machine];
  const box = onScreen(view, belowName(layout.box(0, machine), view));
  pen.globalAlpha = state === DOWN ? 0.9 : 1;
  rounded(pen, box, Math.min(6, 0.22 * view.unit), patternOf(theme, state), theme.hatch);
  pen.globalAlpha = 1;
}

// Hatching leaves the name readable, where there is one.
function belowName(box, view) {
  if (nameSize(view) < 8) return box;
  return { ...box, y: box.y + LABEL - MARGIN / 5, h: box.h - LABEL + MARGIN / 5 };
}

const nameSize = (view) => Math.min(13, 0.6 * view.unit * LABEL);

function putCells(buckets, { tree, layout, view, theme, occupancy, colouring }, machine) {
  const { unit } = view;
  const columns = layout.columnsOf(machine);
  const [left, top] = [view.px(layout.x[0][machine] + MARGIN), view.py(layout.y[0][machine] + LABEL)];
  const gap = cellGap(unit);
  const from = tree.seat[machine];
  for (let number = 0; number < tree.gpus[machine]; number += 1) {
    const slot = occupancy.seats[from + number];
    const x = left + (number % columns) * unit;
    const y = top + Math.floor(number / columns) * unit;
    buckets.put(slot === FREE ? theme.free : colouring.fill[slot], x + gap / 2, y + gap / 2, unit - gap, unit - gap);
  }
}

export const cellGap = (unit) => Math.max(1, 0.14 * unit);

// The rims of idle GPUs, where cells are large enough to show one.
function hollow(pen, { tree, layout, view, theme, occupancy }, machines) {
  if (view.unit < 8) return;
  const gap = cellGap(view.unit) + 1;
  const side = view.unit - gap;
  const radius = Math.min(5, 0.14 * view.unit);
  pen.beginPath();
  for (const machine of machines) {
    const from = tree.seat[machine];
    for (let number = 0; number < tree.gpus[machine]; number += 1) {
      if (occupancy.seats[from + number] !== FREE) continue;
      const at = layout.gpu(machine, number);
      pen.roundRect(view.px(at.x) + gap / 2, view.py(at.y) + gap / 2, side, side, radius);
    }
  }
  pen.strokeStyle = theme.rim;
  pen.lineWidth = 1;
  pen.stroke();
}

function drawName(pen, { tree, layout, view, theme }, machine) {
  const size = nameSize(view);
  if (size < 8) return;
  const box = onScreen(view, layout.box(0, machine));
  const pad = MARGIN * view.unit + 1;
  const name = fitting(tree.names[0][machine], tree.short[0][machine], box.w - 2 * pad, size);
  const middle = box.y + 0.52 * LABEL * view.unit;
  write(pen, name, box.x + pad, middle, box.w - 2 * pad, size, { fill: theme.soft, font: theme.font });
}
