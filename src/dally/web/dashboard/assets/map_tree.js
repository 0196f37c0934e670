// The cluster's tree: tier 0 holds the machines, the last tier the one domain that is everything.

const isMachine = (tier) => tier === 0;

export class Tree {
  constructor(told) {
    Object.assign(this, { boot: told.boot, tiers: told.tiers, names: told.names, first: told.first, count: told.count });
    this.root = told.tiers.length - 1;
    this.gpus = Uint16Array.from(told.gpus);
    this.machines = this.gpus.length;
    this.seat = running(this.gpus);  // the first GPU of each machine, counted over the whole cluster
    this.parent = told.tiers.map((_, tier) => parents(told, tier));
    this.short = told.tiers.map((_, tier) => this.#short(tier));
    this.start = told.tiers.map((_, tier) => this.#starts(tier));
  }

  // The first machine of every domain of a tier, and at the end how many machines there are.
  #starts(tier) {
    const length = this.names[tier].length;
    const found = new Int32Array(length + 1).fill(this.machines);
    for (let domain = 0; domain < length; domain += 1) found[domain] = this.#leaf(tier, domain);
    return found;
  }

  #leaf(tier, domain) {
    let at = domain;
    for (let level = tier; !isMachine(level); level -= 1) at = this.first[level][at];
    return at;
  }

  // Names for where there is little room: without what holds it, or without what all begin with.
  #short(tier) {
    const names = this.names[tier];
    const above = tier < this.root - 1 ? this.names[tier + 1] : null;
    const holder = (domain) => above[this.parent[tier][domain]];
    if (above && names.every((name, domain) => name.startsWith(holder(domain)))) {
      return names.map((name, domain) => trimmed(name.slice(holder(domain).length)) || name);
    }
    const begin = common(names);
    return names.map((name) => name.slice(begin) || name);
  }

  size(tier) {
    return this.names[tier].length;
  }

  gpusOf(tier, domain) {
    const start = this.start[tier];
    return this.seat[start[domain + 1]] - this.seat[start[domain]];
  }

  // The domain of tier `above` that holds a domain.
  over(tier, domain, above) {
    let at = domain;
    for (let level = tier; level < above; level += 1) at = this.parent[level][at];
    return at;
  }

  // Names of what holds a domain, closest first, without the whole network.
  path(tier, domain) {
    const names = [];
    for (let level = tier + 1; level < this.root; level += 1) {
      names.push(this.names[level][this.over(tier, domain, level)]);
    }
    return names;
  }

  machineOfSeat(seat) {
    let low = 0;
    let high = this.machines;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.seat[middle] <= seat) low = middle;
      else high = middle;
    }
    return low;
  }
}

const trimmed = (name) => name.replace(/^[^\p{L}\p{N}]+/u, "");

// How many letters all names begin with; digits are never cut in two.
function common(names) {
  let length = names[0].length;
  for (const name of names) while (!name.startsWith(names[0].slice(0, length))) length -= 1;
  return names[0].slice(0, length).replace(/[0-9]+$/, "").length;
}

function running(gpus) {
  const sums = new Int32Array(gpus.length + 1);
  gpus.forEach((here, machine) => { sums[machine + 1] = sums[machine] + here; });
  return sums;
}

function parents(told, tier) {
  const found = new Int32Array(told.names[tier].length).fill(-1);
  (told.first[tier + 1] || []).forEach((first, above) => found.fill(above, first, first + told.count[tier + 1][above]));
  return found;
}
