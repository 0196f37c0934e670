// Charts of how the cluster fares. The server gives all series of a span; while it lives, the newest point is asked for
// as cycles come, at least once a minute, and all of them again once a new sample is due.

import { isLive, say, tell } from "./base.js";

const root = document.getElementById("trends");
const HEIGHT = 240;
const BARS = new Set(["preemptions"]);
const COUNTED = new Set(["gpus", "waiting_jobs", "waiting_gpus", "slots", "preemptions"]);
const BY_SIZE = new Set(["waiting_jobs", "waiting_gpus", "slots"]);
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000, 1000000];
const FILLED = new Set(["gpus_used", "fragmentation"]);
const POINTED = matchMedia("(hover: hover)").matches; // charts take no fingers
const NOW_EVERY_MS = 2000;
const QUIET_MS = 60_000; // without a cycle samples are taken all the same

let span = root.dataset.span;
let found = null;
const charts = new Map(); // by topic: {topic, chart, ends} with what the axis showed before anybody looked closer
let drawn = null; // the span
const hidden = new Map(); // labels of the lines that somebody switched off, by topic
let loaded_ms = 0;

// Times.

const replay = document.getElementById("replay");
const dated = !replay || replay.dataset.epoch !== "";
const zone = replay?.dataset.zone || undefined;
const CLOCK = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short", timeZone: zone });
const two = (number) => String(number).padStart(2, "0");

function words(wall_s) {
  if (wall_s === null) return "";
  if (dated) return CLOCK.format(new Date(wall_s * 1000));
  const minutes = Math.floor(wall_s / 60);
  return `day ${Math.floor(minutes / 1440)}, ${two(Math.floor(minutes / 60) % 24)}:${two(minutes % 60)}`;
}

const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];

// Along the axis: the day where one begins, else the hour.
const HOUR = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: zone });

function ticks(_, splits, _axis, _space, step) {
  return splits.map((at) => {
    if (!dated) return words(at).replace("day ", "d").replace(", ", " ");
    const date = new Date(at * 1000);
    const hour = HOUR.format(date);
    return step >= 86400 || hour === "00:00" ? DAY.format(date) : hour;
  });
}

function every(seconds) {
  const units = [["h", 3600], ["min", 60], ["s", 1]];
  const [unit, size] = units.find(([, of]) => seconds >= of) ?? units[2];
  return `${Number((seconds / size).toFixed(1))} ${unit}`;
}

// Colours are those of the theme.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";

// Sizes are apart also for eyes that do not tell red from green.
function lineColour(topic, place) {
  if (topic === "gpus") return colour(["--s7", "--s0", "--s2"][place] ?? "--s3");
  if (BY_SIZE.has(topic)) return colour([isDark() ? "--h5" : "--h4", "--s0", "--s11", "--h7", "--s4"][place]);
  return colour(`--s${[0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11][place % 11]}`);
}

// Data: columns as uPlot wants them, with holes where nobody sampled.

function columns(topic) {
  const times = [], places = [];
  found.wall_s.forEach((wall_s, place) => {
    if (place && wall_s - found.wall_s[place - 1] > 2.5 * found.every_s) {
      times.push(found.wall_s[place - 1] + found.every_s);
      places.push(-1);
    }
    times.push(wall_s);
    places.push(place);
  });
  const lines = topic.series.map((line) => places.map((place) => (place < 0 ? null : line.values[place])));
  const now = found.now;
  if (isLive && now && now.wall_s > (times.at(-1) ?? 0)) {
    times.push(now.wall_s);
    topic.series.forEach((line, place) => lines[place].push(BARS.has(line.name) ? null : now.values[line.name] ?? null));
  }
  return [times, ...lines];
}

// Of the axis: no further back than anything is known.
function ends() {
  const last = isLive ? found.now.wall_s : found.wall_s.at(-1) ?? found.now.wall_s;
  const known = (found.wall_s[0] ?? last) - found.every_s;
  const first = isLive ? Math.min(known, last - 600) : known;
  return [found.span_s && found.wall_s.length ? Math.max(first, last - found.span_s) : first, last];
}

function number(value) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString(undefined, { maximumFractionDigits: Math.abs(value) < 10 ? 2 : 0 });
}

// One chart.

function options(topic, width) {
  const grid = { stroke: colour("--grid"), width: 1 };
  const soft = colour("--soft");
  const axis = { stroke: soft, grid, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui", labelFont: "12px system-ui" };
  const unit = topic.name === "preemptions" ? `per ${every(found.every_s)}` : topic.unit;
  const time = { ...axis, label: !isLive && !dated ? "time of the run" : "time", labelSize: 18, size: 32, values: ticks, ...(dated ? {} : { incrs: STEPS }) };
  const amount = { ...axis, label: unit, labelSize: 20, size: 48, ...(COUNTED.has(topic.name) ? { incrs: WHOLE } : {}) };
  return {
    width, height: HEIGHT, padding: [8, 28, 0, 0],
    tzDate: zone ? (at) => window.uPlot.tzDate(new Date(at * 1000), zone) : undefined,
    cursor: { sync: { key: "trends" }, points: { size: 6 }, drag: { x: true, y: false } },
    legend: { live: true },
    scales: {
      x: { time: dated, range: (_, low, high) => (low === null ? ends() : [low, high]) },
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.06 : 1] },
    },
    axes: [time, amount],
    hooks: { draw: [moment] },
    series: [
      { label: "time", value: (chart, at) => words(at ?? chart.data[0][latest(chart)] ?? null) },
      ...topic.series.map((line, place) => style(topic, line, place)),
    ],
  };
}

function style(topic, line, place) {
  const stroke = lineColour(topic.name, place);
  const bars = BARS.has(line.name);
  return {
    label: line.label, stroke, width: bars ? 0 : 1.75, value: (chart, value, own, at) => number(at === null ? chart.data[own].findLast((one, place) => one !== null && place <= latest(chart)) : value),
    fill: bars ? stroke : FILLED.has(line.name) ? `${stroke}22` : undefined,
    paths: bars ? window.uPlot.paths.bars({ size: [0.9, 40, 1] }) : undefined,
    points: { show: found.wall_s.length < 3 && !bars },
    show: !hidden.get(topic.name)?.has(line.label),
  };
}

// What the legend tells of while nobody points: the newest point, or that of the moment that a replay shows.
function latest(chart) {
  const [times] = chart.data;
  const after = isLive ? -1 : times.findIndex((at) => at >= found.now.wall_s);
  return after < 0 ? times.length - 1 : after;
}

// In a replay: where it is.
function moment(chart) {
  if (isLive) return;
  const at = chart.valToPos(found.now.wall_s, "x", true);
  const { left, top, width, height } = chart.bbox;
  if (at < left || at > left + width) return;
  chart.ctx.save();
  chart.ctx.strokeStyle = colour("--bad");
  chart.ctx.lineWidth = devicePixelRatio;
  chart.ctx.beginPath();
  chart.ctx.moveTo(at, top);
  chart.ctx.lineTo(at, top + height);
  chart.ctx.stroke();
  chart.ctx.restore();
}

function sections() {
  return [...root.querySelectorAll("[data-topic]")];
}

// What somebody looks at more closely; null: nobody does.
function closer({ chart, ends: [low, high] }) {
  const { min, max } = chart.scales.x;
  const known = chart.data[0];
  return max < Math.min(high, known.at(-1)) - 1 || min > Math.max(low, known[0]) + 1 ? [min, max] : null;
}

// Ends the charts; returns by topic what was looked at more closely.
function clear() {
  const looked = new Map();
  for (const [name, entry] of charts) {
    if (!entry.chart) continue;
    hidden.set(name, new Set(entry.chart.series.filter((line) => !line.show).map((line) => line.label)));
    looked.set(name, closer(entry));
    entry.chart.destroy();
  }
  charts.clear();
  return looked;
}

function scale(entry, [low, high], looked) {
  const still = looked && looked[1] > low && looked[0] < high;
  const [min, max] = still ? looked : [low, high];
  entry.chart.setScale("x", { min, max });
  entry.ends = [low, high];
}

function draw() {
  const looked = clear();
  for (const section of sections()) {
    const topic = found.topics.find((one) => one.name === section.dataset.topic);
    const place = section.querySelector(".chart");
    place.replaceChildren();
    if (!topic?.series.length || !found.wall_s.length) {
      const none = document.createElement("p");
      none.className = "none";
      none.textContent = topic?.name === "timers" ? "Nothing to show" : "Nothing was measured in this time.";
      place.append(none);
      charts.set(section.dataset.topic, { topic, chart: null });
      continue;
    }
    const chart = new window.uPlot(options(topic, place.clientWidth), columns(topic), place);
    charts.set(topic.name, { topic, chart });
    scale(charts.get(topic.name), ends(), drawn === found.span && looked.get(topic.name));
  }
  drawn = found.span;
  showWords();
  for (const section of sections()) fillTable(section);
  document.getElementById("trend-every").textContent =
    found.wall_s.length ? `one point: ${every(found.every_s)}${POINTED ? "; drag to look closer, double-click to go back" : ""}` : "";
}

function showWords() {
  for (const section of sections()) {
    const text = found.now.words[section.dataset.topic];
    const place = section.querySelector("[data-words]");
    if (text && place.textContent !== text) place.textContent = text;
  }
}

// The same as a table, made when somebody opens it.

function fillTable(section) {
  const details = section.querySelector("details");
  const place = details.querySelector(".tablebox");
  if (!details.open) return place.replaceChildren();
  const topic = found.topics.find((one) => one.name === section.dataset.topic);
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  const cell = (row, kind, text, scope) => {
    const made = document.createElement(kind);
    made.textContent = text;
    if (scope) made.scope = scope;
    if (kind === "td" || (scope === "col" && row.hasChildNodes())) made.className = "number";
    row.append(made);
  };
  cell(head, "th", "time", "col");
  for (const line of topic.series) cell(head, "th", `${line.label}`, "col");
  const body = table.createTBody();
  for (let at = found.wall_s.length - 1; at >= 0; at -= 1) {
    const row = body.insertRow();
    cell(row, "th", words(found.wall_s[at]), "row");
    for (const line of topic.series) cell(row, "td", number(line.values[at]));
  }
  place.replaceChildren(table);
}

// Asking.

function withMoment(address) {
  const at = window.dally.replay?.at_s ?? new URLSearchParams(location.search).get("at");
  return !isLive && at !== null ? `${address}&at=${at}` : address;
}

async function ask(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

// Answers may come in another order than they were asked for: what is shown is never older than what was.
let questions = 0;
const shown = { series: 0, now: 0 }; // numbers of the questions that they answer

function isNews(what, number) {
  if (number < shown[what]) return false;
  shown[what] = number;
  return true;
}

async function load() {
  const [number, of] = [++questions, span];
  loaded_ms = performance.now();
  let told;
  try {
    told = await ask(withMoment(`/trends/series.json?span=${of}`));
  } catch (error) {
    say("Trends cannot be had just now.");
    return;
  }
  if (of !== span || !isNews("series", number)) return;
  const now = isNews("now", number) ? told.now : found.now;
  found = { ...told, now, span: of };
  draw();
  window.dally.trends = { points: found.wall_s.length, now_s: found.now.wall_s, charts };
  tell("dally:trends");
}

// Whether there is news.
async function askNow() {
  const number = ++questions;
  const now = await ask(withMoment("/trends/now.json?"));
  if (!isNews("now", number)) return false;
  found.now = { ...now, words: { ...found.now.words, ...now.words } };
  return true;
}

// In a replay the whole run is there already: only the moment is another.
async function move() {
  try {
    if (!await askNow()) return;
  } catch (error) {
    return; // the next moment asks again
  }
  for (const { chart } of charts.values()) {
    chart?.redraw(false);
    if (chart?.cursor.idx === null) chart.setLegend({ idx: null }, false);
  }
  showWords();
}

let asking = false;
let asked_ms = -NOW_EVERY_MS;
let later = 0;

async function newest() {
  const wait_ms = asking ? NOW_EVERY_MS : asked_ms + NOW_EVERY_MS - performance.now();
  clearTimeout(later);
  if (wait_ms > 0) {
    later = setTimeout(newest, wait_ms);
    return;
  }
  if (document.hidden) return;
  if (!found) {
    if (performance.now() - loaded_ms > 5 * NOW_EVERY_MS) load(); // the first time it could not be had
    return;
  }
  asking = true;
  asked_ms = performance.now();
  try {
    if (await askNow()) showNow();
  } catch (error) {
    return; // the next cycle asks again
  } finally {
    asking = false;
  }
  if (performance.now() - loaded_ms > 1000 * Math.max(60, found.every_s)) load();
}

function showNow() {
  for (const entry of charts.values()) {
    if (!entry.chart) continue;
    const looked = closer(entry);
    entry.chart.setData(columns(entry.topic), false);
    scale(entry, ends(), looked);
  }
  showWords();
  window.dally.trends.now_s = found.now.wall_s;
}

document.querySelector(".spans").addEventListener("click", (event) => {
  const link = event.target.closest("a[data-span]");
  if (!link) return;
  event.preventDefault();
  span = link.dataset.span;
  for (const one of document.querySelectorAll(".spans a")) one.toggleAttribute("aria-current", one === link);
  link.setAttribute("aria-current", "true");
  const address = new URL(location.href);
  address.searchParams.set("span", span);
  history.replaceState(history.state, "", address);
  load();
});
root.addEventListener("toggle", (event) => fillTable(event.target.closest("[data-topic]")), true);
document.body.addEventListener("dally:cycle", newest);
if (isLive) {
  setInterval(newest, QUIET_MS);
  document.addEventListener("visibilitychange", newest);
}
document.body.addEventListener("dally:reset", () => load());
document.body.addEventListener("dally:moment", () => (span === "all" && found ? move() : load()));
document.body.addEventListener("dally:theme", () => found && draw());

let width = root.clientWidth;
new ResizeObserver(() => {
  if (!found || root.clientWidth === width) return;
  width = root.clientWidth;
  for (const { chart } of charts.values()) chart?.setSize({ width: chart.root.parentElement.clientWidth, height: HEIGHT });
}).observe(root);

load();
