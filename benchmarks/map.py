"""What the map costs in a real browser: milliseconds of script for a frame while it is moved, level by level.

usage: python -m benchmarks.map [--racks 313] [--machines 40] [--frames 100]

The cluster is made up: racks of machines of 8 GPUs, nine tenths of them busy.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from tests.web.made_up_scene import MadeUp, made_up_server, made_up_topology

CHROMIUM: Final = "/usr/bin/chromium"
UNITS: Final = (0.0, 2.2, 4.9, 5.1, 12.0, 40.0)  # pixels of a GPU; 0: everything fits

MOVE = """async ([unit, frames]) => {
  const { view } = dally.map, took = [];
  view.fit(false);
  if (unit > view.unit) view.zoom(unit / view.unit, 600, 300);
  for (let frame = 0; frame < frames; frame += 1) {
    view.pan(frame % 2 ? 30 : -30, frame % 4 < 2 ? 11 : -11);
    for (let wait = 0; wait < 2; wait += 1) await new Promise(requestAnimationFrame);
    took.push(dally.map.lastDrawMs);
  }
  return [view.level, view.unit, took];
}"""

WHOLE = """async (times) => {
  const state = await (await fetch("/map/state.json")).json(), took = [];
  for (let moment = 0; moment < times; moment += 1) {
    const machines = state.machines.map((entry, at) => (at % 2 === moment % 2 ? [0, []] : entry));
    dally.map.take("replace", { ...state, machines });
    took.push(dally.map.lastUpdateMs);
  }
  return took;
}"""


def spread(took: list[float]) -> str:
    """The middle, and what is seldom exceeded."""
    ranked = sorted(took)
    middle, high = (ranked[int(share * len(ranked))] for share in (0.5, 0.95))
    return f"p50 {middle:5.1f}, p95 {high:5.1f}, most {ranked[-1]:5.1f} ms"


def measure(page: Any, tiers: list[str], frames: int) -> None:
    """Print one line a level, and one for states that come whole, of which half the machines changed."""
    for unit in UNITS:
        level, shown, took = page.evaluate(MOVE, [unit, frames])
        drawn = "GPUs" if level == "gpu" else f"{tiers[level]}s"
        print(f"a frame of {drawn:9} {shown:5.1f} pixels a GPU: {spread(took)}")
    page.evaluate("dally.map.view.fit(false)")
    print(f"a whole state, every other machine another: {spread(page.evaluate(WHOLE, 30))}")


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--racks", type=int, default=313)
    parser.add_argument("--machines", type=int, default=40, help="of a rack")
    parser.add_argument("--frames", type=int, default=100)
    given = parser.parse_args()
    scene = MadeUp(made_up_topology(given.racks, given.machines, 8))
    server = made_up_server(scene)
    server.start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        page.goto(server.url)
        page.locator(".map[data-ready]").wait_for()
        print(f"{given.racks * given.machines} machines, {len(scene.now.jobs)} jobs")
        measure(page, scene.topology.tiers, given.frames)
        browser.close()
    server.stop()


if __name__ == "__main__":
    main()
