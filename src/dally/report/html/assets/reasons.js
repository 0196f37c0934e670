// Why a job waits at an instant, from the policy's own records: the sentences of `dally explain --at`.

const NEVER = 2 ** 32 - 1;
const [HEAD, RESERVE, ROUND, DEFER, ADMIT] = [0, 1, 2, 3, 4];
const NAMED = 3;

class Reasons {
  constructor(course) { this.course = course; }

  // The rows of ranks by job, made when first asked for.
  get ranks() {
    if (!this.byJob) {
      this.byJob = new Map();
      this.course.rank_job.forEach((job, row) => {
        if (!this.byJob.has(job)) this.byJob.set(job, []);
        this.byJob.get(job).push(row);
      });
    }
    return this.byJob;
  }

  // The last rank of a job at an instant, -1 if it had none.
  rankOf(job, tick) {
    let found = -1;
    for (const row of this.ranks.get(job) || []) if (this.course.rank_time[row] <= tick) found = row;
    return found;
  }

  // Who waits, first in order first.
  queue(tick) {
    const { course } = this;
    const place = (row) => row < 0 ? Infinity : course.rank_order[row];
    return course.waiting(tick).map((row) => course.wait_job[row])
      .map((job) => [place(this.rankOf(job, tick)), job])
      .sort(([a, one], [b, other]) => (a === b ? 0 : a - b) || one - other).map(([, job]) => job);
  }

  // The last record of these kinds, of a job or of the whole; -1 if there is none.
  last(tick, kinds, job = -1) {
    const { course } = this;
    for (let row = Course.before(course.note_time, tick) - 1; row >= 0; row--) {
      if (kinds.includes(course.note_kind[row]) && (job < 0 || course.note_job[row] === job + 1)) return row;
    }
    return -1;
  }

  why(job, tick) {
    const { course } = this;
    if (!course.reasons) return "too many decisions to keep them here: `dally explain` tells why";
    const queue = this.queue(tick);
    const ahead = queue.slice(0, queue.indexOf(job)).map((one) => course.job_id[one]);
    const begin = ahead.length ? `${ahead.length} ahead of it: ${named(ahead)}` : "first in line";
    return `${begin}; ${this.cause(job, tick, queue)}`;
  }

  cause(job, tick, queue) {
    const { course } = this;
    const admitted = this.last(tick, [DEFER, ADMIT], job);
    if (admitted >= 0 && course.note_kind[admitted] === DEFER) return "not admitted yet: the policy's virtual machine still works on it";
    const first = this.firstInLine(tick, queue);
    const head = first >= 0 ? course.note_job[first] - 1 : -1, other = first >= 0 && head !== job;
    if (other && course.note_kind[first] === HEAD) return `${course.job_id[head]} does not fit, and nobody behind it is offered GPUs`;
    const holders = this.holders(tick), free = this.free(tick, holders);
    if (free < course.job_gpus[job]) return this.tooFew(job, tick, free, holders, first);
    const declined = this.offer(job, tick);
    if (declined) return declined;
    if (other && course.note_until[first] < NEVER) {
      return `${freeWords(free)}, but GPUs are kept for ${course.job_id[head]} from ${this.until(first)} on, which it would delay`;
    }
    const round = this.round(tick);
    return round ? `${freeWords(free)}, shared out next at ${round}` : `${freeWords(free)}, but not where it takes them`;
  }

  tooFew(job, tick, free, holders, first) {
    const { course } = this;
    let text = `${freeWords(free)}, it asks for ${course.job_gpus[job]}`;
    text += holders.length ? `; held by ${named(holders.map(([one, gpus]) => `${course.job_id[one]} (${gpus})`))}` : "; machines are down";
    if (first >= 0 && course.note_kind[first] === RESERVE && course.note_until[first] < NEVER) {
      const head = course.note_job[first] - 1;
      text += `; kept for ${head === job ? "it" : course.job_id[head]} from ${this.until(first)} on`;
    }
    const round = this.round(tick);
    return round ? `${text}; shared out next at ${round}` : text;
  }

  firstInLine(tick, queue) {
    const row = this.last(tick, [HEAD, RESERVE]);
    return row >= 0 && queue.includes(this.course.note_job[row] - 1) ? row : -1;
  }

  round(tick) {
    const row = this.last(tick, [ROUND]);
    return row >= 0 && this.course.note_until[row] > tick ? this.until(row) : "";
  }

  until(row) { return this.at(this.course.note_until[row] * this.course.tick_s); }
  at(seconds) { return clock(Math.round(seconds * 100) / 100, this.course.dated); }

  holders(tick) {
    const { course } = this;
    const held = new Map();
    for (const row of course.held(tick)) held.set(course.job[row], (held.get(course.job[row]) || 0) + course.gpus[row]);
    return [...held].sort(([, a], [, b]) => b - a);
  }

  free(tick, holders) {
    const { course } = this;
    const down = course.down(tick).reduce((sum, machine) => sum + course.machine_gpus[machine], 0);
    return course.total_gpus - down - holders.reduce((sum, [, gpus]) => sum + gpus, 0);
  }

  // What was last on offer to the job, in words; "" if nothing was recorded.
  offer(job, tick) {
    const { course } = this;
    const rank = this.rankOf(job, tick);
    if (rank < 0) return "";
    for (let row = Course.before(course.offer_time, tick) - 1; row >= 0; row--) {
      if (course.offer_demand[row] !== course.rank_demand[rank]) continue;
      if (course.offer_job[row] && course.offer_job[row] !== job + 1) continue;
      return this.offerWords(row, job, tick);
    }
    return "";
  }

  offerWords(row, job, tick) {
    const { course } = this;
    if (!course.offer_tier[row]) return "not enough GPUs free anywhere";
    const tier = course.offer_tier[row] - 1;
    const where = tier === course.tiers.length - 1 ? `GPUs across the ${course.tiers[tier]}` : `one ${course.tiers[tier]}`;
    const timer = tier ? course.timers[course.offer_timers[row]][tier - 1] : 0;
    if (timer === 0) return `${where} on offer, which it takes when its turn comes`;
    if (timer === null) return `${where} on offer at best: declined, it never takes that`;
    return `${where} on offer at best: declined until ${this.at(course.stateOf(job, tick).from * course.tick_s + timer)}`;
  }
}

function freeWords(gpus) { return `${gpus || "no"} ${gpus === 1 ? "GPU" : "GPUs"} free`; }

function named(names) {
  const shown = names.slice(0, NAMED).join(", ");
  return names.length > NAMED ? `${shown} and ${names.length - NAMED} more` : shown;
}
