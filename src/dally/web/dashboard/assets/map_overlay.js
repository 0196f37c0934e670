// The upper layer: gangs that are pointed at, everything else dimmed; where one is; jobs that have just started.

import { Buckets, inset, line, onScreen, rounded, write } from "./map_pen.js";
import { cellGap, drawTiles, tileBar } from "./map_draw.js";
import { uplink } from "./map_links.js";
import { boxOf } from "./map_pick.js";

const VEIL = 0.74;
const TRACED = 24;  // gangs whose links are shown; of more one could tell nothing

// `jobs` are pointed at (null: none), `rings` are [place, width], `flashes` [job, how strong].
export function drawTop(pen, scene, { jobs, rings, flashes }) {
  const { view, theme } = scene;
  pen.clearRect(0, 0, view.width, view.height);
  if (jobs) {
    pen.globalAlpha = VEIL;
    pen.fillStyle = theme.ground;
    pen.fillRect(0, 0, view.width, view.height);
    pen.globalAlpha = 1;
    drawGangs(pen, scene, jobs);
  }
  for (const [job, strength] of flashes) flash(pen, scene, job, strength);
  for (const [place, width] of rings) ring(pen, scene, place, width);
}

function drawGangs(pen, scene, jobs) {
  if (jobs.length <= TRACED) for (const job of jobs) trace(pen, scene, job);
  if (scene.view.tier === 0) eachSeat(pen, scene, jobs, scene.theme.text);
  else drawParts(pen, scene, jobs);
}

// The links that a gang's traffic takes.
function trace(pen, scene, job) {
  const { tree, view, colouring } = scene;
  for (let tier = Math.max(1, view.tier); tier < job.tier && tier < tree.root; tier += 1) {
    const domains = new Set([...job.on.keys()].map((machine) => tree.over(0, machine, tier)));
    for (const domain of domains) {
      const { x, top, bottom } = uplink(scene, tier, domain);
      line(pen, x, top, x, bottom, colouring.fill[job.slot], 4);
    }
  }
}

// GPUs of jobs in their colours, with a rim.
function eachSeat(pen, scene, jobs, rim) {
  const buckets = new Buckets();
  const rims = [];
  for (const job of jobs) {
    for (const machine of job.on.keys()) {
      for (const box of seatBoxes(scene, machine, job.slot)) {
        buckets.put(scene.colouring.fill[job.slot], box.x, box.y, box.w, box.h);
        rims.push(box);
      }
    }
  }
  const radius = scene.view.level === "gpu" && scene.view.unit >= 9 ? Math.min(5, 0.14 * scene.view.unit) : 0;
  buckets.flush(pen, radius);
  strokeAll(pen, rims, radius, rim, scene.view.unit >= 9 ? 1.5 : 0.5);
}

function strokeAll(pen, boxes, radius, colour, width) {
  pen.beginPath();
  for (const box of boxes) pen.roundRect(box.x, box.y, box.w, box.h, radius);
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
}

// Boxes in pixels of a job's GPUs on a machine, none if it is out of sight.
function seatBoxes({ tree, layout, view, occupancy }, machine, slot) {
  const box = onScreen(view, layout.box(0, machine));
  if (box.x > view.width || box.y > view.height || box.x + box.w < 0 || box.y + box.h < 0) return [];
  const columns = layout.columnsOf(machine);
  const rows = Math.ceil(tree.gpus[machine] / columns);
  const gap = cellGap(view.unit);
  const found = [];
  for (let number = 0; number < tree.gpus[machine]; number += 1) {
    if (occupancy.seats[tree.seat[machine] + number] !== slot) continue;
    if (view.level === "gpu") {
      const at = layout.gpu(machine, number);
      found.push({ x: view.px(at.x) + gap / 2, y: view.py(at.y) + gap / 2, w: view.unit - gap, h: view.unit - gap });
    } else {
      const [wide, high] = [box.w / columns, box.h / rows];
      const [column, row] = [number % columns, Math.floor(number / columns)];
      found.push({ x: box.x + column * wide, y: box.y + row * high, w: wide, h: high });
    }
  }
  return found;
}

// In tiles: which share of each domain's GPUs the jobs have.
function drawParts(pen, scene, jobs) {
  const { layout, view, theme, colouring } = scene;
  const found = partsOf(scene, jobs);
  drawTiles(pen, scene, view.tier, found.keys());
  for (const [domain, parts] of found) {
    const box = inset(onScreen(view, layout.box(view.tier, domain)), 0.5);
    const bar = tileBar(box);
    pen.fillStyle = theme.rack;
    pen.fillRect(bar.x, bar.y, bar.w, bar.h);
    pen.fillStyle = theme.free;
    pen.fillRect(bar.x, bar.y, bar.w, bar.h);
    const all = scene.tree.gpusOf(view.tier, domain);
    let [x, gpus] = [bar.x, 0];
    for (const [slot, count] of parts) {
      const wide = Math.max(1.5, bar.w * count / all);
      pen.fillStyle = colouring.fill[slot];
      pen.fillRect(x, bar.y, Math.min(wide, bar.x + bar.w - x), bar.h);
      [x, gpus] = [Math.min(x + wide, bar.x + bar.w), gpus + count];
    }
    rounded(pen, box, 4, null, theme.text, 1.5);
    count(pen, theme, bar, x, gpus);
  }
}

function count(pen, theme, bar, x, gpus) {
  const room = bar.x + bar.w - x - 3;
  const style = { fill: theme.text, font: theme.font, weight: 600 };
  if (bar.h >= 12) write(pen, `${gpus}`, x + 3, bar.y + bar.h / 2 + 1, room, Math.min(12, bar.h - 1), style);
}

function partsOf({ tree, view }, jobs) {
  const found = new Map();
  for (const job of jobs) {
    for (const [machine, gpus] of job.on) {
      const domain = tree.over(0, machine, view.tier);
      if (!found.has(domain)) found.set(domain, new Map());
      const parts = found.get(domain);
      parts.set(job.slot, (parts.get(job.slot) || 0) + gpus);
    }
  }
  return found;
}

function flash(pen, scene, job, strength) {
  const { view, layout, theme } = scene;
  pen.globalAlpha = strength;
  const boxes = view.tier === 0 ? [...job.on.keys()].flatMap((machine) => seatBoxes(scene, machine, job.slot))
    : [...partsOf(scene, [job]).keys()].map((domain) => onScreen(view, layout.box(view.tier, domain)));
  const [radius, width] = [Math.min(5, 0.16 * view.unit), Math.min(4, 1.5 + 0.08 * view.unit)];
  strokeAll(pen, boxes.map((box) => inset(box, -1)), radius, theme.accent, width);
  pen.globalAlpha = 1;
}

function ring(pen, scene, place, width) {
  const { view, theme } = scene;
  if (place.kind === "link") {
    const { x, top, bottom, thickest } = uplink(scene, place.tier, place.domain);
    const around = { x: x - thickest / 2 - 3, y: top - 2, w: thickest + 6, h: bottom - top + 3 };
    rounded(pen, around, 4, null, theme.accent, width);
    return;
  }
  const box = onScreen(view, boxOf(scene, place));
  rounded(pen, inset(box, place.kind === "gpu" ? 0 : -1), Math.min(8, 3 + 0.15 * view.unit), null, theme.accent, width);
}

