// Where everything lies, in units of one GPU: machines in racks, racks in pods, filling the box they are shown in.

export const LABEL = 0.85;  // height of a machine's name
export const MARGIN = 0.3;  // around a machine's GPUs
const WIDEST = 0.25;  // between two children of the whole, of their width
const LARGEST = 46;  // pixels of a GPU when a small cluster fills the box

const between = (low, value, high) => Math.min(high, Math.max(low, value));
const median = (values) => Float64Array.from(values).sort()[values.length >> 1];

export class Layout {
  // For a box of so many pixels.
  constructor(tree, width, height) {
    this.tree = tree;
    this.columns = bestColumns(tree, width, height);
    const empty = (names) => new Float32Array(names.length);
    for (const side of ["x", "y", "w", "h"]) this[side] = tree.names.map(empty);
    this.spacing = tree.tiers.map(() => null);
    this.typical = [];  // width and height of a domain, by tier
    this.#machines();
    for (let tier = 1; tier <= tree.root; tier += 1) this.#shelve(tier);
    if (tree.size(tree.root - 1) > 1) this.#shelveAll(width, height);
    this.#spread(width / height);
    for (let tier = tree.root; tier > 0; tier -= 1) this.#settle(tier);
    [this.width, this.height] = [this.w[tree.root][0], this.h[tree.root][0]];
  }

  columnsOf(machine) {
    return Math.min(this.columns[0], this.tree.gpus[machine]);
  }

  // The upper left corner of a machine's n-th GPU.
  gpu(machine, number) {
    const columns = this.columnsOf(machine);
    return {
      x: this.x[0][machine] + MARGIN + number % columns,
      y: this.y[0][machine] + LABEL + Math.floor(number / columns),
    };
  }

  box(tier, domain) {
    return { x: this.x[tier][domain], y: this.y[tier][domain], w: this.w[tier][domain], h: this.h[tier][domain] };
  }

  #machines() {
    for (let machine = 0; machine < this.tree.machines; machine += 1) {
      const size = machineSize(this.tree.gpus[machine], this.columns[0]);
      this.w[0][machine] = size.w;
      this.h[0][machine] = size.h;
    }
  }

  // Children of every domain of a tier side by side in rows; their places are counted from its corner.
  #shelve(tier) {
    const { tree } = this;
    const child = { w: median(this.w[tier - 1]), h: median(this.h[tier - 1]) };
    const typical = median(tree.count[tier]);
    const space = spacing(tier, tree.root, child, Math.ceil(typical / this.columns[tier]));
    this.spacing[tier] = space;
    this.typical[tier - 1] = child;
    for (let domain = 0; domain < tree.size(tier); domain += 1) {
      // A larger domain is larger both ways.
      const across = Math.max(1, Math.round(this.columns[tier] * Math.sqrt(tree.count[tier][domain] / typical)));
      this.#rows(tier, domain, space, across * (child.w + space.gap) + 0.01);
    }
  }

  // The rows of the whole, for children as large as they really are.
  #shelveAll(width, height) {
    const { root, count } = this.tree;
    const widths = this.w[root - 1];
    const mean = widths.reduce((sum, one) => sum + one, 0) / widths.length;
    let [best, most] = [0, 0];
    for (const across of choices(count[root][0])) {
      const limit = across * (mean + this.spacing[root].gap) + 0.01;
      this.#rows(root, 0, this.spacing[root], limit);
      const unit = Math.min(width / this.w[root][0], height / this.h[root][0], LARGEST);
      const score = unit * (1 + 0.2 * this.w[root][0] * unit / width);
      if (score > most) [best, most] = [limit, score];
    }
    this.#rows(root, 0, this.spacing[root], best);
  }

  #rows(tier, domain, space, limit) {
    const [x, y, w, h] = [this.x[tier - 1], this.y[tier - 1], this.w[tier - 1], this.h[tier - 1]];
    const first = this.tree.first[tier][domain];
    let [left, top, tallest, widest] = [0, space.title, 0, 0];
    for (let child = first; child < first + this.tree.count[tier][domain]; child += 1) {
      if (left > 0 && left + w[child] > limit) [left, top, tallest] = [0, top + space.bus + tallest + space.gap, 0];
      x[child] = space.left + left;
      y[child] = top + space.bus;
      left += w[child] + space.gap;
      tallest = Math.max(tallest, h[child]);
      widest = Math.max(widest, left - space.gap);
    }
    this.w[tier][domain] = space.left + widest + space.pad;
    this.h[tier][domain] = top + space.bus + tallest + space.pad;
  }

  // What is too narrow for the box is drawn apart, within reason.
  #spread(shape) {
    const { root } = this.tree;
    const [extent, last] = [this.w[root][0], Math.max(...this.w[root - 1])];
    const gaps = Math.round(extent / last) - 1;
    if (gaps < 1) return;
    const wanted = between(extent, shape * this.h[root][0], extent + gaps * WIDEST * last);
    const apart = (wanted - last) / (extent - last);
    for (let child = 0; child < this.x[root - 1].length; child += 1) this.x[root - 1][child] *= apart;
    this.w[root][0] = wanted;
  }

  #settle(tier) {
    const parent = this.tree.parent[tier - 1];
    for (let child = 0; child < parent.length; child += 1) {
      this.x[tier - 1][child] += this.x[tier][parent[child]];
      this.y[tier - 1][child] += this.y[tier][parent[child]];
    }
  }
}

function machineSize(gpus, columns) {
  const across = Math.min(columns, gpus) || 1;
  return { w: across + 2 * MARGIN, h: Math.ceil(gpus / across) + LABEL + MARGIN };
}

// Room within a domain: its title, the margin, between children, and above each row for the links up.
function spacing(tier, root, child, rows) {
  const top = tier === root;
  const title = top ? 0 : between(0.95, 0.17 * rows * child.h, tier > 1 ? 5.5 * tier : 3.6);
  if (tier === 1) return { title: title || 0.5, pad: 0.5, left: 0.5, gap: 0.35, bus: 0 };
  const gap = between(0.7, 0.07 * Math.min(child.w, child.h), 5);
  const pad = top ? 0 : gap;
  return {
    title, pad, left: rows > 1 ? 1.4 * gap : pad, gap, bus: between(1.1, 0.2 * child.h, 9),
  };
}

// How many children stand in a row, by tier (of machines: GPUs), so that a GPU gets the most pixels.
function bestColumns(tree, width, height) {
  const typical = tree.tiers.map((_, tier) => (tier ? median(tree.count[tier]) : median(tree.gpus)));
  const best = { score: -1, columns: [] };
  const tryTier = (tier, child, columns, fair) => {
    if (tier > tree.root) return rate(best, child, columns, fair, width, height);
    for (const across of choices(typical[tier])) {
      if (!tier && across * across < typical[0]) continue;  // no room for names
      const size = tier ? domainSize(tier, tree.root, child, typical[tier], across) : machineSize(typical[0], across);
      tryTier(tier + 1, size, [...columns, across], tier && tier < tree.root ? fair * shapely(size) : fair);
    }
    return undefined;
  };
  tryTier(0, null, [], 1);
  return best.columns;
}

function rate(best, size, columns, fair, width, height) {
  const unit = Math.min(width / size.w, height / size.h, LARGEST);
  const score = unit * fair * (1 + 0.2 * (size.w * unit) / width);
  if (score > best.score) Object.assign(best, { score, columns });
}

const shapely = (size) => between(0.5, 1 - 0.12 * Math.abs(Math.log2(size.w / size.h / 1.3)), 1);

function domainSize(tier, root, child, count, across) {
  const rows = Math.ceil(count / across);
  const space = spacing(tier, root, child, rows);
  return {
    w: space.left + across * (child.w + space.gap) - space.gap + space.pad,
    h: space.title + rows * (space.bus + child.h + space.gap) - space.gap + space.pad,
  };
}

// The numbers of columns that make a different number of rows.
function choices(count) {
  const found = new Set();
  for (let rows = 1; rows * rows <= count; rows += 1) found.add(rows).add(Math.ceil(count / rows));
  return [...found];
}
