// What there is at a place, in words: for the card, for the ear, and for whoever tells no colours.

import { DOWN, DRAINING, UP } from "./map_state.js";
import { jobAt } from "./map_pick.js";

const LISTED = 5;  // jobs on a card
const DATE = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short" });
const DATED_S = 1e8;  // clocks of replays start near 1970: no date then

export const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const stranger = (job) => !job.user && job.id.startsWith("another");

export const jobHref = (job) => (stranger(job) ? null : `/jobs/${encodeURIComponent(job.id)}`);
export const jobTitle = (job) => (stranger(job) ? "Another user's job" : job.name || `Job ${job.id}`);

function lasting(seconds) {
  const minutes = Math.floor(seconds / 60);
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor(minutes / 60) % 24} h`;
}

function since(job, wallS) {
  const dated = job.since_s > DATED_S ? `${DATE.format(new Date(1000 * job.since_s))}, ` : "";
  return `${dated}${lasting(wallS - job.since_s)} ago`;
}

export function tierWords(tiers, tier) {
  if (tier < 0) return "not known";
  return tier && tier === tiers.length - 1 ? `across the ${tiers[tier]}` : `within one ${tiers[tier]}`;
}

function jobRows({ tree, occupancy }, job) {
  return [
    ["Id", stranger(job) ? "" : job.id],
    ["User", job.user],
    ["Model", job.model],
    ["GPUs", `${job.gpus} on ${plural(job.on.size, "machine")}`],
    ["Spread", tierWords(tree.tiers, job.tier)],
    ["Slowdown", job.slowdown ? `${job.slowdown.toFixed(2)}×` : ""],
    ["State", job.state === "running" ? "" : job.state],
    ["Since", job.since_s === undefined ? "" : since(job, occupancy.wallS)],
  ].filter(([, value]) => value);
}

const STATES = { [DRAINING]: "draining: no new jobs", [DOWN]: "down" };

function machineRows({ tree, occupancy }, machine) {
  const { free, away, gpus } = occupancy.tally(machine, machine + 1);
  return [
    ["In", tree.path(0, machine).join(", ")],
    ["GPUs", `${free + away} of ${gpus} idle`],
    ["State", STATES[occupancy.up[machine]] || "up"],
    ["Reason", occupancy.reasons.get(machine) || ""],
  ].filter(([, value]) => value);
}

function domainRows({ tree, occupancy }, tier, domain) {
  const told = occupancy.tally(tree.start[tier][domain], tree.start[tier][domain + 1]);
  const lost = ["draining", "down"].filter((how) => told[how]).map((how) => `${told[how]} ${how}`);
  return [
    ["In", tree.path(tier, domain).join(", ")],
    ["GPUs", `${told.free.toLocaleString("en")} of ${told.gpus.toLocaleString("en")} free`],
    ["Machines", `${told.machines.toLocaleString("en")}${lost.length ? ` (${lost.join(", ")})` : ""}`],
    ["Uplink", loadWords(occupancy.loads[tier][domain])],
  ].filter(([, value]) => value);
}

const loadWords = (load) => (load === undefined || Number.isNaN(load) ? "" : `${Math.round(100 * load)} % busy`);

// {title, kind, rows, jobs: [{job, gpus}], more, href, node, up}: what a card shows about a place.
export function about(scene, place) {
  const { tree, occupancy } = scene;
  const job = jobAt(scene, place);
  if (job) return aboutJob(scene, job, place);
  const name = tree.names[place.tier][place.domain];
  if (place.kind === "link") return aboutLink(scene, place, name);
  const [from, to] = [tree.start[place.tier][place.domain], tree.start[place.tier][place.domain + 1]];
  const jobs = occupancy.jobsOn(from, to);
  const rows = place.tier ? domainRows(scene, place.tier, place.domain) : machineRows(scene, place.domain);
  if (place.kind === "gpu") rows.unshift(["GPU", `${place.number}, idle`]);
  const more = Math.max(0, jobs.length - LISTED);
  const machine = place.tier ? {} : machineFacts(scene, place);
  return { kind: tree.tiers[place.tier], title: name, rows, jobs: jobs.slice(0, LISTED), more, ...machine };
}

// A job, and the machine of it that one points at.
export function aboutJob(scene, job, place) {
  const rows = jobRows(scene, job);
  const { tree, occupancy } = scene;
  if (place) rows.push(["Here", hereWords(tree, occupancy, place)]);
  const machine = place ? machineFacts(scene, place) : {};
  return { kind: "job", title: jobTitle(job), href: jobHref(job), rows, jobs: [], more: 0, ...machine };
}

const machineFacts = ({ tree, occupancy }, { domain }) => (
  { node: tree.names[0][domain], up: occupancy.up[domain] === UP }
);

function hereWords(tree, occupancy, { domain, number }) {
  const state = STATES[occupancy.up[domain]];
  return [`GPU ${number} of ${tree.names[0][domain]}`, ...tree.path(0, domain), ...(state ? [state] : [])].join(", ");
}

function aboutLink({ tree, occupancy }, place, name) {
  const busy = loadWords(occupancy.loads[place.tier][place.domain]) || "load not known";
  const to = tree.path(place.tier, place.domain)[0] || tree.tiers[tree.root];
  return { kind: "link", title: `Uplink of ${name}`, rows: [["Load", busy], ["To", to]], jobs: [], more: 0 };
}

// One sentence about a place.
export function sentence(scene, place) {
  const told = about(scene, place);
  const facts = told.rows.map(([label, value]) => `${label} ${value}`).join("; ");
  const jobs = told.jobs.length ? `; ${plural(told.jobs.length + told.more, "job")}` : "";
  return `${told.kind} ${told.title}: ${facts}${jobs}.`;
}
