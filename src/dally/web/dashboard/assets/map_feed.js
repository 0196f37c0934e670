// Where the map's news come from: the server's state, the stream's cycles, a replay's moments.

import { say } from "./base.js";

const AGAIN_MS = 2000;

export class Feed {
  // `map` has start(tree, state), take("change" | "replace", told) and `occupancy`.
  constructor(map) {
    Object.assign(this, { map, loading: false, stale: false, failed: false, again: 0, moment: null });
    const on = (kind, act) => document.body.addEventListener(kind, act);
    on("dally:cycle", (event) => this.turned(event.detail));
    on("dally:state", (event) => this.#replayed(event.detail));
    on("dally:reset", () => this.load());
    on("dally:link", () => setTimeout(() => this.#catchUp()));
  }

  // Fetches everything anew. Cycles that come about meanwhile are not lost: it is done again. So it is after a failure,
  // in a while, and until then nothing else counts: cycles may be those of another boot.
  async load() {
    if (this.loading || this.again) { this.stale = true; return; }
    Object.assign(this, { loading: true, stale: false });
    const at = new URLSearchParams(window.location.search).get("at");
    try {
      const moment = at ? `?at=${encodeURIComponent(at)}` : "";
      const [tree, state] = await Promise.all([fetched("/map/tree.json"), fetched(`/map/state.json${moment}`)]);
      this.map.start(tree, this.moment || state);
      this.failed = false;
    } catch (error) {
      this.#retry(error);
    } finally {
      this.loading = false;
    }
    if (this.again) return;
    if (this.stale) this.load();
    else this.#catchUp();
  }

  #retry(error) {
    if (!this.failed) say(`The map could not be fetched (${error.message}); trying again.`);
    this.failed = true;
    this.again = setTimeout(() => { this.again = 0; this.load(); }, AGAIN_MS);
  }

  // One cycle of the stream; what a fetch already told is not told again.
  turned(message) {
    const { occupancy } = this.map;
    if (this.loading || this.again || !occupancy) this.stale = true;
    else if (message.after > occupancy.cycle) this.load();
    else if (message.cycle > occupancy.cycle) this.map.take("change", message);
  }

  #replayed(state) {
    this.moment = state;
    if (this.map.occupancy) this.map.take("replace", state);
  }

  // The stream is further than what was fetched.
  #catchUp() {
    const { occupancy } = this.map;
    if (occupancy && !this.moment && window.dally.cycle > occupancy.cycle) this.load();
  }
}

async function fetched(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}
