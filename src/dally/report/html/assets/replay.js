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
    this.reasons = new Reasons(course);
    const ofTier = (wanted) => new Map(course.links.flatMap(([tier, domain], link) => tier === wanted ? [[domain, link]] : []));
    [this.machineLinks, this.groupLinks] = [ofTier(0), ofTier(1)];
    this.farLinks = course.links.flatMap(([tier, , name], link) => tier > 1 ? [[name, link]] : []).slice(0, 24);
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
    const label = size >= 5 ? 18 : 0, tag = size >= 12 ? 12 : 0, wire = this.machineLinks.size && size >= 6 ? 4 : 0, pad = size >= 5 ? 6 : 2, apart = size >= 5 ? 12 : 4;
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
      const high = tag + down * size + wire + gap;
      const tall = Math.ceil(count / columns) * high + 2 * pad + label;
      if (x > 0 && x + wide > width) { rows.push(inRow); x = 0; y += tallest + apart; tallest = 0; inRow = 0; }
      inRow++;
      this.boxes.push({ name, x, y, wide, tall });
      for (let place = 0; place < count; place++) {
        const column = place % columns, line = Math.floor(place / columns);
        this.spots[first + place] = {
          x: x + pad + column * (across * size + gap * 2), y: y + pad + label + tag + line * high, across,
          wide: across * size, bottom: y + pad + label + line * high + tag + down * size,
        };
      }
      this.wide = Math.max(this.wide, x + wide);
      tallest = Math.max(tallest, tall);
      x += wide + apart;
    }
    [this.tag, this.wire] = [tag, wire];
    this.even = rows.every((count) => count <= inRow);
    this.height = y + tallest + 2;
  }

  draw() {
    if (!this.pen) return;
    const { course, pen, paint } = this;
    pen.clearRect(0, 0, this.width, this.height + 40);
    this.drawBoxes();
    const rows = course.held(this.tick);
    const alone = rows.some((row) => course.job[row] === this.chosen);
    const running = new Set();
    let held = 0;
    this.shown = new Map();
    for (const row of rows) {
      running.add(course.job[row]);
      held += course.gpus[row];
      pen.globalAlpha = !alone || this.chosen === course.job[row] ? 1 : 0.15;
      pen.fillStyle = paint.of(course, row, this.how.value);
      for (let at = course.cells[row]; at < course.cells[row + 1]; at++) this.fill(course.machine[row], course.cell[at], row);
    }
    pen.globalAlpha = 1;
    this.drawDown(course.down(this.tick));
    this.drawLoads();
    this.showQueue(held, running.size);
    this.showChosen();
  }

  drawBoxes() {
    const { pen, paint, size } = this;
    pen.font = "12px system-ui, sans-serif";
    pen.lineWidth = 1;
    for (const box of this.boxes) {
      pen.strokeStyle = paint.line;
      pen.strokeRect(box.x + 0.5, box.y + 0.5, box.wide - 1, box.tall - 1);
      pen.fillStyle = paint.soft;
      const room = this.groupLinks.size ? box.wide * 0.5 : box.wide - 12;
      if (size >= 5) pen.fillText(fitted(box.name, room), box.x + 7, box.y + 15);
    }
    if (this.tag) {
      pen.font = "10px system-ui, sans-serif";
      this.spots.forEach((spot, machine) => pen.fillText(fitted(this.course.machines[machine], spot.wide * 1.15), spot.x, spot.y - 3));
    }
    pen.fillStyle = paint.free;
    this.spots.forEach((_, machine) => {
      for (let gpu = 0; gpu < this.course.machine_gpus[machine]; gpu++) this.fill(machine, gpu, -1);
    });
  }

  // The uplink of each rack beside its name, that of each machine below its GPUs; farther ones in a line above.
  drawLoads() {
    const { pen, paint, course, tick } = this;
    this.boxes.forEach((box, group) => {
      const link = this.groupLinks.get(group);
      if (link === undefined) return;
      const share = course.load(link, tick);
      box.uplink = { link, x: box.x + box.wide * 0.52, wide: box.wide * 0.48 - 7, y: box.y + 5, tall: this.size >= 5 ? 11 : 3 };
      this.bar(box.uplink, share);
      if (box.uplink.wide < 34 || this.size < 5) return;
      pen.font = "10px system-ui, sans-serif";
      pen.fillStyle = share > 0.6 ? "#fff" : paint.text;
      pen.fillText(`${Math.round(share * 100)} %`, box.uplink.x + 4, box.uplink.y + 9);
    });
    if (this.wire) this.spots.forEach((spot, machine) => {
      const link = this.machineLinks.get(machine);
      if (link !== undefined) this.bar({ x: spot.x, y: spot.bottom, wide: spot.wide - 1, tall: 3 }, course.load(link, tick));
    });
    const far = this.box.querySelector(".uplinks");
    far.replaceChildren();
    for (const [name, link] of this.farLinks) {
      const item = make(far, "li");
      item.append(`${name} `);
      make(make(item, "span", { class: "meter" }), "i", { style: `width:${100 * Math.min(1, course.load(link, tick))}%;background:${paint.load(course.load(link, tick))}` });
      item.append(` ${Math.round(course.load(link, tick) * 100)} %`);
    }
  }

  bar({ x, y, wide, tall }, share) {
    const { pen, paint } = this;
    pen.fillStyle = paint.grid;
    pen.fillRect(x, y, wide, tall);
    pen.fillStyle = paint.load(share);
    pen.fillRect(x, y, wide * Math.min(1, share), tall);
  }

  // The chosen job at this moment: where it runs, or why it waits.
  showChosen() {
    const host = this.box.querySelector(".chosen"), { course, tick } = this;
    host.replaceChildren();
    this.now.why = "";
    if (this.chosen < 0) return;
    const state = course.stateOf(this.chosen, tick);
    make(host, "h3", {}, `Job ${course.job_id[this.chosen]}`);
    make(host, "p", { class: "soft small" }, course.about(this.chosen));
    const words = make(host, "p", { class: "small" });
    if (state.doing === "waits") {
      this.now.why = this.reasons.why(this.chosen, tick);
      words.textContent = `Waits for ${span((tick - state.from) * course.tick_s)}: ${this.now.why}.`;
      this.goTo(host, state.to, state.to >= this.last ? "" : `to its start, ${span((state.to - tick) * course.tick_s)} later`);
    } else if (state.doing === "runs") {
      const where = state.rows.map((row) => `${course.machines[course.machine[row]]} (${course.gpus[row]})`);
      const more = where.length > 8 ? ` and ${where.length - 8} more` : "";
      words.textContent = `Runs since ${course.clock(state.from)} ${course.tierWords(course.tier[state.rows[0]])}: ${where.slice(0, 8).join(", ")}${more}.`;
      this.goTo(host, state.to, `to the end of this stay, ${span((state.to - tick) * course.tick_s)} later`);
    } else {
      words.textContent = state.doing === "before" ? `Comes at ${course.clock(state.to)}.` : `Was done at ${course.clock(state.from)}.`;
      if (state.doing === "before") this.goTo(host, state.to, "go there");
    }
  }

  goTo(host, tick, words) {
    if (!words || !Number.isFinite(tick)) return;
    make(host, "button", { type: "button", class: "plain" }, words).addEventListener("click", () => this.seek(tick));
  }

  // This moment as the page's address tells it.
  address() {
    const job = this.chosen < 0 ? "" : `&job=${encodeURIComponent(this.course.job_id[this.chosen])}`;
    return `#t=${Math.round(this.now.time_s * 1000) / 1000}${job}`;
  }

  // Go where an address says; false if it says nothing of a moment.
  visit(address) {
    const asked = new URLSearchParams(address.replace(/^#/, ""));
    const job = this.course.number.get(asked.get("job"));
    const time_s = Number(asked.get("t"));
    const timed = asked.has("t") && Number.isFinite(time_s);
    if (!timed && job === undefined) return false;
    this.chosen = job === undefined ? -1 : job;
    if (!timed) this.find(asked.get("job"));
    else this.seek((time_s + 0.0005) / this.course.tick_s);
    return true;
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
    this.box.querySelector(".clock").textContent = course.clock(this.tick);
    this.slider.setAttribute("aria-valuetext", course.clock(this.tick));
    this.box.querySelector(".state").textContent =
      `${held.toLocaleString("en")} of ${course.total_gpus.toLocaleString("en")} GPUs held by ${running.toLocaleString("en")} jobs` +
      (this.downNow.size ? `, ${this.downNow.size} machines down` : "");
    this.box.querySelector(".queue h3").textContent = rows.length
      ? `${rows.length.toLocaleString("en")} ${rows.length === 1 ? "job waits" : "jobs wait"} for ${wanted.toLocaleString("en")} GPUs`
      : "Nobody waits";
    this.listQueue(rows);
    this.box.querySelector(".here").setAttribute("href", this.address());
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
      const button = make(item, "button", { type: "button", title: "Why does it wait?" }, course.job_id[job]);
      button.addEventListener("click", () => this.choose(job));
      if (job === this.chosen) item.classList.add("chosen-one");
      const user = course.userOf(job);
      make(item, "span", {}, `${user ? user + " · " : ""}${course.job_gpus[job]} GPU${course.job_gpus[job] === 1 ? "" : "s"} · ${span(since * course.tick_s)}`);
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

  // The rack whose uplink is there.
  uplinkAt(event) {
    const seen = this.canvas.getBoundingClientRect();
    const x = event.clientX - seen.left, y = event.clientY - seen.top;
    return this.boxes.find(({ uplink }) => uplink && x >= uplink.x && x <= uplink.x + uplink.wide && Math.abs(y - uplink.y - uplink.tall / 2) < 9);
  }

  hover(event) {
    const seen = this.hit(event);
    const rack = seen ? null : this.uplinkAt(event);
    if (rack) return tip.show(event, `uplink of ${rack.name}\n${share(this.course.load(rack.uplink.link, this.tick))} of its capacity in use`);
    if (!seen) return tip.hide();
    const state = this.downNow.has(seen.machine) ? "down" : seen.row < 0 ? "free" : this.course.tell(seen.row);
    const link = this.machineLinks.get(seen.machine);
    const load = link === undefined ? "" : `\nits link: ${share(this.course.load(link, this.tick))} in use`;
    tip.show(event, `${this.course.machines[seen.machine]}, GPU ${seen.gpu}\n${state}${load}`);
  }
}
