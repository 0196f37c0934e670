// A finished run instead of a stream: play, pause, scrub and step. It asks for one moment at a time and tells pages
// of it as the stream would; while an answer is on its way the clock runs on, and the next question is for where it
// is by then.

import { dally, say, setMoment, showCounts, tell } from "./base.js";

const bar = document.getElementById("replay");
const from_s = Number(bar.dataset.from);
const to_s = Number(bar.dataset.to);
const play = document.getElementById("play");
const scrub = document.getElementById("scrub");
const speed = document.getElementById("speed");
const clock = document.getElementById("replay-clock");
const profile = document.getElementById("replay-profile");

const LEAST_MS = 50; // between two questions
const PIECES_MS = 1000; // between two updates of tables, which the server writes
const ADDRESS_MS = 500; // between two changes of the address: browsers allow but so many
const WATCHED_S = 60; // a whole run takes that at most, at the speed it opens with

const replay = { at_s: Number(bar.dataset.at), playing: false, asked: 0, shown_s: null, settled: false };
dally.replay = replay;

let asking = false;
let asked_ms = -LEAST_MS;
let pieces_ms = -PIECES_MS;
let address_ms = -ADDRESS_MS;
let last_ms = 0;
let scrubbing = false;

// The clock in words.

const epoch_s = bar.dataset.epoch === "" ? null : Number(bar.dataset.epoch);
const date = epoch_s === null ? null : new Intl.DateTimeFormat("en-GB", {
  weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit",
  timeZone: bar.dataset.zone,
});

function words(at_s) {
  if (date) return date.format(new Date((epoch_s + at_s) * 1000));
  const minutes = Math.floor(at_s / 60);
  const two = (number) => String(number).padStart(2, "0");
  return `day ${Math.floor(minutes / 1440)}, ${two(Math.floor(minutes / 60) % 24)}:${two(minutes % 60)}`;
}

function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function showMoment() {
  const text = words(replay.at_s);
  write(clock, text);
  if (!scrubbing) scrub.value = String(replay.at_s);
  if (scrub.getAttribute("aria-valuetext") !== text) scrub.setAttribute("aria-valuetext", text);
  bar.style.setProperty("--done", String((replay.at_s - from_s) / Math.max(to_s - from_s, 1e-9)));
}

function show(now) {
  setMoment(now.wall_s, true);
  if (dally.boot !== now.boot) location.reload(); // another run is served here by now
  dally.cycle = now.cycle;
  replay.shown_s = now.at_s;
  showCounts(now.counts);
  tell("dally:state", now);
  dally.ready = true;
}

// Tables and stories, which the server writes.
function refreshPieces() {
  tell("dally:queue");
  for (const place of document.querySelectorAll("[data-job]")) tell("touched", place.dataset.job, place);
  tell("dally:moment", replay.at_s);
}

async function asked(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

function sayGone() {
  if (!leaving) say("The replay does not answer: is dally view still running?");
}

async function ask(ms) {
  asking = true;
  asked_ms = ms;
  replay.asked += 1;
  try {
    show(await asked(`/map/state.json?at=${replay.at_s}`));
  } catch (error) {
    if (leaving) return;
    setPlaying(false);
    replay.shown_s = replay.at_s; // not again and again
    sayGone();
  } finally {
    asking = false;
  }
}

// Every frame: the clock, one question if none is open, tables and the address now and then.

let pieces_s = replay.at_s; // the moment that tables are of
let address_s = null;
let leaving = false;

function frame(ms) {
  if (replay.playing && !scrubbing) {
    seek(milliseconds(replay.at_s + Number(speed.value) * Math.min(1, (ms - last_ms) / 1000)));
    if (replay.at_s >= to_s) setPlaying(false);
  }
  last_ms = ms;
  if (!asking && replay.shown_s !== clamped(replay.at_s) && ms - asked_ms >= (scrubbing ? 0 : LEAST_MS)) ask(ms);
  if (pieces_s !== replay.at_s && ms - pieces_ms >= PIECES_MS) {
    pieces_ms = ms;
    pieces_s = replay.at_s;
    refreshPieces();
  }
  if (address_s !== replay.at_s && ms - address_ms >= ADDRESS_MS) {
    address_ms = ms;
    address_s = replay.at_s;
    history.replaceState(history.state, "", withMoment(location.href));
  }
  replay.settled = !asking && replay.shown_s === replay.at_s && pieces_s === replay.at_s;
  requestAnimationFrame(frame);
}

function clamped(at_s) {
  return Math.min(to_s, Math.max(from_s, at_s));
}

// Where one comes by chance an address need not name more; an event is where it is, to the last digit.
function milliseconds(at_s) {
  return Math.round(at_s * 1000) / 1000;
}

function seek(at_s) {
  replay.at_s = clamped(at_s);
  replay.settled = false;
  showMoment();
}
replay.seek = seek;

function setPlaying(playing) {
  if (playing && replay.at_s >= to_s) seek(from_s);
  replay.playing = playing;
  play.setAttribute("aria-label", playing ? "Pause" : "Play");
  bar.classList.toggle("playing", playing);
}

async function step(way) {
  setPlaying(false);
  try {
    const found = (await asked(`/replay/near.json?at=${replay.at_s}`))[way];
    if (found === null) say(way === "after" ? "Nothing happens after this." : "Nothing happened before this.");
    else seek(found);
  } catch (error) {
    sayGone();
  }
}

play.addEventListener("click", () => setPlaying(!replay.playing));
for (const button of bar.querySelectorAll("[data-step]")) {
  button.addEventListener("click", () => step(button.dataset.step));
}
scrub.addEventListener("input", () => seek(milliseconds(Number(scrub.value))));
scrub.addEventListener("pointerdown", () => { scrubbing = true; });
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { scrubbing = false; });

// Keys: the slider's own steps are too fine for a week and too coarse for a minute.
const width_s = to_s - from_s;
const JUMPS = { ArrowLeft: -1 / 200, ArrowDown: -1 / 200, ArrowRight: 1 / 200, ArrowUp: 1 / 200, PageDown: -1 / 20, PageUp: 1 / 20 };
scrub.addEventListener("keydown", (event) => {
  const by = JUMPS[event.key];
  if (by === undefined) return;
  event.preventDefault();
  seek(milliseconds(replay.at_s + by * width_s));
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writes = event.target.closest("input:not([type=range]), textarea, select, dialog, [contenteditable]");
  const pressed = event.key === " " ? event.target.closest("button, a, summary") : null;
  if (writes || pressed) return;
  if (event.key === " ") setPlaying(!replay.playing);
  else if (event.key === ",") step("before");
  else if (event.key === ".") step("after");
  else return;
  event.preventDefault();
});

// The moment goes along wherever one goes.

function withMoment(address) {
  const url = new URL(address, location.href);
  url.searchParams.set("at", String(replay.at_s));
  return url.href;
}

function isOurs(link) {
  return link && link.origin === location.origin && !link.pathname.startsWith("/assets/") && !link.hash && !("fixed" in link.dataset);
}

for (const name of ["pointerdown", "click", "auxclick", "keydown", "contextmenu"]) {
  document.addEventListener(name, (event) => {
    const link = event.target.closest?.("a[href]");
    if (isOurs(link)) link.href = withMoment(link.href);
  }, true);
}
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "get") return;
  let field = form.elements.namedItem("at");
  if (!field) {
    field = Object.assign(document.createElement("input"), { type: "hidden", name: "at" });
    form.append(field);
  }
  field.value = String(replay.at_s);
}, true);
document.addEventListener("htmx:configRequest", (event) => {
  const [path, query = ""] = event.detail.path.split("?");
  const kept = new URLSearchParams(query);
  kept.delete("at");
  event.detail.path = kept.size ? `${path}?${kept}` : path;
  event.detail.parameters.at = String(replay.at_s);
});

// What fills the screen takes the bar along.

const home = bar.parentElement;
const neighbour = bar.nextElementSibling;
document.addEventListener("fullscreenchange", () => {
  if (document.fullscreenElement) document.fullscreenElement.append(bar);
  else home.insertBefore(bar, neighbour);
});

// How full the cluster was, behind the slider.

function drawProfile() {
  const shares = bar.dataset.profile.split(" ").map(Number);
  const box = profile.getBoundingClientRect();
  const scale = devicePixelRatio || 1;
  profile.width = Math.max(1, Math.round(box.width * scale));
  profile.height = Math.max(1, Math.round(box.height * scale));
  const draw = profile.getContext("2d");
  draw.fillStyle = getComputedStyle(profile).color;
  const wide = profile.width / shares.length;
  shares.forEach((share, place) => {
    const high = share * profile.height;
    const left = Math.round(place * wide);
    draw.fillRect(left, profile.height - high, Math.round((place + 1) * wide) - left, high);
  });
}
new ResizeObserver(drawProfile).observe(profile);
document.body.addEventListener("dally:theme", drawProfile);

// From page to page of one run: the speed, and whether it plays.

const KEPT = `dally-replay-${dally.boot}`;
addEventListener("pagehide", () => {
  leaving = true;
  sessionStorage.setItem(KEPT, JSON.stringify({ speed: speed.value, playing: replay.playing }));
});
addEventListener("pageshow", (event) => { if (event.persisted) leaving = false; });

function usualSpeed() {
  const choices = [...speed.options].map((option) => Number(option.value));
  return String(choices.find((value) => width_s / value <= WATCHED_S) ?? choices.at(-1));
}

const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
speed.value = kept.speed ?? usualSpeed();
showMoment();
if (kept.playing) setPlaying(true);
requestAnimationFrame((ms) => { last_ms = ms; frame(ms); });
