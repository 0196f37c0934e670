// The page's colours as the canvas needs them; they come from map.css.

import { Palette, ramp } from "./map_palette.js";

const NAMES = [
  "ground", "rack", "machine", "line", "text", "soft", "free", "rim", "down", "hatch", "accent", "wire", "unknown",
];
const LOADS = 10;

export function readTheme(element) {
  const style = getComputedStyle(element);
  const theme = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--map-${name}`).trim()]));
  theme.kind = getComputedStyle(document.documentElement).colorScheme === "dark" ? "dark" : "light";
  theme.font = style.fontFamily;
  theme.palette = new Palette(theme.kind);
  theme.loads = ramp(theme.kind, LOADS);
  theme.draining = hatch(theme, 7, 1.6, null);
  theme.lost = hatch(theme, 5, 1.6, theme.down);
  return theme;
}

export function loadColour(theme, load) {
  return theme.loads[Math.min(LOADS - 1, Math.floor(load * LOADS))];
}

function hatch(theme, pitch, thick, ground) {
  const ratio = window.devicePixelRatio || 1;
  const side = Math.round(pitch * ratio);
  const tile = document.createElement("canvas");
  tile.width = tile.height = side;
  const pen = tile.getContext("2d");
  if (ground) { pen.fillStyle = ground; pen.fillRect(0, 0, side, side); }
  pen.strokeStyle = theme.hatch;
  pen.lineWidth = thick * ratio;
  pen.beginPath();
  for (const shift of [-side, 0, side]) { pen.moveTo(shift - 1, side + 1); pen.lineTo(shift + side + 1, -1); }
  pen.stroke();
  const pattern = pen.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}
