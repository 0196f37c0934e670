"""The dashboard over a real Slurm, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.slurm_cluster import SlurmCluster
from tests.web.served import Served
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

GPUS = 128
LATE_S = 2.0


@pytest.fixture
def served(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Served]:
    """A daemon that looks after it, for operators with a token."""
    env = {"SLURM_CONF": str(slurm.conf)}
    found = Served(tmp_path / "state", "--backend", "slurm", "--network", "slow", env=env)
    found.add_operator()
    yield found
    found.kill()


def test_what_an_operator_sees_and_does(slurm: SlurmCluster, served: Served, browser: Browser) -> None:
    visitor = Visitor(browser, served.url)
    page = visitor.page
    visitor.go("/")
    assert "/login" in page.url
    visitor.sign_in(served.token)
    visitor.live("/queue")
    page.evaluate(
        "() => { window.came = []; document.body.addEventListener('dally:cycle',"
        " (event) => came.push([Date.now() / 1000, event.detail.wall_s])); }"
    )
    numbers = [served.submit(gpus, 600.0, name=f"gang-{gpus}") for gpus in (32, 32, 32, 32, 8)]
    visitor.until(lambda: visitor.count("busy") == str(GPUS), within_s=30)
    visitor.until(lambda: visitor.count("waiting") == "1")
    assert all(at_s - wall_s < LATE_S for at_s, wall_s in page.evaluate("came"))
    assert "none is free" in page.locator("table.jobs tbody tr").inner_text()
    shown = page.evaluate("fetch('/map/state.json').then((answer) => answer.json())")
    busy = [sum(machine[1][1::2]) for machine in shown["machines"]]
    assert busy == [8] * (GPUS // 8)
    assert set(shown["jobs"]) == set(numbers[:-1])
    visitor.live(f"/jobs/{numbers[0]}")
    assert "started" in page.locator("ol.history").inner_text()
    assert visitor.grave() == []
    visitor.shoot("slurm-job")
    acts_by_hand(visitor, slurm, numbers[-1])
    looks_ahead_and_back(visitor)
    visitor.leave()


def acts_by_hand(visitor: Visitor, slurm: SlurmCluster, waiting: str) -> None:
    page = visitor.page
    visitor.live(f"/jobs/{waiting}")
    story = page.locator("ol.history")
    acts = (("Hold…", "Hold it"), ("Release…", "Release it"), ("First in the queue…", "Put it first"))
    for told, (opener, button) in enumerate(acts, start=1):
        visitor.act(opener, button)
        visitor.until(lambda told=told: story.inner_text().count("by op: asked for by phone") == told)  # type: ignore[misc]
    assert page.get_by_role("button", name="Back to its place…").count() == 1
    visitor.live("/")
    page.locator(".map[data-ready]").wait_for()
    page.get_by_placeholder("Find a job").fill("n16")
    page.keyboard.press("Enter")
    visitor.act("Drain n16…", "Drain it")
    visitor.until(lambda: slurm.run("sinfo", "-h", "-n", "n16", "-o", "%T").strip() in ("draining", "drained"))
    assert "asked for by phone" in slurm.run("sinfo", "-h", "-R", "-o", "%E")
    visitor.shoot("slurm-map")
    visitor.live(f"/jobs/{waiting}")
    visitor.act("Cancel…", "Cancel it")
    visitor.until(lambda: visitor.count("waiting") == "0")
    visitor.live("/log")
    assert page.locator("main").inner_text().count("asked for by phone") == 5
    slurm.run("scontrol", "update", "nodename=n16", "state=resume")


def looks_ahead_and_back(visitor: Visitor) -> None:
    page = visitor.page
    visitor.live("/trends")
    visitor.until(lambda: "128 of 128 GPUs in service are used" in page.locator("main").inner_text())
    visitor.live("/whatif")
    page.get_by_label("Machines").fill("+1 rack")
    page.locator("[name=futures]").fill("1")
    page.get_by_role("button", name="Simulate").click()
    visitor.until(lambda: page.locator("#answer [data-done]").count() == 1, within_s=60)
    assert "+1 rack instead of dally" in page.locator("#answer .headline").inner_text()
