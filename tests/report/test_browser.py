"""Reports in a real browser, network off: they load, draw, sort, and fit a phone."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dally.report.html.build import build_page, write_page
from dally.report.html.charts import STACK, Chart, Series, Total, category_axis, fitted_high, span_axis
from dally.report.html.headline import Headline
from dally.report.html.page import Page
from tests.report.conftest import ARTIFACTS, Open

PHONE = 390
GRAVE = ("serious", "critical")
KINDS = ("run", "comparison", "sweep", "whatif")
TITLE_WITH_UNIT = re.compile(r"\S.* \([^()]+\)$")


@pytest.fixture(scope="session")
def reports(
    tmp_path_factory: pytest.TempPathFactory,
    run_folder: Path,
    comparison_folder: Path,
    sweep_folder: Path,
    whatif_folder: Path,
) -> dict[str, Path]:
    """A report of each kind."""
    folder = tmp_path_factory.mktemp("reports")
    for kind, source in zip(KINDS, (run_folder, comparison_folder, sweep_folder, whatif_folder), strict=True):
        write_page(build_page(source), folder / f"{kind}.html")
    return {kind: folder / f"{kind}.html" for kind in KINDS}


def shoot(page: Any, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTIFACTS / f"{name}.png"), full_page=True)


def grave(page: Any) -> list[str]:
    """What axe-core finds that keeps people out."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in GRAVE]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "width"), [("desktop", 1280), ("phone", PHONE)])
def test_loads_and_fits(
    reports: dict[str, Path], open_page: Open, kind: str, scheme: str, device: str, width: int
) -> None:
    page = open_page(reports[kind], width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("p.lead").first.inner_text().endswith(".")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(15, 19, 24)") == (scheme == "dark")
    assert grave(page) == []
    shoot(page, f"{kind}-{device}-{scheme}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_has_axis_titles_with_units(reports: dict[str, Path], open_page: Open, kind: str) -> None:
    page = open_page(reports[kind])
    seen = 0
    for figure in page.locator("figure.chart").all():
        if not figure.is_visible():
            continue
        seen += 1
        name = figure.get_attribute("data-name")
        for axis in ("x", "y"):
            title = figure.locator(f".axis-title.{axis}").text_content() or ""
            assert TITLE_WITH_UNIT.match(title), f"{name}: {title!r}"
        marks = figure.locator("svg path, svg circle, svg rect").count()
        assert marks > 4, f"{name} is empty"
    assert seen >= {"run": 9, "comparison": 9, "sweep": 4, "whatif": 1}[kind]


def test_the_gpus_over_time_have_axis_titles_and_zoom(reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports["run"])
    titles = page.locator(".gantt .axis-title").all_text_contents()
    assert all(TITLE_WITH_UNIT.match(title) for title in titles)
    whole = page.evaluate("[dally.gantt.from, dally.gantt.to, dally.gantt.bars]")
    page.locator(".gantt .in").click()
    page.locator(".gantt .in").click()
    closer = page.evaluate("[dally.gantt.from, dally.gantt.to, dally.gantt.bars]")
    assert closer[1] - closer[0] == pytest.approx((whole[1] - whole[0]) / 4)
    assert 0 < closer[2] < whole[2]
    page.locator(".gantt .all").click()
    assert page.evaluate("[dally.gantt.from, dally.gantt.to, dally.gantt.bars]") == whole
    page.locator(".gantt select.rows").select_option(label="rack1")
    assert page.evaluate("dally.gantt.lines") == 24


@pytest.mark.parametrize("kind", ["comparison", "sweep"])
def test_tables_sort(reports: dict[str, Path], open_page: Open, kind: str) -> None:
    page = open_page(reports[kind])
    head = page.locator("table.sortable:visible th", has_text="p99 JCT").first
    column = head.evaluate("cell => cell.cellIndex")
    read = (
        "([table, column]) => [...document.querySelectorAll('table.sortable')[table].tBodies[0].rows]"
        ".map(row => Number(row.cells[column].dataset.value))"
    )
    head.locator("button").click()
    up = page.evaluate(read, [0, column])
    assert up == sorted(up)
    assert len(set(up)) > 1
    head.locator("button").click()
    assert page.evaluate(read, [0, column]) == sorted(up, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"


def test_a_comparison_of_several_workloads_shows_one_at_a_time(reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports["comparison"])
    assert page.locator("table.sortable:visible").count() == 1
    links = page.locator("nav a:visible").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert all(page.locator(link).is_visible() for link in links)
    before = page.locator("p.lead:visible").inner_text()
    page.locator("select#cell").select_option("1")
    assert page.locator("table.sortable:visible").count() == 1
    assert page.locator("p.lead:visible").inner_text() != before
    assert page.locator("figure.chart:visible svg").count() >= 8


def test_the_theme_can_be_switched_and_series_hidden(reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports["comparison"])
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.locator("#theme").click()
    assert page.evaluate(colour) != before
    figure = page.locator("figure[data-name=jct-cdf]:visible")
    lines = figure.locator("svg path[stroke-width='2']")
    shown = lines.count()
    figure.locator(".legend button").first.click()
    assert lines.count() == shown - 1
    figure.locator(".legend button").first.click()
    assert lines.count() == shown


def test_prints_light_without_controls(reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports["run"], scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".gantt .in").is_visible()
    assert len(page.pdf()) > 20_000


def test_a_comparison_is_about_two_policies_and_shows_ranges(reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports["comparison"])
    figure = page.locator("figure[data-name=jct-mean]:visible")
    accents = figure.locator("svg text[style*='font-weight']")
    assert accents.count() == 2
    assert "fifo-backfill" in accents.all_text_contents()
    assert figure.locator("svg .whisker").count() >= 1
    assert page.locator("tr.subject:visible").count() == page.locator("tr.baseline:visible").count() == 1
    assert "two leaders" in page.locator("p.why:visible").first.inner_text()
    item = page.locator("figure[data-name=jct-cdf]:visible .legend button", has_text="las")
    item.hover()
    assert page.locator("figure[data-name=jct-cdf]:visible path.hot").count() == 1


def test_an_outlier_is_cut_off_and_marked(tmp_path: Path, open_page: Open) -> None:
    totals = [Total(float(place), value, value, value) for place, value in enumerate([5.0, 6.0, 7.0, 90.0])]
    axis = span_axis("time", fitted_high([one.value for one in totals]))
    bars = Series("all", 0, [one.value for one in totals], [one.row for one in totals])
    names = category_axis("policy", "name", ["a", "b", "c", "d"])
    page = Page("Outliers", "")
    page.headline(Headline("One is far off.", []))
    page.add_charts([Chart("bars", "Bars", "", STACK, axis, names, [bars], totals=totals)])
    write_page(page, tmp_path / "outliers.html")
    shown = open_page(tmp_path / "outliers.html")
    assert axis.high == 8.0
    assert shown.locator("svg path.break").count() == 2
    widths = shown.locator("svg rect").evaluate_all("bars => bars.map(bar => bar.getBBox().width)")
    assert widths[3] == pytest.approx(widths[0] * 8 / 5, rel=0.01)
    assert shown.locator("svg text.inside").all_text_contents() == ["90 s90 s: longer than the chart"]
