// The machines as a table, for whoever reads rather than looks. Made when it is opened.

import { el } from "./map_dom.js";
import { DOWN, DRAINING } from "./map_state.js";
import { jobHref } from "./map_words.js";

const AT_ONCE = 200;  // rows
const COUNTS = new Set(["GPUs", "free"]);

export class MachineTable {
  constructor(details, sceneOf) {
    Object.assign(this, { details, sceneOf, rows: [] });
    details.addEventListener("toggle", () => { if (sceneOf().tree) this.clear(); });
  }

  build() {
    const { tree } = this.sceneOf();
    const above = tree.tiers.slice(1, tree.root).reverse();
    this.body = el("tbody");
    this.rows = [];
    this.more = el("button", { type: "button", onclick: () => this.#add() });
    const head = [...above, "machine", "GPUs", "free", "state", "jobs"].map((name) => el("th", { scope: "col", class: COUNTS.has(name) ? "number" : "" }, name));
    const caption = el("caption", { class: "unseen" }, "Machines");
    const table = el("table", {}, caption, el("thead", {}, el("tr", {}, ...head)), this.body);
    const box = el("div", { class: "tablebox", tabIndex: 0, role: "region", "aria-label": "Machines" }, table);
    this.details.replaceChildren(this.details.querySelector("summary"), box, this.more);
    this.#add();
  }

  // Everything is void: it is another cluster, or cycles went by while nobody looked.
  clear() {
    this.rows = [];
    if (this.details.open) this.build();
  }

  refresh(machines) {
    if (!this.details.open) return;
    for (const machine of machines) if (machine < this.rows.length) this.#fill(machine);
  }

  #add() {
    const { tree } = this.sceneOf();
    const end = Math.min(tree.machines, this.rows.length + AT_ONCE);
    for (let machine = this.rows.length; machine < end; machine += 1) {
      this.rows.push(el("tr"));
      this.#fill(machine);
      this.body.append(this.rows[machine]);
    }
    this.more.hidden = end === tree.machines;
    this.more.textContent = `Show more (${tree.machines - end} left)`;
  }

  #fill(machine) {
    const { tree, occupancy } = this.sceneOf();
    const told = occupancy.tally(machine, machine + 1);
    const state = { [DRAINING]: "draining", [DOWN]: "down" }[occupancy.up[machine]] || "up";
    const reason = occupancy.reasons.get(machine);
    const jobs = occupancy.jobsOn(machine, machine + 1).flatMap(({ job, gpus }, at) => {
      const href = jobHref(job);
      return [at ? ", " : "", href ? el("a", { href }, job.id) : "another's", ` (${gpus})`];
    });
    const above = tree.path(0, machine).reverse().map((name) => el("td", {}, name));
    const counts = [told.gpus, told.free].map((count) => el("td", { class: "number" }, `${count}`));
    this.rows[machine].replaceChildren(
      ...above, el("th", { scope: "row" }, tree.names[0][machine]), ...counts,
      el("td", {}, reason ? `${state}: ${reason}` : state), el("td", {}, ...jobs),
    );
  }
}
