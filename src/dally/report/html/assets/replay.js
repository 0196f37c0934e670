// The replay: a map of the cluster at an instant, the queue beside it, and ways to move through time.

const QUEUE_SHOWN = 14;
const PLAY_S = 60;  // the whole run in that many seconds at speed 1

class Replay {
  constructor(box, course, paint) {
    Object.assign(this, { box, course, paint, tick: Math.floor(course.start_s / course.tick_s), chosen: -1, playing: false });
    this.first = this.tick;
    this.last = Math.floor(course.end_s / course.tick_s);
    this.canvas = box.querySelector("canvas");
    this.slider = box.querySelector("input[type=range]");
    this.how = box.querySelector("select.colour");
    this.listen();
    this.resize();
  }

  listen() {
    const on = (query, kind, act) => this.box.querySelector(query).addEventListener(kind, act);
    on("input[type=range]", "input", () => this.seek(this.first + (this.last - this.first) * this.slider.value / this.slider.max, true));
    on(".play", "click", () => this.play(!this.playing));
    on(".back", "click", () => this.seek(this.course.previous(this.tick)));
    on(".forward", "click", () => this.seek(this.course.next(this.tick)));
    on(".jump", "change", (event) => this.seek(Number(event.target.value) / this.course.tick_s));
    on(".find", "change", (event) => this.find(event.target.value.trim()));
    this.how.addEventListener("change", () => this.draw());
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", tip.hide);
    this.canvas.addEventListener("click", (event) => {
      const seen = this.hit(event);
      this.choose(seen && seen.row >= 0 ? this.course.job[seen.row] : -1);
    });
  }

  key(event) {
    if (["SELECT", "INPUT"].includes(event.target.tagName) && event.target !== this.slider) return;
    const jump = (this.last - this.first) / 100;
    const acts = {
      " ": () => this.play(!this.playing),
      ArrowRight: () => this.seek(event.shiftKey ? this.tick + jump : this.course.next(this.tick)),
      ArrowLeft: () => this.seek(event.shiftKey ? this.tick - jump : this.course.previous(this.tick)),
      Home: () => this.seek(this.first),
      End: () => this.seek(this.last),
      Escape: () => this.choose(-1),
    };
    if (!acts[event.key] || (event.key === " " && event.target.tagName === "BUTTON")) return;
    event.preventDefault();
    acts[event.key]();
  }

  find(name) {
    const job = this.course.number.get(name);
    const known = job !== undefined;
    this.box.querySelector(".found").textContent = name && !known ? `no job ${name}` : "";
    if (!known) return this.choose(-1);
    const row = this.course.job.indexOf(job);
    if (row >= 0) this.seek(this.course.start[row]);
    this.choose(job);
  }

  choose(job) {
    this.chosen = job;
    this.draw();
    if (this.follow) this.follow();
  }

  seek(tick, fromSlider = false) {
    this.tick = Math.min(this.last, Math.max(this.first, Math.floor(tick)));
    if (!fromSlider) this.slider.value = Math.round(this.slider.max * (this.tick - this.first) / Math.max(1, this.last - this.first));
    this.draw();
    if (this.follow) this.follow();
  }

  play(wanted) {
    this.playing = wanted;
    const button = this.box.querySelector(".play");
    button.textContent = wanted ? "❚❚ Pause" : "▶ Play";
    if (!wanted) return;
    if (this.tick >= this.last) this.seek(this.first);
    let before = performance.now();
    const frame = (now) => {
      if (!this.playing) return;
      const speed = Number(this.box.querySelector(".speed").value);
      this.seek(this.tick + (this.last - this.first) * speed * (now - before) / 1000 / PLAY_S);
      before = now;
      if (this.tick >= this.last) return this.play(false);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  // Large cells with which all racks fit.
  resize() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    const most = Math.max(260, Math.min(560, innerHeight * 0.62));
    let best = { size: 1, score: 0 };
    for (this.size = 36; this.size > 1; this.size -= this.size > 8 ? 1 : 0.5) {
      this.arrange(width);
      if (this.height > most || this.wide > width) continue;
      const score = this.size * (this.even ? 1 : 0.7);  // rows of racks that are all full look better
      if (score > best.score) best = { size: this.size, score };
    }
    this.size = best.size;
    this.arrange(width);
    this.pen = sharpCanvas(this.canvas, width, Math.max(this.height, 40));
    this.width = width;
    this.draw();
  }

  arrange(width) {
    const { size } = this;
    const label = size >= 5 ? 18 : 0, pad = size >= 5 ? 6 : 2, apart = size >= 5 ? 12 : 4;
    this.boxes = [];
    this.spots = [];
    let x = 0, y = 0, tallest = 0, inRow = 0;
    const rows = [];
    this.wide = 0;
    for (const [name, first, count] of this.course.groups) {
      const most = Math.max(...this.course.machine_gpus.slice(first, first + count));
      const across = Math.min(most, most > 8 ? Math.ceil(Math.sqrt(most)) : most), down = Math.ceil(most / across);
      const gap = size >= 4 ? 3 : 1;
      const columns = Math.max(1, Math.round(Math.sqrt(count * down / (across * 1.2))));
      const wide = columns * (across * size + gap * 2) + 2 * pad;
      const tall = Math.ceil(count / columns) * (down * size + gap) + 2 * pad + label;
      if (x > 0 && x + wide > width) { rows.push(inRow); x = 0; y += tallest + apart; tallest = 0; inRow = 0; }
      inRow++;
      this.boxes.push({ name, x, y, wide, tall });
      for (let place = 0; place < count; place++) {
        const column = place % columns, line = Math.floor(place / columns);
        this.spots[first + place] = {
          x: x + pad + column * (across * size + gap * 2), y: y + pad + label + line * (down * size + gap), across,
        };
      }
      this.wide = Math.max(this.wide, x + wide);
      tallest = Math.max(tallest, tall);
      x += wide + apart;
    }
    this.even = rows.every((count) => count <= inRow);
    this.height = y + tallest + 2;
  }

  draw() {
    if (!this.pen) return;
    const { course, pen, paint } = this;
    pen.clearRect(0, 0, this.width, this.height + 40);
    this.drawBoxes();
    const rows = course.held(this.tick);
    const running = new Set();
    let held = 0;
    this.shown = new Map();
    for (const row of rows) {
      running.add(course.job[row]);
      held += course.gpus[row];
      pen.globalAlpha = this.chosen < 0 || this.chosen === course.job[row] ? 1 : 0.15;
      pen.fillStyle = paint.of(course, row, this.how.value);
      for (let at = course.cells[row]; at < course.cells[row + 1]; at++) this.fill(course.machine[row], course.cell[at], row);
    }
    pen.globalAlpha = 1;
    this.drawDown(course.down(this.tick));
    this.showQueue(held, running.size);
  }

  drawBoxes() {
    const { pen, paint, size } = this;
    pen.font = "12px system-ui, sans-serif";
    pen.lineWidth = 1;
    for (const box of this.boxes) {
      pen.strokeStyle = paint.line;
      pen.strokeRect(box.x + 0.5, box.y + 0.5, box.wide - 1, box.tall - 1);
      pen.fillStyle = paint.soft;
      if (size >= 5) pen.fillText(fitted(box.name, box.wide - 12), box.x + 7, box.y + 15);
    }
    pen.fillStyle = paint.free;
    this.spots.forEach((_, machine) => {
      for (let gpu = 0; gpu < this.course.machine_gpus[machine]; gpu++) this.fill(machine, gpu, -1);
    });
  }

  fill(machine, gpu, row) {
    const spot = this.spots[machine], { size } = this;
    const inset = size >= 4 ? 1 : 0;
    const x = spot.x + (gpu % spot.across) * size, y = spot.y + Math.floor(gpu / spot.across) * size;
    this.pen.fillRect(x, y, size - inset, size - inset);
    if (row >= 0) this.shown.set(machine * 65536 + gpu, row);
  }

  drawDown(machines) {
    const { pen, paint, size } = this;
    for (const machine of machines) {
      pen.fillStyle = paint.down;
      for (let gpu = 0; gpu < this.course.machine_gpus[machine]; gpu++) {
        this.fill(machine, gpu, -1);
        if (size < 8) continue;
        const spot = this.spots[machine];
        const x = spot.x + (gpu % spot.across) * size, y = spot.y + Math.floor(gpu / spot.across) * size;
        pen.strokeStyle = paint.card;
        pen.beginPath();
        pen.moveTo(x + 2, y + 2);
        pen.lineTo(x + size - 3, y + size - 3);
        pen.stroke();
      }
    }
    this.downNow = new Set(machines);
  }

  showQueue(held, running) {
    const { course } = this;
    const rows = course.waiting(this.tick);
    const wanted = rows.reduce((sum, row) => sum + course.job_gpus[course.wait_job[row]], 0);
    this.now = {
      time_s: this.tick * course.tick_s, held, running, waiting: rows.length, down: this.downNow.size, chosen: this.chosen,
    };
    this.box.querySelector(".clock").textContent = clock(this.now.time_s);
    this.slider.setAttribute("aria-valuetext", clock(this.now.time_s));
    this.box.querySelector(".state").textContent =
      `${held.toLocaleString("en")} of ${course.total_gpus.toLocaleString("en")} GPUs held by ${running.toLocaleString("en")} jobs` +
      (this.downNow.size ? `, ${this.downNow.size} machines down` : "");
    this.box.querySelector(".queue h3").textContent = rows.length
      ? `${rows.length.toLocaleString("en")} ${rows.length === 1 ? "job waits" : "jobs wait"} for ${wanted.toLocaleString("en")} GPUs`
      : "Nobody waits";
    this.listQueue(rows);
  }

  listQueue(rows) {
    const { course } = this;
    const list = this.box.querySelector(".queue ol");
    list.replaceChildren();
    const longest = rows.length ? this.tick - course.wait_start[rows[0]] : 0;
    for (const row of rows.slice(0, QUEUE_SHOWN)) {
      const job = course.wait_job[row], since = this.tick - course.wait_start[row];
      const item = make(list, "li");
      make(item, "i", { style: `width:${(100 * since / Math.max(1, longest)).toFixed(1)}%` });
      const button = make(item, "button", { type: "button", title: "Show this job" }, course.job_id[job]);
      button.addEventListener("click", () => this.find(course.job_id[job]));
      make(item, "span", {}, `${course.job_gpus[job]} GPU${course.job_gpus[job] === 1 ? "" : "s"} · ${span(since * course.tick_s)}`);
    }
    if (rows.length > QUEUE_SHOWN) make(make(list, "li"), "span", {}, `… and ${(rows.length - QUEUE_SHOWN).toLocaleString("en")} more`);
  }

  hit(event) {
    const seen = this.canvas.getBoundingClientRect(), { size } = this;
    const x = event.clientX - seen.left, y = event.clientY - seen.top;
    for (let machine = 0; machine < this.spots.length; machine++) {
      const spot = this.spots[machine];
      const column = Math.floor((x - spot.x) / size), line = Math.floor((y - spot.y) / size);
      const gpu = line * spot.across + column;
      if (column < 0 || column >= spot.across || line < 0 || gpu >= this.course.machine_gpus[machine]) continue;
      return { machine, gpu, row: this.shown.get(machine * 65536 + gpu) ?? -1 };
    }
    return null;
  }

  hover(event) {
    const seen = this.hit(event);
    if (!seen) return tip.hide();
    const state = this.downNow.has(seen.machine) ? "down" : seen.row < 0 ? "free" : this.course.tell(seen.row);
    tip.show(event, `${this.course.machines[seen.machine]}, GPU ${seen.gpu}\n${state}`);
  }
}
