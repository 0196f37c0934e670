// What every page has: the stream of cycles, figures at the top, clocks, the theme.

import "./hold_still.js";
import "./table_csv.js";

const body = document.body;
export const isLive = body.dataset.live === "yes";
export const dally = { cycle: Number(body.dataset.cycle), boot: body.dataset.boot, link: "wait", ready: false };
window.dally = dally;

let ahead_s = 0; // of the server's clock against the browser's
let shown_s = null; // in a replay: the moment that is shown

export function now_s() {
  return shown_s === null ? Date.now() / 1000 + ahead_s : shown_s;
}

export function tell(name, detail, at = body) {
  at.dispatchEvent(new CustomEvent(name, { detail, bubbles: at !== body }));
}

// Figures at the top.

export function showCounts(counts) {
  for (const place of document.querySelectorAll("[data-count]")) {
    const text = counts[place.dataset.count]?.toLocaleString("en") ?? "–";
    if (place.textContent !== text) place.textContent = text;
  }
}

// Cycles: a page need not know whether they come from a stream or from a replay.

export function setMoment(wall_s, replayed = false) {
  if (replayed) shown_s = wall_s;
  else ahead_s = wall_s - Date.now() / 1000;
}

function took(message) {
  dally.cycle = message.cycle;
  showCounts(message.counts);
  tell("dally:cycle", message);
  outdate(message);
}

// Lists and pages of jobs that a cycle made old are asked for again: at once, then once a second, and none is lost.

const AGAIN_MS = 1000;
const FAILED_MS = 2000;
const UP_TO_DATE = { list: false, queue: false };
let old = { ...UP_TO_DATE, jobs: new Set() };
let renewed_ms = -AGAIN_MS;
let renewal = 0;

function outdate(message) {
  old.queue ||= message.queue;
  // Those who run have other slowdowns now and then, with nothing else about them.
  const slower = Object.keys(message.jobs).length > 0 && document.querySelector("table.jobs.running") !== null;
  old.list ||= message.queue || message.touched.length > 0 || slower;
  for (const id of message.touched) old.jobs.add(id);
  renewSoon(renewed_ms + AGAIN_MS - performance.now());
}

function renewSoon(after_ms) {
  if (!renewal && (old.list || old.jobs.size)) renewal = setTimeout(renew, Math.max(0, after_ms));
}

function renew() {
  const { list, queue, jobs } = old;
  old = { ...UP_TO_DATE, jobs: new Set() };
  renewed_ms = performance.now();
  renewal = 0;
  if (list) tell("dally:queue");
  for (const place of document.querySelectorAll("[data-job]")) {
    const waits = place.querySelector("[data-waits]") !== null;
    if (jobs.has(place.dataset.job) || (queue && waits)) tell("touched", place.dataset.job, place);
  }
}

// What did not come is asked for again, unless the server would say the same.
function failed(event) {
  const { target, xhr } = event.detail;
  if (!isLive || (xhr.status >= 400 && xhr.status < 500 && xhr.status !== 429)) return;
  if (target?.id === "rows") old.list = true;
  else if (target?.dataset.job !== undefined) old.jobs.add(target.dataset.job);
  if (dally.link === "live") renewSoon(FAILED_MS); // else once it is
}
document.addEventListener("htmx:responseError", failed);
document.addEventListener("htmx:sendError", failed);

function setLink(state) {
  if (dally.link === state) return;
  dally.link = state;
  const words = { live: "live", lost: "connection lost, trying again", wait: "connecting" };
  const place = document.querySelector("[data-link]");
  if (place) {
    place.dataset.link = state;
    place.querySelector("b").textContent = words[state];
  }
  tell("dally:link", state);
}

function greeted(message) {
  setMoment(message.wall_s);
  showCounts(message.counts);
  setLink("live");
  const anew = dally.boot !== message.boot || message.cycle > dally.cycle; // a page may be older than its stream
  dally.boot = message.boot;
  dally.cycle = message.cycle;
  if (anew) tell("dally:reset", message);
  dally.ready = true;
  renewSoon(0);
}

function turned(message) {
  setMoment(message.wall_s);
  if (message.after !== dally.cycle) tell("dally:reset", message);
  took(message);
}

// The stream: one while the page is in sight, as browsers open no more than six to a server.

const SILENT_MS = 40000; // the server says something every 15 s
let source = null;
let retry = 0;
let heard_ms = 0;

function listen() {
  leave();
  const stream = source = new EventSource("/events");
  const on = (kind, act) => stream.addEventListener(kind, (event) => { heard_ms = Date.now(); act(event); });
  heard_ms = Date.now();
  on("hello", (event) => greeted(JSON.parse(event.data)));
  on("cycle", (event) => turned(JSON.parse(event.data)));
  on("behind", () => tell("dally:reset"));
  on("awake", () => {});
  stream.addEventListener("error", () => {
    setLink("lost");
    if (stream.readyState === EventSource.CLOSED) refused(); // else it tries again by itself
  });
}

function leave() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

// The server is starting, or the token is gone.
async function refused() {
  const answer = await fetch("/api/v1/status", { headers: { Accept: "application/json" } }).catch(() => null);
  if (answer?.status === 401) {
    window.location.assign(`/login?next=${encodeURIComponent(window.location.pathname + window.location.search)}`);
  } else if (!document.hidden) {
    clearTimeout(retry);
    retry = setTimeout(listen, 2000);
  }
}

function stillThere() {
  if (source === null || Date.now() - heard_ms < SILENT_MS) return;
  setLink("lost");
  listen();
}

function inSight() {
  if (document.hidden) return leave();
  if (dally.link === "live") setLink("wait");
  listen();
}

// Clocks: countdowns, and times in the reader's own zone.

// As the server writes durations: 42 s, 2 min 05 s, 12 min, 1 h 06 min, 2 d 4 h.
function duration(seconds) {
  const [minutes, hours] = [Math.round(seconds / 60), Math.round(seconds / 3600)];
  if (seconds < 59.5) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 599.5) return both(Math.round(seconds), 60, "min", "s");
  if (minutes < 24 * 60) return both(minutes, 60, "h", "min");
  return both(hours, 24, "d", "h").replace(" 0", " ");
}

function both(count, per, large, small) {
  const [whole, rest] = [Math.floor(count / per), count % per];
  const parts = whole ? [`${whole} ${large}`] : [];
  if (rest) parts.push(`${whole ? String(rest).padStart(2, "0") : rest} ${small}`);
  return parts.join(" ");
}

function showClocks(root = document) {
  for (const place of root.querySelectorAll("[data-until]")) {
    const left_s = Number(place.dataset.until) - now_s();
    const word = place.dataset.word ? `${place.dataset.word} ` : "";
    const text = left_s > 0 ? `${word}${duration(left_s)}` : place.dataset.word ? "any moment" : "now";
    if (place.textContent !== text) place.textContent = text;
  }
}

// 2026-03-01 14:05:09 everywhere; the zone stands once, at the bottom of the page.
const CLOCK = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const ZONE = document.getElementById("zone");
if (ZONE) ZONE.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;

function showTimes(root = document) {
  for (const place of root.querySelectorAll("time[datetime]:not([title])")) {
    place.title = place.textContent;
    place.textContent = CLOCK.format(new Date(place.dateTime));
  }
}

// Words for people, also for those who listen.

export function say(text) {
  const place = document.getElementById("said");
  place.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { place.textContent = ""; }, 8000);
}

document.getElementById("theme")?.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = getComputedStyle(root).colorScheme === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("dally-theme", root.dataset.theme);
  tell("dally:theme");
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => tell("dally:theme"));

// The focus is put back by htmx where the piece that came has what it was on; else the keyboard goes on from the page.

let wasInside = false;
document.addEventListener("htmx:beforeSwap", (event) => {
  wasInside = event.detail.target.contains(document.activeElement) && document.activeElement !== body;
});
document.addEventListener("htmx:afterSettle", () => {
  if (wasInside && document.activeElement === body) document.getElementById("main").focus({ preventScroll: true });
});

document.addEventListener("htmx:afterSwap", () => { showClocks(); showTimes(); });
setInterval(showClocks, 1000);
showClocks();
showTimes();

if (isLive) {
  document.addEventListener("visibilitychange", inSight);
  setInterval(stillThere, 2000);
  inSight();
}
