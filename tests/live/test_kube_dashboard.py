"""The dashboard over a real Kubernetes, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.kube_cluster import JOBS, NODES, KubeCluster, job
from tests.web.served import Served
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LARGE, SMALL = "default.job.large", "default.job.small"


@pytest.fixture
def served(kube: KubeCluster, tmp_path: Path) -> Iterator[Served]:
    """A daemon that looks after it, as the user dally, for operators with a token."""
    options = ("--set-backend", f"kubeconfig={kube.config}", "--set-backend", "context=dally")
    found = Served(tmp_path / "state", "--backend", "kubernetes", "--network", "slow", *options)
    found.add_operator()
    yield found
    found.kill()
    kube.admin.patch(f"{NODES}/n16", {"spec": {"unschedulable": None}})


def node(kube: KubeCluster, name: str) -> Any:
    return kube.admin.get(f"{NODES}/{name}")


def test_what_an_operator_sees_and_does(kube: KubeCluster, served: Served, browser: Browser) -> None:
    visitor = Visitor(browser, served.url)
    visitor.go("/")
    visitor.sign_in(served.token)
    page = visitor.live("/queue")
    kube.admin.post(JOBS, job("large", 16, 8, None))
    visitor.until(lambda: visitor.count("busy") == "128", within_s=30)
    kube.admin.post(JOBS, job("small", 1, 8, None))
    visitor.until(lambda: page.locator("table.jobs tbody tr").count() == 1)
    page.get_by_role("link", name="small").click()
    visitor.act("Hold…", "Hold it")
    visitor.until(lambda: visitor.count("held") == "1")
    visitor.act("Release…", "Release it")
    visitor.until(lambda: visitor.count("waiting") == "1")
    visitor.live("/")
    page.locator(".map[data-ready]").wait_for()
    page.get_by_placeholder("Find a job").fill("n16")
    page.keyboard.press("Enter")
    visitor.act("Drain n16…", "Drain it")
    visitor.until(lambda: node(kube, "n16")["spec"].get("unschedulable"))
    visitor.shoot("kubernetes-map")
    visitor.live(f"/jobs/{LARGE}")
    visitor.act("Cancel…", "Cancel it")
    visitor.until(lambda: visitor.count("busy") == "8", within_s=30)
    visitor.live(f"/jobs/{SMALL}")
    story = page.locator("ol.history").inner_text()
    assert story.count("asked for by phone") == 2
    assert "started" in story
    assert "n16" not in page.locator("main").inner_text()  # it drains
    visitor.leave()
