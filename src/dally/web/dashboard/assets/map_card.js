// The card beside the pointer that says what is there; pinned, it stays and can be used.

import { el } from "./map_dom.js";
import { jobHref, jobTitle } from "./map_words.js";

const BESIDE = 16;  // pixels from the pointer

export class Card {
  // `ask` has what its buttons do: zoom() and close().
  constructor(box, mayAct, ask) {
    Object.assign(this, { box, mayAct, pinned: false, key: "" });
    box.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-ask]");
      if (button) ask[button.dataset.ask]();
    });
  }

  // Shows what `about` of map_words.js told, at a point of the stage.
  show(told, pinned, at, hint = "Click to pin") {
    const jobs = told.jobs.map(({ job, gpus }) => [job.id, gpus]);
    const key = JSON.stringify([told.title, told.rows, told.more, jobs, pinned]);
    if (key !== this.key) this.#fill(told, pinned, hint);
    Object.assign(this, { key, pinned });
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
    this.key = "";
  }

  #fill(told, pinned, hint) {
    const title = told.href ? el("a", { href: told.href }, told.title) : told.title;
    this.box.replaceChildren(
      el("p", { class: "kind" }, told.kind),
      el("h3", {}, title),
      el("dl", {}, ...told.rows.flatMap(([label, value]) => [el("dt", {}, label), el("dd", {}, value)])),
      told.jobs.length ? jobList(told) : "",
      pinned ? this.#buttons(told) : el("p", { class: "hint" }, hint),
    );
    if (pinned && window.htmx) window.htmx.process(this.box);
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
    if (!at) { style.left = style.top = ""; return; }
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
    return el("li", {}, name, ` ${gpus === job.gpus ? gpus : `${gpus} of ${job.gpus}`} GPUs`);
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
