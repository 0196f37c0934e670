// What a job's GPUs are coloured by, and the legend that goes with it.

import { Assigner, ramp, steps } from "./map_palette.js";
import { FREE } from "./map_state.js";
import { tierWords } from "./map_words.js";

const BOUNDS = [1.05, 1.25, 1.5, 2, 2.5, 3];
const NAMED = 12;  // names that a legend lists
const FEW = 16;  // jobs
const SOME = 300;  // of more each colour has many anyway
const LOOKED_AT = 12;  // machines of a job whose other jobs count as neighbours

const times = (value) => `${value}×`;
const slowStep = (slowdown) => BOUNDS.filter((bound) => slowdown >= bound).length;

export const MODES = ["job", "slowdown", "tier", "user", "model"];

export class Colouring {
  constructor(theme, occupancy, mode) {
    Object.assign(this, { theme, occupancy, mode });
    this.fill = [];  // by slot
    this.group = [];  // by slot: GPUs of one group are one band of a tile
    this.assigner = new Assigner(theme.palette);
    this.ramp = ramp(theme.kind, BOUNDS.length + 1);
    this.tiers = steps(theme.kind, occupancy.tree.tiers.length);
    occupancy.jobs.forEach((job) => { if (job) this.paint(job); });
  }

  paint(job) {
    this.group[job.slot] = this.#group(job);
    this.fill[job.slot] = this.#colour(job);
  }

  #group(job) {
    if (this.mode === "slowdown") return job.slowdown ? slowStep(job.slowdown) : "?";
    if (this.mode === "job") return job.slot;
    return job[this.mode];
  }

  #colour(job) {
    const { mode, theme } = this;
    if (mode === "slowdown") return job.slowdown ? this.ramp[slowStep(job.slowdown)] : theme.unknown;
    if (mode === "tier") return job.tier < 0 ? theme.unknown : this.tiers[job.tier];
    if (mode === "job") return theme.palette.colours[this.assigner.of(job.id, () => this.#near(job), () => this.#others())];
    if (!job[mode]) return theme.unknown;
    return theme.palette.colours[this.assigner.of(job[mode], () => [...this.assigner.given.values()])];
  }

  // All jobs that are there, unless they are many.
  #others() {
    const { slots } = this.occupancy;
    return slots.size > SOME ? [] : [...slots.keys()];
  }

  // Colours of the jobs on this job's machines and on those beside them; of few jobs, of all.
  #near(job) {
    const { seats, tree, jobs, slots } = this.occupancy;
    const { given } = this.assigner;
    if (slots.size <= FEW) return [...slots.keys()].filter((id) => given.has(id)).map((id) => given.get(id));
    const found = new Set();
    for (const machine of [...job.on.keys()].slice(0, LOOKED_AT)) {
      const [from, to] = [tree.seat[Math.max(0, machine - 1)], tree.seat[Math.min(tree.machines, machine + 2)]];
      for (let seat = from; seat < to; seat += 1) {
        const other = seats[seat] === FREE ? null : jobs[seats[seat]];
        const colour = other && other !== job ? given.get(other.id) : undefined;
        if (colour !== undefined) found.add(colour);
      }
    }
    return [...found];
  }

  // Entries {label, colour, holds(job)}: what is there now, the most GPUs first where there is no order.
  legend() {
    if (this.mode === "job") return [];
    const entries = { slowdown: () => this.#slowLegend(), tier: () => this.#tierLegend() }[this.mode] || (() => this.#nameLegend());
    return [...entries(), ...this.#unknown()];
  }

  #unknown() {
    const holds = (job) => (this.mode === "tier" ? job.tier < 0 : !job[this.mode]);
    const some = this.occupancy.jobs.some((job) => job && holds(job));
    return some ? [{ label: "not known", colour: this.theme.unknown, holds }] : [];
  }

  #slowLegend() {
    return this.ramp.map((colour, step) => {
      const [low, high] = [step ? BOUNDS[step - 1] : 1, BOUNDS[step]];
      const label = high ? `${low}–${times(high)}` : `${times(low)} or more`;
      return { label, colour, holds: (job) => job.slowdown && slowStep(job.slowdown) === step };
    });
  }

  #tierLegend() {
    const { tiers } = this.occupancy.tree;
    return tiers.map((_, tier) => (
      { label: tierWords(tiers, tier), colour: this.tiers[tier], holds: (job) => job.tier === tier }
    ));
  }

  #nameLegend() {
    const gpus = new Map();
    for (const job of this.occupancy.jobs) {
      const name = job && job[this.mode];
      if (name) gpus.set(name, (gpus.get(name) || 0) + job.gpus);
    }
    const names = [...gpus].sort((one, two) => two[1] - one[1] || (one[0] < two[0] ? -1 : 1)).map(([name]) => name);
    const colourOf = (name) => this.theme.palette.colours[this.assigner.given.get(name)];
    const listed = names.slice(0, NAMED).map((name) => (
      { label: name, colour: colourOf(name), holds: (job) => job[this.mode] === name }
    ));
    const rest = new Set(names.slice(NAMED));
    const others = { label: `and ${rest.size} more`, colour: null, holds: (job) => rest.has(job[this.mode]) };
    return rest.size ? [...listed, others] : listed;
  }
}
