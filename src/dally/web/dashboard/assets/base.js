// What every page has: the stream of turns, figures at the top, clocks, the theme.

const body = document.body;
export const isLive = body.dataset.live === "yes";
export const dally = { turn: Number(body.dataset.turn), boot: body.dataset.boot, link: "wait", ready: false };
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
    const text = String(counts[place.dataset.count] ?? "–");
    if (place.textContent !== text) place.textContent = text;
  }
}

// Turns: a page need not know whether they come from a stream or from a replay.

export function setMoment(wall_s, replayed = false) {
  if (replayed) shown_s = wall_s;
  else ahead_s = wall_s - Date.now() / 1000;
}

function took(message) {
  dally.turn = message.turn;
  showCounts(message.counts);
  tell("dally:turn", message);
  outdate(message);
}

// Lists and pages of jobs that a turn made old are asked for again: at once, then once a second, and none is lost.

const AGAIN_MS = 1000;
let old = { queue: false, jobs: new Set() };
let renewed_ms = -AGAIN_MS;
let renewal = 0;

function outdate(message) {
  old.queue ||= message.queue;
  for (const id of message.touched) old.jobs.add(id);
  if (!renewal && (old.queue || old.jobs.size)) {
    renewal = setTimeout(renew, Math.max(0, renewed_ms + AGAIN_MS - performance.now()));
  }
}

function renew() {
  const { queue, jobs } = old;
  old = { queue: false, jobs: new Set() };
  renewed_ms = performance.now();
  renewal = 0;
  tell("dally:queue");
  for (const place of document.querySelectorAll("[data-job]")) {
    const waits = place.querySelector("[data-waits]") !== null;
    if (jobs.has(place.dataset.job) || (queue && waits)) tell("touched", place.dataset.job, place);
  }
}

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
  const anew = dally.boot !== message.boot || message.turn > dally.turn; // a page may be older than its stream
  dally.boot = message.boot;
  dally.turn = message.turn;
  if (anew) tell("dally:reset", message);
  dally.ready = true;
}

function turned(message) {
  setMoment(message.wall_s);
  if (message.after !== dally.turn) tell("dally:reset", message);
  took(message);
}

let source = null;
let retry = 0;

function listen() {
  source?.close();
  source = new EventSource("/events");
  source.addEventListener("hello", (event) => greeted(JSON.parse(event.data)));
  source.addEventListener("turn", (event) => turned(JSON.parse(event.data)));
  source.addEventListener("behind", () => tell("dally:reset"));
  source.addEventListener("error", () => {
    setLink("lost");
    if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
    clearTimeout(retry);
    retry = setTimeout(listen, 2000); // the server refused: it is starting, or the token is gone
  });
}

// Clocks: countdowns, and times in the reader's own zone.

const UNITS = [["d", 86400, 2 * 86400], ["h", 3600, 1.5 * 3600], ["min", 60, 90], ["s", 1, 0]];

export function brief(seconds) {
  const [unit, size] = UNITS.find(([, , least]) => seconds >= least) ?? UNITS[3];
  const value = Math.max(0, seconds) / size;
  return `${value >= 100 || unit === "s" ? Math.round(value) : Number(value.toFixed(1))} ${unit}`;
}

function showClocks(root = document) {
  for (const place of root.querySelectorAll("[data-until]")) {
    const left_s = Number(place.dataset.until) - now_s();
    const word = place.dataset.word ? `${place.dataset.word} ` : "";
    const text = left_s > 0 ? `${word}${brief(left_s)}` : place.dataset.word ? "any moment" : "now";
    if (place.textContent !== text) place.textContent = text;
  }
}

const CLOCK = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

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

document.addEventListener("htmx:afterSwap", () => { showClocks(); showTimes(); });
setInterval(showClocks, 1000);
showClocks();
showTimes();

if (isLive) listen();
