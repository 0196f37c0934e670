// The cluster map: fetches the tree and the state, keeps both layers drawn, and answers pointer, keys and search.

import { say } from "./base.js";
import { Card } from "./map_card.js";
import { Colouring, MODES } from "./map_colours.js";
import { drawBase } from "./map_draw.js";
import { el } from "./map_dom.js";
import { Feed } from "./map_feed.js";
import { JobList } from "./map_jobs.js";
import { listenToKeys } from "./map_keys.js";
import { Layout } from "./map_layout.js";
import { Legend } from "./map_legend.js";
import { drawTop } from "./map_overlay.js";
import { boxOf, jobAt, pickAt, samePlace } from "./map_pick.js";
import { Pointer } from "./map_pointer.js";
import { find, suggestions } from "./map_search.js";
import { Shares } from "./map_shares.js";
import { Occupancy } from "./map_state.js";
import { MachineTable } from "./map_table.js";
import { readTheme } from "./map_theme.js";
import { Tree } from "./map_tree.js";
import { CLOSEST, EDGE, View } from "./map_view.js";
import { Walk } from "./map_walk.js";
import { about, aboutJob } from "./map_words.js";

const MODE_KEY = "dally-map-by";
const FLASH_MS = 1000;
const FADE_MS = 120;
const FLASHES = 200;
const NARROW = 640;  // pixels: the card goes to the bottom
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

function remembered() {
  const mode = localStorage.getItem(MODE_KEY);
  return MODES.includes(mode) ? mode : MODES[0];
}

export class ClusterMap {
  constructor(box) {
    this.box = box;
    const one = (query) => box.querySelector(query);
    Object.assign(this, { stage: one(".map-stage"), base: one(".map-base"), top: one(".map-top") });
    Object.assign(this, { hovered: null, pinned: null, shown: null, at: null, flashes: new Map() });
    this.stale = false;  // the lower layer
    Object.assign(this, { lastDrawMs: 0, lastUpdateMs: 0, mode: remembered() });
    this.view = new View(() => this.redraw());
    const ask = { zoom: () => this.toPinned(), close: () => this.choose(null) };
    this.card = new Card(one(".map-card"), document.body.hasAttribute("data-may-act"), ask);
    this.legend = new Legend(one(".map-legend"), this);
    this.table = new MachineTable(one(".map-machines"), () => this);
    this.list = new JobList(one(".map-jobs"), this);
    this.pointer = new Pointer(this.top, this);
    this.walk = new Walk(this, one(".map-said"));
    this.feed = new Feed(this);
    listenToKeys(this.top, this);
    this.#controls(one);
    this.#follow();
  }

  #controls(one) {
    for (const radio of this.box.querySelectorAll("input[name=map-by]")) {
      radio.addEventListener("change", () => this.colourBy(radio.value));
      radio.checked = radio.value === this.mode;
    }
    one(".map-in").addEventListener("click", () => this.zoom(1.6));
    one(".map-out").addEventListener("click", () => this.zoom(1 / 1.6));
    one(".map-fit").addEventListener("click", () => this.view.fit());
    one(".map-full").hidden = !document.fullscreenEnabled;
    one(".map-full").addEventListener("click", () => this.stage.parentElement.requestFullscreen());
    const search = one(".map-find");
    search.addEventListener("submit", (event) => { event.preventDefault(); this.search(search.elements.q.value); });
    search.elements.q.addEventListener("search", () => { if (!search.elements.q.value) this.search(""); });
    search.elements.q.addEventListener("focus", () => {
      if (this.tree) one("datalist").replaceChildren(...suggestions(this).map((value) => el("option", { value })));
    });
  }

  #follow() {
    document.body.addEventListener("dally:theme", () => this.retheme());
    new ResizeObserver(() => { if (this.tree) this.resize(); }).observe(this.stage.parentElement);
  }

  // What was fetched: of another cluster everything is new, of this one it is another moment.
  start(tree, state) {
    if (this.tree && this.tree.boot === tree.boot) { this.take("replace", state); return; }
    const isFirst = !this.tree;
    this.tree = new Tree(tree);
    this.occupancy = new Occupancy(this.tree);
    this.shares = new Shares(this.tree);
    this.hovered = this.pinned = this.shown = this.walk.place = this.layout = null;
    this.occupancy.replace(state);
    this.theme = readTheme(this.box);
    this.recolour();
    this.resize();
    this.table.clear();
    this.#tell();
    if (isFirst) this.#findAsked();
    this.box.dataset.ready = "yes";
  }

  // The job that the address names.
  #findAsked() {
    const id = new URLSearchParams(window.location.search).get("find");
    if (!id) return;
    this.box.querySelector(".map-find").elements.q.value = id;
    if (this.occupancy.job(id)) this.search(id);
    else say(`Job ${id} is not on the map: it has no GPUs.`);
  }

  // A cycle's changes, or a whole state.
  take(how, told) {
    const began = performance.now();
    const { machines, jobs, started } = this.occupancy[how](told);
    for (const id of jobs) this.colouring.paint(this.occupancy.job(id));
    if (jobs.length) this.shares.clear();
    else this.shares.touch(machines);
    this.#flash(started);
    this.table.refresh(machines);
    this.#tell();
    this.drawNow();
    this.lastUpdateMs = performance.now() - began;
  }

  #tell() {
    this.legend.show(this.colouring, this.theme);
    this.#card();
  }

  #flash(started) {
    if (calm.matches) return;
    const now = performance.now();
    for (const id of started.slice(0, FLASHES)) this.flashes.set(id, now);
  }

  colourBy(mode) {
    this.mode = mode;
    localStorage.setItem(MODE_KEY, mode);
    this.recolour();
    this.legend.show(this.colouring, this.theme);
  }

  recolour() {
    this.colouring = new Colouring(this.theme, this.occupancy, this.mode);
    this.shares.clear();
    this.redraw();
  }

  retheme() {
    if (!this.tree) return;
    this.theme = readTheme(this.box);
    this.recolour();
    this.legend.show(this.colouring, this.theme);
  }

  // The stage is as wide as the page lets it be and as high as the map then needs, within the window.
  resize() {
    const width = this.stage.clientWidth;
    const most = parseFloat(getComputedStyle(this.stage).maxHeight) || 700;
    if (this.layout && width === this.view.width && most === this.most) return;
    this.most = most;
    const layout = new Layout(this.tree, width - 2 * EDGE, most - 2 * EDGE);
    const unit = Math.min(CLOSEST, (width - 2 * EDGE) / layout.width);
    const height = Math.round(Math.min(most, layout.height * unit + 2 * EDGE));
    this.stage.style.height = `${height}px`;
    if (this.layout && String(layout.columns) !== String(this.layout.columns)) this.view.touched = false;
    this.layout = layout;
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.base, this.top]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.view.show(layout, width, height);
    this.drawNow();
  }

  redraw(base = true) {
    this.top.classList.toggle("close", this.view.touched);
    this.stale ||= base;
    this.frame ||= requestAnimationFrame((now) => this.#frame(now));
  }

  #frame(now) {
    this.frame = 0;
    if (!this.layout) return;
    this.view.step(now);
    this.drawNow(this.stale);
    if (this.walk.place) this.#card();
    if (this.view.aim) this.redraw();
  }

  drawNow(base = true) {
    if (!this.layout) return;
    const began = performance.now();
    if (base) drawBase(this.#pen(this.base), this);
    const marks = this.#marks();
    drawTop(this.#pen(this.top), this, marks);
    this.list.mark(marks.jobs);
    this.stale = false;
    if (base) this.lastDrawMs = performance.now() - began;
  }

  #pen(canvas) {
    const pen = canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    return pen;
  }

  // What the upper layer shows.
  #marks() {
    const rings = [];
    if (this.pinned && this.pinned.place && !this.pinned.id) rings.push([this.pinned.place, 2]);
    if (this.hovered && !jobAt(this, this.hovered)) rings.push([this.hovered, 1.5]);
    if (this.walk.place) rings.push([this.walk.place, 3]);
    return { jobs: this.marked(), rings, flashes: this.#burning() };
  }

  // Jobs that are pointed at or pinned; null: none.
  marked() {
    const job = jobAt(this, this.hovered) || (this.hovered ? null : jobAt(this, this.walk.place));
    if (job) return [job];
    const chosen = this.shown || this.pinned;
    const found = chosen && chosen.holds ? this.#held(chosen) : [];
    return found.length ? found : null;
  }

  #held({ holds }) {
    return this.occupancy.jobs.filter((job) => job && holds(job));
  }

  // Flashes fade in a few steps: a frame for each refresh of the screen would cost more than the update itself.
  #fade() {
    this.fading = 0;
    this.redraw(false);
  }

  #burning() {
    const now = performance.now();
    const found = [];
    for (const [id, since] of this.flashes) {
      const job = this.occupancy.job(id);
      const left = 1 - (now - since) / FLASH_MS;
      if (left <= 0 || !job) this.flashes.delete(id);
      else found.push([job, left]);
    }
    if (this.flashes.size) this.fading ||= setTimeout(() => this.#fade(), FADE_MS);
    return found;
  }

  // The pointer is there; null: it left.
  point(at) {
    if (!this.tree) return;
    const place = at && pickAt(this, at.x, at.y);
    const same = samePlace(place, this.hovered) || (!place && !this.hovered);
    Object.assign(this, { hovered: place, at });
    this.#card();
    if (!same) this.redraw(false);
  }

  // A click: pins what is there, or lets go.
  press(at) {
    const place = pickAt(this, at.x, at.y);
    this.at = at;
    this.hovered = null;
    this.choose(place ? this.chosenAt(place) : null);
  }

  chosenAt(place) {
    const job = jobAt(this, place);
    return job ? { holds: (one) => one.id === job.id, id: job.id, place } : { place };
  }

  // {holds(job)} or {place} stays shown until something else is chosen.
  choose(chosen) {
    this.pinned = chosen;
    this.#card();
    this.redraw(false);
  }

  // As long as a legend's entry is pointed at.
  preview(chosen) {
    this.shown = chosen;
    this.redraw(false);
  }

  #card() {
    const hovered = this.hovered && this.at ? about(this, this.hovered) : null;
    const pinned = this.#pinnedWords();
    if (pinned) this.card.show(pinned, true, this.at);
    else if (hovered && window.innerWidth >= NARROW) this.card.show(hovered, false, this.at);
    else if (this.walk.place) this.#cardAt(this.walk.place);
    else this.card.hide();
  }

  // Beside where one walks.
  #cardAt(place) {
    const box = boxOf(this, place);
    const corner = { x: this.view.px(box.x + box.w), y: this.view.py(box.y + box.h) };
    this.card.show(about(this, place), false, corner, "Space pins");
  }

  #pinnedWords() {
    if (!this.pinned) return null;
    const { id, place } = this.pinned;
    if (!id) return place ? about(this, place) : null;
    const job = this.occupancy.job(id);
    return job ? aboutJob(this, job, place) : null;
  }

  // Double click: goes into what is there.
  into(at) {
    const place = pickAt(this, at.x, at.y);
    this.choose(null);
    if (!place || (place.kind === "gpu" && this.view.level === "gpu")) return this.view.zoom(2, at.x, at.y, true);
    return this.goTo(place);
  }

  // So close that what is within it is drawn.
  goTo(place) {
    const box = boxOf(this, place);
    const inner = place.tier ? 0 : 12;
    this.view.reach(box, inner);
  }

  toPinned() {
    if (!this.pinned) return;
    if (!this.pinned.holds) this.goTo(this.pinned.place);
    else this.#toJobs(this.#held(this.pinned));
  }

  #toJobs(jobs) {
    const around = { left: Infinity, top: Infinity, right: 0, bottom: 0 };
    for (const job of jobs) {
      for (const machine of job.on.keys()) {
        const box = this.layout.box(0, machine);
        around.left = Math.min(around.left, box.x);
        around.top = Math.min(around.top, box.y);
        around.right = Math.max(around.right, box.x + box.w);
        around.bottom = Math.max(around.bottom, box.y + box.h);
      }
    }
    const { left: x, top: y, right, bottom } = around;
    if (right) this.view.reach({ x, y, w: right - x, h: bottom - y }, 0, 0.7);
  }

  zoom(factor) {
    this.view.zoom(factor, undefined, undefined, true);
  }

  search(text) {
    const found = this.tree && find(this, text);
    const output = this.box.querySelector(".map-found");
    output.textContent = found ? found.words : text.trim() && `no job with GPUs, user, model or machine “${text.trim()}”`;
    this.choose(found && found.job ? { ...found, id: found.job.id } : found || null);
    if (found) this.toPinned();
    else if (!text.trim()) this.view.fit();
  }

  // One walks elsewhere.
  moved() {
    this.hovered = null;
    this.#card();
    this.redraw(false);
  }
}

const box = document.querySelector(".map");
if (box) {
  const map = new ClusterMap(box);
  window.dally = Object.assign(window.dally || {}, { map });
  map.feed.load();
}
