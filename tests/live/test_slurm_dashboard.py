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
    made = found.command("token", "add", "op", "--role", "operator", "--folder", str(found.folder))
    found.token = next(word for word in made.split() if word.startswith("dally_"))
    found.wait_for_tokens()
    yield found
    found.kill()


def test_what_an_operator_sees_and_does(slurm: SlurmCluster, served: Served, browser: Browser) -> None:
    visitor = Visitor(browser, served.url)
    page = visitor.page
    visitor.go("/")
    assert "/login" in page.url
    page.get_by_label("Token").fill(served.token)
    page.get_by_role("button", name="Sign in").click()
    visitor.live("/queue")
    page.evaluate(
        "() => { window.came = []; document.body.addEventListener('dally:turn',"
        " (event) => came.push([Date.now() / 1000, event.detail.wall_s])); }"
    )
    numbers = [served.submit(gpus, 600.0, name=f"gang-{gpus}") for gpus in (32, 32, 32, 32, 8)]
    visitor.until(lambda: visitor.count("busy") == str(GPUS), within_s=30)
    visitor.until(lambda: visitor.count("waiting") == "1")
    assert all(at_s - wall_s < LATE_S for at_s, wall_s in page.evaluate("came"))
    assert "no GPUs free" in page.locator("table.jobs tbody tr").inner_text()
    shown = page.evaluate("fetch('/map/state.json').then((answer) => answer.json())")
    busy = [sum(machine[1][1::2]) for machine in shown["machines"]]
    assert busy == [8] * (GPUS // 8)
    assert set(shown["jobs"]) == set(numbers[:-1])
    visitor.live(f"/jobs/{numbers[0]}")
    assert "started" in page.locator("ol.story").inner_text()
    assert visitor.grave() == []
    visitor.shoot("slurm-job")
    visitor.leave()
