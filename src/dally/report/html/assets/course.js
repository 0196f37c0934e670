// The course of a run: columns unpacked from the page, and who holds which GPU when.

async function unpack(text) {
  const plain = atob(text);
  const bytes = new Uint8Array(plain.length);
  for (let at = 0; at < plain.length; at++) bytes[at] = plain.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(raw.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(raw.subarray(4, 4 + length)));
  const found = {};
  let at = 4 + length;
  for (const [name, count, width, ascending] of header.columns) {
    const column = new Uint32Array(count);
    for (let plane = 0; plane < width; plane++) {
      const shift = 8 * plane;
      for (let row = 0; row < count; row++) column[row] += raw[at + row] * 2 ** shift;
      at += count;
    }
    if (ascending) for (let row = 1; row < count; row++) column[row] += column[row - 1];
    found[name] = column;
  }
  for (const [name, size] of header.texts) {
    found[name] = new TextDecoder().decode(raw.subarray(at, at + size)).split("\n");
    at += size;
  }
  return found;
}

class Course {
  constructor(facts, columns) {
    Object.assign(this, facts, columns);
    this.total_gpus = this.machine_gpus.reduce((sum, gpus) => sum + gpus, 0);
    for (let row = 0; row < this.start.length; row++) this.end[row] += this.start[row];
    for (let row = 0; row < this.down_start.length; row++) this.down_end[row] += this.down_start[row];
    this.dated = this.epoch_s == null ? null : { epoch_s: this.epoch_s, zone: this.zone };
    this.number = new Map(this.job_id.map((name, place) => [name, place]));
    this.chooseGpus();
  }

  // The log says how many GPUs of a machine a gang has. Which ones, nobody asks: the lowest that are free.
  chooseGpus() {
    const free = this.machine_gpus.map((gpus) => new Float64Array(gpus));
    this.cells = new Uint32Array(this.start.length + 1);
    for (let row = 0; row < this.start.length; row++) this.cells[row + 1] = this.cells[row] + this.gpus[row];
    this.cell = new Uint16Array(this.cells[this.start.length]);
    for (let row = 0, next = 0; row < this.start.length; row++) {
      const until = free[this.machine[row]];
      let left = this.gpus[row];
      for (let gpu = 0; gpu < until.length && left; gpu++) {
        if (until[gpu] > this.start[row]) continue;
        until[gpu] = this.end[row];
        this.cell[next++] = gpu;
        left--;
      }
      next = this.cells[row + 1];
    }
  }

  clock(tick) { return clock(tick * this.tick_s, this.dated); }

  userOf(job) { return this.job_user.length ? this.users[this.job_user[job]] : ""; }

  about(job) {
    const gpus = this.job_gpus[job];
    return [this.userOf(job), this.models[this.job_model[job]], `${gpus} GPU${gpus === 1 ? "" : "s"}`].filter(Boolean).join(" · ");
  }

  static before(column, tick) {
    let low = 0, high = column.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (column[middle] <= tick) low = middle + 1; else high = middle;
    }
    return low;
  }

  static at(start, end, tick) {
    const rows = [];
    const last = Course.before(start, tick);
    for (let row = 0; row < last; row++) if (end[row] > tick) rows.push(row);
    return rows;
  }

  held(tick) { return Course.at(this.start, this.end, tick); }

  tell(row) {
    const job = this.job[row];
    const slow = this.job_slowdown[job] / 100;
    return `job ${this.job_id[job]}\n${this.about(job)}\n` +
      `placed: ${this.tierWords(this.tier[row])}\nslowdown over its life: ${slow ? slow.toFixed(2) + "×" : "unknown"}`;
  }

  tierWords(tier) {
    return tier === this.tiers.length - 1 ? `across the ${this.tiers[tier]}` : `within one ${this.tiers[tier]}`;
  }
}

// How a gang is coloured: by job, by slowdown over its life, by how far it is spread.
const TIER_COLOURS = [2, 0, 1, 3, 5];
const SLOW = [1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 3];

class Paint {
  constructor() { this.refresh(); }

  refresh() {
    this.dark = colourOf("--page").startsWith("#0");
    this.ramp = Array.from({ length: 10 }, (_, level) => colourOf(`--h${level}`));
    this.ramp[0] = this.dark ? "#2c5a8a" : "#c3dbf2";
    this.series = Array.from({ length: 12 }, (_, number) => colourOf(`--s${number}`));
    for (const name of ["free", "down", "text", "soft", "grid", "card", "line", "accent"]) this[name] = colourOf(`--${name}`);
    this.jobs = new Map();
  }

  one(number) {
    let found = this.jobs.get(number);
    if (!found) {
      const hue = (number * 137.508) % 360, wave = (number * 29) % 3;
      found = this.dark ? `hsl(${hue} 52% ${52 + 6 * wave}%)` : `hsl(${hue} 55% ${50 + 7 * wave}%)`;
      this.jobs.set(number, found);
    }
    return found;
  }

  of(course, row, how) {
    const job = course.job[row];
    if (how === "tier") return this.series[TIER_COLOURS[course.tier[row] % 5]];
    if (how === "slowdown") {
      const slow = course.job_slowdown[job] / 100;
      return this.ramp[SLOW.filter((limit) => slow >= limit).length];
    }
    return this.one(how === "user" ? course.job_user[job] : job);
  }
}

function sharpCanvas(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

function colourLegend(host, course, how, paint) {
  host.replaceChildren();
  if (how === "tier") {
    course.tiers.forEach((_, tier) => {
      const item = make(make(host, "li"), "button", { type: "button", tabindex: -1 });
      make(item, "span", { class: "swatch", style: `background:${paint.series[TIER_COLOURS[tier % 5]]}` });
      item.append(course.tierWords(tier));
    });
  } else if (how === "slowdown") {
    const item = make(host, "li", { class: "ramp" });
    make(item, "span", {}, "slowdown 1.0×");
    const bar = make(item, "span", { class: "bar" });
    paint.ramp.forEach((colour) => make(bar, "i", { style: `background:${colour}` }));
    make(item, "span", {}, "3× and more, against alone at its closest");
  } else {
    make(host, "li", { class: "soft" }, how === "user" ? "One colour per user." : "One colour per job. Choose a job to see its gang alone.");
  }
}
