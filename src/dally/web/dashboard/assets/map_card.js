// The card beside the pointer that says what is there; pinned, it stays and can be used.

import { el } from "./map_dom.js";
import { jobHref, jobTitle, plural } from "./map_words.js";

const BESIDE = 16;  // pixels from the pointer

export class Card {
  // `ask` has what its buttons do: zoom() and close().
  constructor(box, mayAct, ask) {
    Object.assign(this, { box, mayAct, keys: {}, parts: {} });
    for (const name of ["head", "rows", "jobs", "foot"]) box.append(this.parts[name] = el("div"));
    box.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-ask]");
      if (button) ask[button.dataset.ask]();
    });
  }

  // Shows what `about` of map_words.js told, at a point of the stage.
  show(told, pinned, at, hint = "Click to pin") {
    this.#fill(told, pinned, hint);
    this.box.hidden = false;
    this.box.classList.toggle("pinned", pinned);
    this.box.classList.toggle("aside", pinned && Boolean(at) && at.x > this.box.parentElement.clientWidth / 2);
    this.#place(pinned ? null : at);
  }

  // Goes to the page it is about: by its link, to which a replay adds the moment.
  open() {
    const link = this.box.querySelector("h3 a");
    if (link) link.click();
  }

  hide() {
    this.box.hidden = true;
  }

  #fill(told, pinned, hint) {
    const { kind, title, href, rows, node, up } = told;
    const jobs = told.jobs.map(({ job, gpus }) => [job.id, jobTitle(job), gpus, job.gpus]);
    this.#part("head", [kind, title, href], () => [
      el("p", { class: "kind" }, kind), el("h3", {}, href ? el("a", { href }, title) : title),
    ]);
    this.#part("rows", rows.map(([label]) => label), () => [
      el("dl", {}, ...rows.flatMap(([label]) => [el("dt", {}, label), el("dd")])),
    ]);
    this.box.querySelectorAll("dd").forEach((place, at) => {
      if (place.textContent !== rows[at][1]) place.textContent = rows[at][1];
    });
    this.#part("jobs", [jobs, told.more], () => (jobs.length ? [jobList(told)] : []));
    this.#part("foot", pinned ? [node, up] : hint, () => [
      pinned ? this.#buttons(told) : el("p", { class: "hint" }, hint),
    ]);
  }

  // Made anew only if it is another one: who is about to press a button, or stands on it, does not lose it.
  #part(name, told, make) {
    const key = JSON.stringify(told);
    if (key === this.keys[name]) return;
    this.keys[name] = key;
    this.parts[name].replaceChildren(...make());
    if (window.htmx) window.htmx.process(this.parts[name]);
  }

  #buttons(told) {
    return el(
      "div", { class: "tools" },
      el("button", { type: "button", "data-ask": "zoom" }, "Zoom to it"),
      el("button", { type: "button", "data-ask": "close" }, "Unpin"),
      ...(this.mayAct && told.node ? nodeActs(told.node, told.up) : []),
    );
  }

  #place(at) {
    const { style } = this.box;
    style.left = style.top = "";
    if (!at || getComputedStyle(this.box).position === "fixed") return;  // on a phone it lies at the bottom
    const stage = this.box.parentElement.getBoundingClientRect();
    const [wide, high] = [this.box.offsetWidth, this.box.offsetHeight];
    const left = at.x + BESIDE + wide > stage.width ? at.x - BESIDE - wide : at.x + BESIDE;
    style.left = `${Math.max(4, left)}px`;
    style.top = `${Math.max(4, Math.min(at.y + BESIDE, stage.height - high - 4))}px`;
  }
}

function jobList(told) {
  const items = told.jobs.map(({ job, gpus }) => {
    const href = jobHref(job);
    const name = href ? el("a", { href }, jobTitle(job)) : jobTitle(job);
    return el("li", {}, name, ` ${gpus === job.gpus ? "" : `${gpus} of `}${plural(job.gpus, "GPU")}`);
  });
  if (told.more) items.push(el("li", {}, `and ${told.more} more`));
  return el("ul", {}, ...items);
}

// Where an operator acts on a machine: the dialog comes from /act.
function nodeActs(name, up) {
  const what = up ? "drain" : "resume";
  const traits = { "hx-get": `/act/${what}/${encodeURIComponent(name)}`, "hx-target": "#dialogs", "aria-haspopup": "dialog" };
  return [el("button", { type: "button", class: "act", ...traits }, `${up ? "Drain" : "Resume"} ${name}…`)];
}
