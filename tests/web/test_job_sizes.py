"""Size over time of an elastic job: in the API and on its page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from dally.report.explanation.course import GONE, HELD, RUNS, WAITS
from dally.report.explanation.size_spans import SizeSpan, is_elastic, size_spans
from tests.web.conftest import Desk, answering
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Act = tuple[float, int, int]  # when, what it makes of the job, and its GPUs


class MadeUpCourse:
    """Of one job."""

    def __init__(self, acts: list[Act]) -> None:
        self.times, self.makes, self._gpus = zip(*acts, strict=True)

    def acts_of(self, job: int) -> list[int]:
        return list(range(len(self.times)))

    def parts(self, act: int) -> list[tuple[int, int]]:
        return [(0, self._gpus[act])]


@pytest.mark.parametrize(
    ("acts", "until_s", "spans"),
    [
        ([(0, WAITS, 0), (5, RUNS, 8), (9, RUNS, 4)], 20, [(0, 5, 0), (5, 9, 8), (9, 20, 4)]),
        ([(0, RUNS, 8), (5, RUNS, 8), (9, GONE, 0)], 20, [(0, 9, 8)]),
        ([(0, WAITS, 0), (2, HELD, 0), (4, RUNS, 2), (9, GONE, 0)], 6, [(0, 4, 0), (4, 6, 2)]),
    ],
)  # fmt: skip
def test_spans(acts: list[Act], until_s: float, spans: list[tuple[float, float, int]]) -> None:
    """A move is no change, nor is a hold of one that waits; nothing comes after its end."""
    assert size_spans(MadeUpCourse(acts), 0, until_s) == [SizeSpan(*span) for span in spans]  # type: ignore[arg-type]


def test_who_is_elastic() -> None:
    assert is_elastic("4,8", [])
    assert is_elastic("", [SizeSpan(0.0, 1.0, 4), SizeSpan(1.0, 2.0, 8)])
    assert not is_elastic("", [SizeSpan(0.0, 1.0, 0), SizeSpan(1.0, 2.0, 8)])


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (400, "dark")])
def test_the_page_in_a_browser(browser: Browser, desks: Callable[..., Desk], width: int, scheme: str) -> None:
    """It grows, gives way twice and grows again."""
    desk = desks("sia")
    desk.backend.resizes = True
    grows = desk.submit(4, 50_000.0, sizes="2,4,8,16", name="sweep", user="ann")
    for number in range(120):
        if number in (30, 60, 80):
            desk.submit(16 if number == 60 else 8, 250.0)
        desk.cycle(10.0)
    with answering(desk) as url:
        visitor = Visitor(browser, url, width, scheme)
        page = visitor.go(f"/jobs/{grows}")
        heights = page.eval_on_selector_all("svg.sizes rect", "all => all.map(one => one.getBBox().height)")
        assert heights == [12.5, 25.0, 50.0, 100.0, 50.0]
        assert visitor.grave() == []
        assert visitor.fits()
        visitor.shoot(f"job-sizes-{scheme}")
        visitor.leave()


def test_the_api_and_the_page_say_which_sizes_a_job_had(desks: Callable[..., Desk]) -> None:
    desk = desks("sia")
    desk.backend.resizes = True
    grows, rigid = desk.submit(4, 50_000.0, sizes="4,8,16"), desk.submit(2, 50_000.0)
    for _ in range(40):
        desk.cycle(10.0)
    answer = desk.get(f"jobs/{grows}/explanation")
    assert [span["gpus"] for span in answer["sizes"]][-1] == sum(answer["job"]["placement"].values()) == 16
    ends = [span["until_s"] for span in answer["sizes"]]
    assert ends[:-1] == [span["from_s"] for span in answer["sizes"]][1:]
    page = desk.client.get(f"/jobs/{grows}").text
    assert "GPUs over time" in page
    assert "16; asks for 4, may have 4, 8, 16" in page
    assert page.count("<rect x=") == len({span["gpus"] for span in answer["sizes"]} - {0})
    assert desk.get(f"jobs/{rigid}/explanation")["sizes"] == []
    assert "GPUs over time" not in desk.client.get(f"/jobs/{rigid}").text
