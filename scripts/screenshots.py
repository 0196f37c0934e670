"""Takes the README's pictures of the dashboard: a workload is simulated, and its pages are opened in Chromium.

usage: python scripts/screenshots.py [FOLDER]

The run is the same each time; how letters are drawn is the machine's.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from dally.traces.generate import WorkloadRequest, find_recipe, generate, write_workload
from dally.web.replay.replay_app import ReplayScene, replay_app
from dally.web.server import LocalServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM: Final = "/usr/bin/chromium"
CLUSTER: Final = "4x8x8"
WIDTH, HEIGHT = 1280, 800
MOMENTS: Final = 200  # looked at
IMAGES: Final = Path(__file__).resolve().parents[1] / "docs" / "images"


def main() -> None:
    """Take both."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    with tempfile.TemporaryDirectory() as temporary:
        scene = ReplayScene(simulated(Path(temporary)), "256 GPUs")
        server = LocalServer(replay_app(scene), "127.0.0.1:0")
        server.start()
        try:
            take(server.url, scene, folder)
        finally:
            server.stop()


def simulated(folder: Path) -> FolderRecord:
    """Some weeks of a busy cluster."""
    jobs = generate(find_recipe("philly-like"), WorkloadRequest(seed=3, jobs=2500, load=1.4, gpus=256))
    write_workload(folder / "jobs.csv", jobs)
    execute(Scenario(str(folder / "jobs.csv"), CLUSTER, "dally", network="congested"), out=folder / "run")
    return FolderRecord(folder / "run")


def busiest(scene: ReplayScene) -> tuple[float, str]:
    """When most jobs run while some wait and a gang spans machines, and the widest gang."""
    first_s, last_s = scene.span()
    found: list[tuple[int, float, str]] = []
    for step in range(MOMENTS):
        at_s = float(round(first_s + (last_s - first_s) * step / MOMENTS))
        lines = scene.status(at_s).jobs
        running = [line for line in lines if line.placement]
        widest = max(running, key=lambda line: (len(line.placement), line.work_s), default=None)
        if widest is not None and len(widest.placement) > 1 and len(lines) > len(running):
            found.append((len(running), at_s, widest.job_id))
    _, at_s, job_id = max(found)
    return at_s, job_id


def take(url: str, scene: ReplayScene, folder: Path) -> None:
    """The map of that moment, and the gang's page."""
    from playwright.sync_api import sync_playwright

    at_s, job_id = busiest(scene)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for name, path in (("dashboard-map", "/"), ("dashboard-job", f"/jobs/{job_id}")):
            shoot(page, f"{url}{path}?at={at_s}", folder / f"{name}.png")
        browser.close()


def shoot(page: Page, address: str, path: Path) -> None:
    """One page, once it is drawn."""
    page.goto(address)
    while not page.evaluate("window.dally?.replay?.settled"):
        page.wait_for_timeout(50)
    page.wait_for_timeout(500)
    page.screenshot(path=str(path))
    print(path)


if __name__ == "__main__":
    main()
