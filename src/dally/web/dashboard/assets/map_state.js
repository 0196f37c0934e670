// Who sits on which GPU: the state of a moment, and what a cycle changes in it.

export const UP = 0;
export const DRAINING = 1;
export const DOWN = 2;
export const FREE = -1;

export class Occupancy {
  constructor(tree) {
    this.tree = tree;
    this.seats = new Int32Array(tree.seat[tree.machines]).fill(FREE);  // the job's slot, by GPU
    this.up = new Uint8Array(tree.machines);
    this.reasons = new Map();
    this.told = new Array(tree.machines).fill(null);  // the latest list of each machine
    this.jobs = [];  // by slot
    this.slots = new Map();
    this.vacant = [];
    this.loads = tree.names.map((names) => new Float32Array(names.length).fill(NaN));
    this.counts = {};
    this.wallS = 0;
  }

  job(id) {
    return this.jobs[this.slots.get(id)];
  }

  // Takes a whole state; returns what became of it, as `change` does.
  replace(body) {
    const before = new Set(this.slots.keys());
    const moved = [];
    for (const [id, job] of Object.entries(body.jobs)) this.#keep(id, job);
    body.machines.forEach((entry, machine) => { if (this.#differs(machine, entry)) moved.push(machine); });
    moved.forEach((machine) => this.#seat(machine, body.machines[machine]));
    const ended = [...before].filter((id) => !(id in body.jobs));
    ended.forEach((id) => this.#drop(id));
    body.links.forEach((row, tier) => row.forEach((load, domain) => this.#load(tier, domain, load)));
    this.#stamp(body);
    const jobs = Object.keys(body.jobs);
    return { machines: moved, jobs, started: jobs.filter((id) => !before.has(id)) };
  }

  // Takes what one cycle changed.
  change(message) {
    const told = Object.entries(message.jobs || {});
    const started = told.filter(([id, job]) => job && !this.slots.has(id)).map(([id]) => id);
    told.forEach(([id, job]) => { if (job) this.#keep(id, job); });
    const machines = Object.keys(message.machines || {}).map(Number);
    machines.forEach((machine) => this.#seat(machine, message.machines[machine]));
    told.forEach(([id, job]) => { if (!job) this.#drop(id); });
    (message.links || []).forEach(([tier, domain, load]) => this.#load(tier, domain, load));
    this.#stamp(message);
    return { machines, jobs: told.filter(([, job]) => job).map(([id]) => id), started };
  }

  // Jobs on machines [from, to) with their GPUs there, the most first.
  jobsOn(from, to) {
    const found = new Map();
    for (let seat = this.tree.seat[from]; seat < this.tree.seat[to]; seat += 1) {
      const slot = this.seats[seat];
      if (slot !== FREE) found.set(slot, (found.get(slot) || 0) + 1);
    }
    return [...found].map(([slot, gpus]) => ({ job: this.jobs[slot], gpus })).sort((one, two) => two.gpus - one.gpus);
  }

  // GPUs of machines [from, to): free ones to be had, and those that sit in draining or lost machines.
  tally(from, to) {
    const found = { gpus: 0, free: 0, away: 0, machines: to - from, draining: 0, down: 0 };
    for (let machine = from; machine < to; machine += 1) {
      const idle = this.#idle(machine);
      found.gpus += this.tree.gpus[machine];
      found[this.up[machine] === UP ? "free" : "away"] += idle;
      if (this.up[machine] === DRAINING) found.draining += 1;
      if (this.up[machine] === DOWN) found.down += 1;
    }
    return found;
  }

  #idle(machine) {
    let idle = 0;
    for (let seat = this.tree.seat[machine]; seat < this.tree.seat[machine + 1]; seat += 1) {
      if (this.seats[seat] === FREE) idle += 1;
    }
    return idle;
  }

  #stamp(body) {
    this.counts = body.counts || this.counts;
    this.cycle = body.cycle;
    this.wallS = body.wall_s;
  }

  #load(tier, domain, load) {
    if (this.loads[tier]) this.loads[tier][domain] = load === null ? NaN : load;
  }

  #keep(id, told) {
    const known = this.slots.get(id);
    const slot = known !== undefined ? known : this.#newSlot(id);
    return Object.assign(this.jobs[slot], told);
  }

  #newSlot(id) {
    const slot = this.vacant.length ? this.vacant.pop() : this.jobs.length;
    this.slots.set(id, slot);
    const unknown = { name: "", user: "", model: "", gpus: 0, state: "", tier: -1, slowdown: null };
    this.jobs[slot] = { id, slot, ...unknown, on: new Map() };
    return slot;
  }

  #drop(id) {
    const job = this.job(id);
    if (!job) return;
    for (const machine of job.on.keys()) this.#free(machine, job.slot);
    this.slots.delete(id);
    this.jobs[job.slot] = undefined;
    this.vacant.push(job.slot);
  }

  #free(machine, slot) {
    for (let seat = this.tree.seat[machine]; seat < this.tree.seat[machine + 1]; seat += 1) {
      if (this.seats[seat] === slot) this.seats[seat] = FREE;
    }
  }

  #differs(machine, [state, list, reason]) {
    const told = this.told[machine];
    if (!told || told.length !== list.length) return true;
    if (this.up[machine] !== state || this.reasons.get(machine) !== reason) return true;
    return list.some((one, at) => told[at] !== one);
  }

  // Who was on a machine keeps its GPUs; others get those that are left.
  #seat(machine, [state, list, reason]) {
    const { seats, tree } = this;
    const [from, to] = [tree.seat[machine], tree.seat[machine + 1]];
    const wanted = this.#wanted(list);
    for (let seat = from; seat < to; seat += 1) {
      const slot = seats[seat];
      if (slot === FREE) continue;
      const left = wanted.get(slot) || 0;
      if (left > 0) wanted.set(slot, left - 1);
      else { seats[seat] = FREE; if (this.jobs[slot]) this.jobs[slot].on.delete(machine); }
    }
    let next = from;
    for (const [slot, left] of wanted) {
      for (let more = left; more > 0 && next < to; next += 1) if (seats[next] === FREE) { seats[next] = slot; more -= 1; }
    }
    for (let at = 0; at < list.length; at += 2) this.job(list[at]).on.set(machine, list[at + 1]);
    this.up[machine] = state;
    this.told[machine] = list;
    if (reason) this.reasons.set(machine, reason);
    else this.reasons.delete(machine);
  }

  #wanted(list) {
    const wanted = new Map();
    for (let at = 0; at < list.length; at += 2) {
      if (!this.slots.has(list[at])) this.#newSlot(list[at]);
      wanted.set(this.slots.get(list[at]), list[at + 1]);
    }
    return wanted;
  }
}
