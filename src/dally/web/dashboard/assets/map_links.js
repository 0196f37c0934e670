// Links between domains: a line along each row of children, and each child's link up to it, as thick as it is loaded.

import { line, write } from "./map_pen.js";
import { loadColour } from "./map_theme.js";

const HIGH = 0.7;  // how far up the room above a row its line runs
const THINNEST = 1.5;

export function drawLinks(pen, scene, seen) {
  const { tree, view } = scene;
  for (let tier = tree.root; tier > Math.max(1, view.tier); tier -= 1) {
    for (const domain of seen[tier]) drawRows(pen, scene, tier, domain);
    for (const child of seen[tier - 1]) drawUplink(pen, scene, tier - 1, child);
  }
}

// Where a domain's link runs, in pixels.
export function uplink({ layout, view }, tier, domain) {
  const room = layout.spacing[tier + 1].bus * view.unit;
  const x = view.px(layout.x[tier][domain] + layout.w[tier][domain] / 2);
  const bottom = view.py(layout.y[tier][domain]);
  return { x, top: bottom - HIGH * room, bottom, room, thickest: Math.min(12, Math.max(3.5, 0.34 * room)) };
}

function drawUplink(pen, scene, tier, domain) {
  const { theme } = scene;
  const load = scene.occupancy.loads[tier][domain];
  const { x, top, bottom, room, thickest } = uplink(scene, tier, domain);
  const known = !Number.isNaN(load);
  const wide = known ? THINNEST + Math.min(1, load) * (thickest - THINNEST) : THINNEST;
  line(pen, x, top, x, bottom, known ? loadColour(theme, load) : theme.wire, wide);
  if (known && room >= 22) {
    const size = Math.min(12.5, 0.4 * room);
    const style = { fill: theme.soft, font: theme.font };
    write(pen, `${Math.round(100 * load)} %`, x + wide / 2 + 4, (top + bottom) / 2 + 1, 60, size, style);
  }
}

function drawRows(pen, scene, tier, domain) {
  const { tree, layout, view, theme } = scene;
  const rows = rowsOf(scene, tier, domain);
  const wide = Math.min(3, Math.max(1, 0.08 * view.unit * tier));
  const trunk = view.px(layout.x[tier][domain] + 0.4 * layout.spacing[tier].left);
  const left = rows.length > 1 ? trunk : rows[0].from;
  for (const row of rows) line(pen, left, row.y, row.to, row.y, theme.wire, wide);
  line(pen, trunk, rows[0].y, trunk, rows[rows.length - 1].y, theme.wire, wide);
  if (tier === tree.root) return;
  const middle = view.px(layout.x[tier][domain] + layout.w[tier][domain] / 2);
  line(pen, middle, rows[0].y, middle, view.py(layout.y[tier][domain]), theme.wire, wide);
}

// The lines along a domain's rows: their height and where the first and the last child hang.
function rowsOf(scene, tier, domain) {
  const { tree } = scene;
  const first = tree.first[tier][domain];
  const rows = [];
  for (let child = first; child < first + tree.count[tier][domain]; child += 1) {
    const { x, top } = uplink(scene, tier - 1, child);
    const row = rows[rows.length - 1];
    if (row && Math.abs(row.y - top) < 0.5) row.to = x;
    else rows.push({ y: top, from: x, to: x });
  }
  return rows;
}
