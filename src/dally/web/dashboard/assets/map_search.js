// Finds a job, a user, a model, a machine or a rack by what one types.

const SUGGESTED = 60;

// {holds(job)} or {place}, with `words`; null when nothing is called so.
export function find({ tree, occupancy }, typed) {
  const text = typed.trim().toLowerCase();
  if (!text) return null;
  const job = occupancy.job(typed.trim());
  if (job) return { holds: (one) => one.id === job.id, words: `job ${job.id}`, job };
  return byJobs(occupancy, text, (value) => value === text) || byName(tree, (name) => name === text)
    || byName(tree, (name) => name.startsWith(text)) || byJobs(occupancy, text, (value) => value.includes(text));
}

function byName(tree, fits) {
  for (let tier = 0; tier < tree.root; tier += 1) {
    const domain = tree.names[tier].findIndex((name) => fits(name.toLowerCase()));
    const words = `${tree.tiers[tier]} ${tree.names[tier][domain]}`;
    if (domain >= 0) return { place: { kind: "domain", tier, domain }, words };
  }
  return null;
}

function byJobs(occupancy, text, fits) {
  for (const field of ["user", "model", "name", "id"]) {
    const ids = new Set(occupancy.jobs.filter((job) => job && fits(job[field].toLowerCase())).map((job) => job.id));
    if (!ids.size) continue;
    const holds = (job) => fits(job[field].toLowerCase());
    const gpus = occupancy.jobs.reduce((sum, job) => sum + (job && ids.has(job.id) ? job.gpus : 0), 0);
    return { holds, words: `${field} ${text}: ${ids.size} job${ids.size === 1 ? "" : "s"} on ${gpus} GPUs` };
  }
  return null;
}

// Names worth offering: users, models and racks.
export function suggestions({ tree, occupancy }) {
  const found = new Set();
  for (const job of occupancy.jobs) for (const name of job ? [job.user, job.model] : []) if (name) found.add(name);
  for (let tier = tree.root - 1; tier > 0; tier -= 1) {
    for (const name of tree.names[tier].slice(0, SUGGESTED)) found.add(name);
  }
  return [...found].slice(0, 4 * SUGGESTED);
}
