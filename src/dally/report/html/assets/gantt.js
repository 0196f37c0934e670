// GPUs over time: one line per GPU, one bar per gang, with zoom, and a moment to look at.

class Gantt {
  constructor(box, course, paint) {
    Object.assign(this, { box, course, paint, chosen: -1 });
    this.canvas = box.querySelector("canvas");
    this.how = box.querySelector("select.colour");
    this.which = box.querySelector("select.rows");
    this.first = course.start_s / course.tick_s;
    this.last = Math.max(course.end_s / course.tick_s, this.first + 1);
    [this.from, this.to] = [this.first, this.last];
    this.tick = this.first;
    course.groups.forEach(([name], place) => make(this.which, "option", { value: place }, name));
    this.listen();
    this.resize();
  }

  listen() {
    const on = (query, act) => this.box.querySelector(query).addEventListener("click", act);
    on(".in", () => this.zoom(0.5));
    on(".out", () => this.zoom(2));
    on(".all", () => this.view(this.first, this.last));
    const onChange = (query, act) => this.box.querySelector(query).addEventListener("change", (event) => act(event.target.value));
    onChange(".jump", (value) => this.seek(Number(value) / this.course.tick_s));
    onChange(".find", (value) => this.find(value.trim()));
    this.how.addEventListener("change", () => this.draw());
    this.which.addEventListener("change", () => this.resize());
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.tickAt(event));
    }, { passive: false });
    this.canvas.addEventListener("dblclick", (event) => this.zoom(0.4, this.tickAt(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", tip.hide);
    this.canvas.addEventListener("pointerdown", (event) => {
      this.drag = { x: event.clientX, from: this.from, to: this.to, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (this.drag && !this.drag.moved) this.pick(event);
      this.drag = null;
    });
  }

  key(event) {
    const step = (this.to - this.from) / 5;
    const acts = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.view(this.first, this.last),
      ArrowLeft: () => this.view(this.from - step, this.to - step), ArrowRight: () => this.view(this.from + step, this.to + step),
      Escape: () => this.choose(-1),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    const wide = Math.min(this.last - this.first, Math.max(10 / this.course.tick_s, (this.to - this.from) * factor));
    const from = around - (around - this.from) * wide / (this.to - this.from);
    this.view(from, from + wide);
  }

  view(from, to) {
    const wide = Math.min(to - from, this.last - this.first);
    this.from = Math.max(this.first, Math.min(from, this.last - wide));
    this.to = this.from + wide;
    this.draw();
  }

  resize() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    const chosen = this.which.value === "" ? null : this.course.groups[Number(this.which.value)];
    [this.firstMachine, this.lastMachine] = chosen ? [chosen[1], chosen[1] + chosen[2]] : [0, this.course.machines.length];
    this.lineOf = new Map();
    let lines = 0;
    for (let machine = this.firstMachine; machine < this.lastMachine; machine++) {
      this.lineOf.set(machine, lines);
      lines += this.course.machine_gpus[machine];
    }
    this.lines = lines;
    this.bottom = Math.max(120, Math.min(520, lines * 9));
    this.line = this.bottom / lines;
    this.width = width;
    this.left = 70;
    this.pen = sharpCanvas(this.canvas, width, this.bottom + 24);
    this.draw();
  }

  x(tick) { return this.left + (this.width - this.left) * (tick - this.from) / (this.to - this.from); }

  draw() {
    if (!this.pen) return;
    const { pen, paint } = this;
    pen.clearRect(0, 0, this.width, this.bottom + 40);
    pen.fillStyle = paint.free;
    pen.fillRect(this.left, 0, this.width - this.left, this.bottom);
    pen.save();
    pen.beginPath();
    pen.rect(this.left, 0, this.width - this.left, this.bottom);
    pen.clip();
    this.drawDown();
    this.drawGangs();
    pen.restore();
    this.drawBorders();
    this.drawTicks();
    this.keep();
    this.drawNow();
  }

  // A copy of what is drawn: the line of the moment moves over it without drawing all bars again.
  keep() {
    this.picture ||= document.createElement("canvas");
    this.picture.width = this.canvas.width;
    this.picture.height = this.canvas.height;
    this.picture.getContext("2d").drawImage(this.canvas, 0, 0);
    this.drawnFor = this.chosen;
  }

  follow() {
    if (!this.pen) return;
    if (this.chosen !== this.drawnFor) return this.draw();
    const { pen } = this;
    pen.save();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.picture, 0, 0);
    pen.restore();
    this.drawNow();
  }

  drawGangs() {
    const { course, pen, paint } = this;
    // Lines thinner than a pixel share one: what comes first and lasts longest is what one sees.
    const thin = this.line < 1;
    const drawn = new Float64Array(Math.max(this.lines, this.bottom) + 1).fill(-1);
    const gap = this.line >= 5 ? 1 : 0, tall = thin ? 1 : this.line - gap;
    const last = Course.before(course.start, this.to);
    const { chosen } = this;
    this.bars = 0;
    for (let row = 0; row < last; row++) {
      const line = this.lineOf.get(course.machine[row]);
      if (course.end[row] < this.from || line === undefined) continue;
      const from = this.x(course.start[row]), to = Math.max(this.x(course.end[row]), from + 0.6);
      let fresh = false;
      for (let at = course.cells[row]; at < course.cells[row + 1]; at++) {
        const place = thin ? Math.floor((line + course.cell[at]) * this.line) : line + course.cell[at];
        if (to < drawn[place] + 0.5) continue;  // nothing to see beside what is already there
        if (!fresh) {
          pen.fillStyle = paint.of(course, row, this.how.value);
          pen.globalAlpha = chosen < 0 || chosen === course.job[row] ? 1 : 0.15;
          fresh = true;
          this.bars++;
        }
        drawn[place] = to;
        pen.fillRect(from, thin ? place : place * this.line, to - from - (to - from > 4 ? 0.5 : 0), tall);
      }
    }
    pen.globalAlpha = 1;
  }

  drawDown() {
    const { course, pen, paint } = this;
    pen.fillStyle = paint.down;
    course.down_start.forEach((start, row) => {
      const line = this.lineOf.get(course.down_machine[row]);
      if (line === undefined || course.down_end[row] < this.from || start > this.to) return;
      const tall = course.machine_gpus[course.down_machine[row]] * this.line;
      pen.fillRect(this.x(start), line * this.line, Math.max(1, this.x(course.down_end[row]) - this.x(start)), tall);
    });
  }

  // Lines between racks, or between machines where there is room; names where they fit.
  drawBorders() {
    const { course, pen, paint } = this;
    pen.font = "11px system-ui, sans-serif";
    const one = this.which.value !== "";
    const parts = one
      ? Array.from({ length: this.lastMachine - this.firstMachine }, (_, place) => [course.machines[this.firstMachine + place], this.firstMachine + place, 1])
      : course.groups;
    let free = -Infinity;
    for (const [name, first, count] of parts) {
      const top = this.lineOf.get(first) * this.line;
      let tall = 0;
      for (let machine = first; machine < first + count; machine++) tall += course.machine_gpus[machine] * this.line;
      pen.fillStyle = paint.card;
      if (tall > 6) pen.fillRect(this.left, top - 1, this.width - this.left, one ? 1 : 2);
      const middle = top + tall / 2 + 4;
      if (middle < free + 12) continue;
      free = middle;
      pen.fillStyle = paint.soft;
      pen.textAlign = "right";
      pen.fillText(fitted(name, this.left - 6), this.left - 6, middle);
    }
  }

  drawNow() {
    const at = this.x(this.tick);
    if (at < this.left || at > this.width) return;
    this.pen.fillStyle = this.paint.text;
    this.pen.fillRect(at - 0.75, 0, 1.5, this.bottom);
  }

  drawTicks() {
    const { course, pen, paint } = this;
    const [low, high] = [this.from * course.tick_s, this.to * course.tick_s];
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillStyle = paint.soft;
    if (course.dated && high - low >= 120) {
      for (const [time_s, label] of dateTicks(low, high, Math.max(2, Math.min(10, this.width / 90)), course.dated)) this.drawTick(time_s, label);
      this.box.querySelector(".axis-title.x").textContent = `date from ${course.clock(this.from).slice(0, 10)} (${course.zone})`;
      return;
    }
    const [unit, size] = [["days", 86400], ["hours", 3600], ["minutes", 60], ["seconds", 1]].find(([, one]) => high - low >= 2 * one) || ["seconds", 1];
    const rough = (high - low) / size / Math.max(2, Math.min(10, this.width / 90));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999);
    for (let place = Math.ceil(low / size / step); place * step * size <= high; place++) {
      this.drawTick(place * step * size, String(Math.round(place * step * 1e6) / 1e6));
    }
    this.box.querySelector(".axis-title.x").textContent = `time since the trace's start (${unit})`;
  }

  drawTick(time_s, label) {
    const at = this.x(time_s / this.course.tick_s);
    this.pen.fillRect(at, this.bottom, 1, 5);
    if (at < this.width - 10) this.pen.fillText(label, at, this.bottom + 18);
  }

  tickAt(event) {
    const seen = this.canvas.getBoundingClientRect();
    return this.from + (this.to - this.from) * (event.clientX - seen.left - this.left) / (this.width - this.left);
  }

  rowAt(event) {
    const tick = this.tickAt(event);
    const line = Math.floor((event.clientY - this.canvas.getBoundingClientRect().top) / this.line);
    if (tick < this.from || line >= this.lines) return -1;
    const found = this.course.held(tick).find((row) => {
      const first = this.lineOf.get(this.course.machine[row]);
      if (first === undefined) return false;
      for (let at = this.course.cells[row]; at < this.course.cells[row + 1]; at++) {
        if (first + this.course.cell[at] === line) return true;
      }
      return false;
    });
    return found ?? -1;
  }

  hover(event) {
    if (this.drag) {
      const moved = event.clientX - this.drag.x;
      this.drag.moved ||= Math.abs(moved) > 3;
      const ticks = moved * (this.drag.to - this.drag.from) / (this.width - this.left);
      if (this.drag.moved) this.view(this.drag.from - ticks, this.drag.to - ticks);
      return tip.hide();
    }
    const row = this.rowAt(event);
    if (row < 0) return tip.hide();
    const { course } = this;
    tip.show(event, `${course.tell(row)}\non ${course.machines[course.machine[row]]} from ${course.clock(course.start[row])}` +
      ` for ${span((course.end[row] - course.start[row]) * course.tick_s)}`);
  }

  pick(event) {
    const row = this.rowAt(event);
    this.chosen = row < 0 ? -1 : this.course.job[row];
    this.seek(this.tickAt(event));
  }

  choose(job) {
    this.chosen = job;
    this.seek(this.tick);
  }

  find(name) {
    const job = this.course.number.get(name) ?? -1;
    this.box.querySelector(".missing").textContent = name && job < 0 ? `no job ${name}` : "";
    const row = this.course.job.indexOf(job);
    this.chosen = job;
    this.seek(row < 0 ? this.tick : this.course.start[row]);
  }

  // Makes an instant the moment shown, in sight, and says how things stood then.
  seek(tick) {
    const { course } = this;
    this.tick = Math.min(this.last, Math.max(this.first, Math.floor(tick)));
    const wide = this.to - this.from;
    if (this.tick < this.from || this.tick > this.to) this.view(this.tick - wide / 2, this.tick + wide / 2);
    const rows = course.held(this.tick);
    const held = rows.reduce((sum, row) => sum + course.gpus[row], 0), jobs = new Set(rows.map((row) => course.job[row])).size;
    const time_s = Math.round(this.tick * course.tick_s * 1000) / 1000;
    const chosen = this.chosen < 0 ? "" : ` · job ${course.job_id[this.chosen]}: ${course.about(this.chosen)}`;
    this.now = { time_s, held, jobs };
    this.box.querySelector(".clock").textContent = course.clock(this.tick);
    this.box.querySelector(".state").textContent = `${held.toLocaleString("en")} of ${course.total_gpus.toLocaleString("en")} GPUs held by ${jobs.toLocaleString("en")} ${jobs === 1 ? "job" : "jobs"}${chosen}`;
    this.box.querySelector(".command").textContent = `dally view RUN_DIR --at ${time_s}`;
    const job = this.chosen < 0 ? "" : `&job=${encodeURIComponent(course.job_id[this.chosen])}`;
    this.box.querySelector(".here").setAttribute("href", `#t=${time_s}${job}`);
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.follow());
  }

  // Goes where an address says; false if it names no moment.
  visit(address) {
    const named = new URLSearchParams(address.replace(/^#/, ""));
    const job = this.course.number.get(named.get("job"));
    const time_s = Number(named.get("t"));
    const timed = named.has("t") && Number.isFinite(time_s);
    if (!timed && job === undefined) return false;
    this.chosen = job === undefined ? -1 : job;
    if (timed) this.seek((time_s + 0.0005) / this.course.tick_s);
    else this.find(named.get("job"));
    return true;
  }
}
