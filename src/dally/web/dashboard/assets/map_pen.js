// Small things that every layer draws with.

export class Buckets {
  // Rectangles by what they are filled with, so that the fill is set once for each.
  constructor() {
    this.lists = new Map();
  }

  put(fill, x, y, w, h) {
    const list = this.lists.get(fill);
    if (list) list.push(x, y, w, h);
    else this.lists.set(fill, [x, y, w, h]);
  }

  flush(pen, radius = 0) {
    for (const [fill, list] of this.lists) {
      pen.fillStyle = fill;
      if (radius >= 1.5) fillRounded(pen, list, radius);
      else for (let at = 0; at < list.length; at += 4) pen.fillRect(list[at], list[at + 1], list[at + 2], list[at + 3]);
    }
    this.lists.clear();
  }
}

function fillRounded(pen, list, radius) {
  pen.beginPath();
  for (let at = 0; at < list.length; at += 4) pen.roundRect(list[at], list[at + 1], list[at + 2], list[at + 3], radius);
  pen.fill();
}

export function rounded(pen, box, radius, fill, stroke, width = 1) {
  pen.beginPath();
  pen.roundRect(box.x, box.y, box.w, box.h, Math.max(0, Math.min(radius, box.w / 2, box.h / 2)));
  if (fill) { pen.fillStyle = fill; pen.fill(); }
  if (stroke) { pen.strokeStyle = stroke; pen.lineWidth = width; pen.stroke(); }
}

export function line(pen, x1, y1, x2, y2, colour, width) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

// Text that is cut where there is no room; a letter is taken as little more than half as wide as it is high.
export function write(pen, text, x, y, room, size, { fill, font, weight = 400, align = "left" }) {
  const most = Math.floor(room / (0.56 * size));
  if (most < Math.min(text.length, 3)) return false;
  pen.font = `${weight} ${size}px ${font}`;
  pen.fillStyle = fill;
  pen.textAlign = align;
  pen.textBaseline = "middle";
  pen.fillText(text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text, x, y);
  return true;
}

// The longer of two names that fits.
export const fitting = (name, short, room, size) => (0.56 * size * name.length <= room ? name : short);

// Rounds to device pixels.
export function snapper() {
  const ratio = window.devicePixelRatio || 1;
  return (value) => Math.round(value * ratio) / ratio;
}

// A map's box in pixels, on whole device pixels so that edges are sharp.
export function onScreen(view, box) {
  const snap = snapper();
  const [x, y] = [snap(view.px(box.x)), snap(view.py(box.y))];
  return { x, y, w: snap(view.px(box.x + box.w)) - x, h: snap(view.py(box.y + box.h)) - y };
}

export const inset = (box, by) => ({ x: box.x + by, y: box.y + by, w: box.w - 2 * by, h: box.h - 2 * by });
