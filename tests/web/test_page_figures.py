"""Every figure that a page shows is in the API with the same value; the two are read apart and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

import pytest

from dally.live.config import Setup
from dally.live.forecast.whatif.runner import Runner
from dally.live.forecast.worker import Forecaster
from dally.metrics.trends import SIZE_CLASSES, SLOT_SIZES
from dally.report.time_text import duration
from tests.web.conftest import Desk, opened
from tests.web.test_overview import QUEUES
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROWS = """(table) => [...table.querySelectorAll("tbody tr")].map((row) => Object.fromEntries(
  [...row.querySelectorAll("[data-label]")].map((cell) => [cell.dataset.label, cell.innerText])))"""
PLAIN_ROWS = """(table) => [...table.querySelectorAll("tbody tr")].map(
  (row) => [...row.children].map((cell) => cell.innerText))"""
FACTS = """(list) => Object.fromEntries([...list.querySelectorAll("dt")].map(
  (head) => [head.innerText, head.parentElement.querySelector("dd").innerText]))"""


@pytest.fixture(scope="module")
def open_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, str]]:
    """An hour of a busy cluster: jobs that run over the network, wait, are held, have ended, and one is first."""
    folder = tmp_path_factory.mktemp("figures")
    (folder / "queues.toml").write_text(QUEUES)
    setup = Setup("dally", queues=str(folder / "queues.toml"), network="congested")
    desk = Desk(folder / "service", setup=setup)
    desk.service.whatifs.make_runner = Runner
    desk.service.outlook.forecaster = Forecaster()
    jobs = ((24, "bob", 9400.0), (8, "ann", 300.0), (9, "ann", 8600.0), (32, "bob", 600.0), (4, "eve", 7200.0))
    for gpus, user, seconds in jobs:
        desk.submit(gpus, seconds, user=user, name=f"of-{user}", model="vgg16")
        desk.cycle(1.0)
        desk.cycle(600.0)
    held = desk.submit(4, user="eve", name="later")
    desk.cycle(3.0)
    for path, body in (
        (f"jobs/{held}/hold", {}),
        ("nodes/rack1-m1/drain", {}),
        ("jobs/4/priority", {"first": True}),
    ):
        assert desk.client.post(f"/api/v1/{path}", json={"why": "maintenance", **body}).status_code == 200
    for _ in range(20):
        desk.cycle(60.0)
    desk.service.outlook.look()
    with opened(desk) as both:
        yield both


@pytest.fixture
def desk(open_desk: tuple[Desk, str]) -> Desk:
    return open_desk[0]


def rows_of(page: Page, table: str = "table.jobs") -> list[dict[str, str]]:
    """The cells of a table by the heads of their columns."""
    found: list[dict[str, str]] = page.locator(table).first.evaluate(ROWS)
    return found


def jobs_of(desk: Desk, *states: str) -> list[dict[str, Any]]:
    return [job for state in states for job in desk.get(f"jobs?state={state}&limit=1000")["jobs"]]


def share(value: float) -> str:
    return f"{value:.2f}×"


def in_chart(value: float | None) -> str:
    """A value as tables below charts have it."""
    if value is None:
        return "–"
    digits = Decimal("0.01") if abs(value) < 10.0 else Decimal(1)
    rounded = Decimal(f"{value:.5g}").quantize(digits, ROUND_HALF_UP)
    text = f"{rounded:,f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def in_sentence(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0") if abs(value) < 10.0 else f"{value:,.0f}"


def numbers(text: str, *labels: str) -> list[str]:
    """The numbers of a text, but for those of labels."""
    for label in labels:
        text = text.replace(label, "")
    return re.findall(r"\d[\d,]*(?:\.\d+)?", text)


def shown(seconds: float) -> str:
    return duration(round(max(0.0, seconds)))


def test_counts_above_every_page(visitor: Visitor, desk: Desk) -> None:
    visitor.live("/queue")
    visitor.until(lambda: visitor.count("gpus") == "32")
    status = desk.get("status")
    counts = {name: int(visitor.count(name)) for name in ("busy", "gpus", "running", "waiting", "held")}
    jobs = status["jobs"]
    assert counts == {
        "busy": status["busy_gpus"], "gpus": status["gpus"], "running": jobs["running"],
        "waiting": jobs["waiting"], "held": jobs["held"],
    }  # fmt: skip
    assert min(counts.values()) > 0, "all of them say something"


def test_lists_of_jobs(visitor: Visitor, desk: Desk) -> None:
    page = visitor.live("/queue")
    now_s = desk.get("status")["at_s"]
    etas = {one["job_id"]: one for one in desk.get("outlook")["etas"]}
    waiting = jobs_of(desk, "waiting")
    rows = rows_of(page)
    assert len(rows) == len(waiting) == len(etas) > 1
    for row, job in zip(rows, waiting, strict=True):
        assert (row["Place"], row["GPUs"]) == (str(job["place"]), str(job["gpus"]))
        assert row["Waits"] == duration(now_s - job["since_s"])
        assert job["why"] in row["Waits for"]
        slowdowns = desk.get(f"jobs/{job['job_id']}/explanation")["slowdowns"]
        if len(slowdowns) > 1:
            assert re.findall(r"[\d.]+×", row["Slower by tier"]) == [share(one) for one in slowdowns.values()]
        else:
            assert numbers(row["Slower by tier"]) == []
        eta = etas[job["job_id"]]
        low = shown(eta["low_s"] - now_s)
        high = "" if eta["high_s"] is None else shown(eta["high_s"] - now_s)
        assert (f"{low} to {high}" if high else f"not before {low}") in row["Starts"]
    visitor.live("/queue?tab=running")
    running = jobs_of(desk, "running")
    for row, job in zip(rows_of(page), running, strict=True):
        assert (row["GPUs"], row["Runs"]) == (str(job["gpus"]), duration(now_s - job["since_s"]))
        assert (row["Slower"], row["Stopped"]) == (share(job["slowdown"]), str(job["preemptions"]))
        assert numbers(row["Done"]) == [str(int(100 * min(1.0, job["work_s"] / job["duration_s"])))]
    assert any(job["slowdown"] > 1.005 for job in running)
    visitor.live("/queue?tab=held")
    [row], [held] = rows_of(page), jobs_of(desk, "held")
    assert (row["GPUs"], row["Held"], row["Why"]) == ("4", duration(now_s - held["since_s"]), held["why"])
    visitor.live("/queue?tab=ended")
    ended = jobs_of(desk, "finished")
    for row, job in zip(rows_of(page), ended, strict=True):
        assert [row["GPUs"], row["Work"], row["Stopped"]] == [
            str(job["gpus"]), duration(job["work_s"]), str(job["preemptions"]),
        ]  # fmt: skip
    tallies = [int(text) for text in page.locator(".tabs b").all_inner_texts()]
    assert tallies == [len(waiting), len(running), 1]


@pytest.mark.parametrize("state", ["running", "waiting", "held", "finished"])
def test_a_job_of_each_state(visitor: Visitor, desk: Desk, state: str) -> None:
    job = jobs_of(desk, state)[0]
    page = visitor.live(f"/jobs/{job['job_id']}")
    explained = desk.get(f"jobs/{job['job_id']}/explanation")
    facts = page.locator("dl.facts").evaluate(FACTS)
    often = {0: "never", 1: "once", 2: "twice"}
    assert (facts["Number"], facts["GPUs"]) == (job["job_id"], str(job["gpus"]))
    assert (facts["Stopped"], facts["Moved"]) == (often[job["preemptions"]], often[job["migrations"]])
    assert facts.get("Place in the queue", "None") == str(job["place"])
    if state != "finished":
        done = page.locator(".progress label").inner_text()
        assert f"{duration(job['work_s'])} of {duration(job['duration_s'])}" in done
    spent = explained["spent"]
    kinds = ("waiting_s", "useful_s", "network_s", "other_s")
    assert page.locator("ul.legend b").all_inner_texts() == [duration(spent[kind]) for kind in kinds]
    takes = page.locator("table.narrow td.number").all_inner_texts()
    assert takes == [share(value) for value in explained["slowdowns"].values()]
    assert page.locator("ol.history span").all_inner_texts() == [one["text"] for one in explained["history"]]
    times = page.locator("ol.history time").evaluate_all(
        "(all) => all.map((one) => Date.parse(one.dateTime) / 1000)"
    )
    assert times == [int(one["at_s"]) for one in explained["history"]]


def test_the_map_its_cards_and_its_table(visitor: Visitor, desk: Desk) -> None:
    page = visitor.live("/")
    page.locator(".map[data-ready]").wait_for()
    nodes = desk.get("nodes")["nodes"]
    jobs = {job["job_id"]: job for job in desk.get("jobs?limit=1000")["jobs"]}
    page.get_by_text("Machines as a table").click()
    table = page.locator(".map-machines table")
    for cells, node in zip(table.evaluate(PLAIN_ROWS), nodes, strict=True):
        free = node["free"] if node["state"] == "up" else 0
        on = sorted((job_id, jobs[job_id]["placement"][node["name"]]) for job_id in node["jobs"])
        assert cells[1:4] == [node["name"], str(node["gpus"]), str(free)]
        assert sorted(re.findall(r"(\S+) \((\d+)\)", cells[5])) == [(job_id, str(gpus)) for job_id, gpus in on]
    links = {link["domain"]: link["load"] for link in desk.get("links")["links"] if link["tier"] == "rack"}
    assert max(links.values()) > 0.0
    find, card = page.locator(".map-find input"), page.locator(".map-card")
    for rack, load in links.items():
        find.fill(rack)
        find.press("Enter")
        card.get_by_role("heading", name=rack).wait_for()
        own = [node for node in nodes if rack in node["domains"]]
        rows = card.locator("dl").evaluate(
            "(list) => Object.fromEntries([...list.querySelectorAll('dt')].map("
            "(head) => [head.innerText, head.nextElementSibling.innerText]))"
        )
        free = sum(node["free"] for node in own if node["state"] == "up")
        assert rows["GPUs"] == f"{free} of {sum(node['gpus'] for node in own)} free"
        assert numbers(rows["Machines"])[0] == str(len(own))
        assert rows["Uplink"] == f"{100 * load:.0f} % busy"
    for row in page.locator("[data-beside]").all():
        job = jobs[str(row.get_attribute("data-beside"))]
        waits_s = desk.get("status")["at_s"] - job["since_s"]
        last = share(job["slowdown"]) if job["place"] is None else duration(waits_s)
        assert row.locator("td").all_inner_texts() == [str(job["gpus"]), last]


def test_teams_and_both_logs(visitor: Visitor, desk: Desk) -> None:
    page = visitor.live("/teams")
    teams = desk.get("queues")["queues"]
    for row, team in zip(rows_of(page), teams, strict=True):
        assert row["Queue"] == team["path"].rpartition("/")[2]
        expected = {
            "Guarantee": f"{team['guarantee']:g}",
            "Holds": str(team["held"]),
            "Due": f"{team['due']:.0f}",
            "Limit": "–" if team["limit"] is None else f"{team['limit']:g}",
            "Waiting GPUs": str(team["waiting_gpus"]),
            "Borrows": f"{team['borrowed']:g}" if team["borrowed"] else "–",
            "Lends": f"{team['lent']:g}" if team["lent"] else "–",
            "Past use, GPU-hours": f"{team['used_gpu_h']:,.0f}",
            "Weight": f"{team['weight']:g}",
        }
        assert {name: row[name] for name in expected} == expected
    visitor.live("/log")
    actions = desk.get("actions")["actions"]
    assert len(actions) == 3
    for row, action in zip(rows_of(page), actions, strict=True):
        assert (row["Action"], row["Why"], row["Outcome"]) == (action["message"], action["why"], action["outcome"])
    visitor.live("/log?of=scheduler")
    events = [event for event in desk.get("events?limit=1000")["events"] if event["kind"] != "timer"]
    for row, event in zip(rows_of(page), events[:50], strict=True):
        assert row["Job or machine"] == (f"Job {event['job_id']}" if event["job_id"] else event["machine"] or "–")
        assert event["machines"] in row["Where"] or not event["tier"]
        assert row["Why"] == (event["reason"] or "–")


def test_trends(visitor: Visitor, desk: Desk) -> None:
    page = visitor.live("/trends?span=day")
    visitor.until(lambda: page.evaluate("dally.trends?.points"))
    told = desk.get("trends")
    lines = told["series"]
    topics = page.locator("[data-topic]").evaluate_all("(all) => all.map((one) => one.dataset.topic)")
    assert {one["topic"] for one in lines} <= set(topics)
    for topic in topics:
        section = page.locator(f"[data-topic={topic}]")
        section.locator("summary").click()
        section.locator(".tablebox table").wait_for()
        columns = [one for one in lines if one["topic"] == topic]
        heads = section.locator(".tablebox thead th").all_inner_texts()[1:]
        assert heads == [one["label"] for one in columns]
        cells = [row[1:] for row in section.locator(".tablebox table").evaluate(PLAIN_ROWS)][::-1]
        assert cells == [[in_chart(one["values"][at]) for one in columns] for at in range(len(told["times_s"]))]
    assert sum(value or 0.0 for one in lines for value in one["values"] if one["topic"] == "waiting_jobs") > 0
    now = told["now"]["values"]
    words = {topic: page.locator(f"[data-topic={topic}] [data-words]").inner_text() for topic in topics}
    assert numbers(words["gpus"]) == [in_sentence(now[name]) for name in ("gpus_used", "gpus_up", "gpus_useful")]
    for topic in ("waiting_jobs", "waiting_gpus"):
        parts = [now[f"{topic}_{name}"] for name in SIZE_CLASSES]
        expected = [in_sentence(value) for value in (sum(parts), *parts) if value]
        assert numbers(words[topic], *SIZE_CLASSES.values()) == expected
    slots = [(in_sentence(now[f"slots_{size}"]), str(size)) for size in SLOT_SIZES if f"slots_{size}" in now]
    assert numbers(words["slots"]) == [text for both in slots for text in both]
    assert numbers(words["fragmentation"]) == [in_sentence(now["fragmentation"])]
    cycles_ms = [now[name] for name in ("cycle_ms", "longest_cycle_ms")]
    assert numbers(words["cycles"]) == [f"{value:.1f}" for value in cycles_ms if max(cycles_ms) > 0.0]
    timers = {gpus: row for gpus, row in told["now"]["timers_s"].items() if any(row.values())}
    delays = [
        (gpus, value) for gpus, row in sorted(timers.items(), key=lambda one: int(one[0])) for value in row.values()
    ]
    assert numbers(words["timers"]) == [
        text for gpus, value in delays if value for text in (gpus, *numbers(duration(value)))
    ]
    [preemptions] = [one["values"] for one in lines if one["topic"] == "preemptions"]
    assert numbers(words["preemptions"]) == [in_sentence(sum(value or 0.0 for value in preemptions))]


def signed(figure: dict[str, Any], value: float, with_sign: bool = True) -> str:
    """A value of a what-if's figure, as its table has it."""
    text = duration(abs(value)) if figure["unit"] == "s" else f"{abs(value):,.1f}".removesuffix(".0")
    if not numbers(text) or float(numbers(text)[0].replace(",", "")) == 0.0:
        return text
    return f"−{text}" if value < 0.0 else f"+{text}" if with_sign else text


def answered(visitor: Visitor, desk: Desk, start: str) -> dict[str, Any]:
    """The answer to a question of that kind, once it is there and on the page."""
    whatifs = desk.service.whatifs
    visitor.until(
        lambda: (latest := whatifs.latest()) is not None and (latest.start, latest.state) == (start, "done"),
        within_s=60.0,
    )
    latest = whatifs.latest()
    assert latest is not None
    told: dict[str, Any] = desk.get(f"whatif/{latest.number}")
    headline = visitor.page.locator(".headline")
    visitor.until(lambda: headline.count() == 1 and headline.inner_text() == told["answer"]["headline"])
    return told


@pytest.mark.parametrize("start", ["now", "history"])
def test_a_what_if(visitor: Visitor, desk: Desk, start: str) -> None:
    page = visitor.live("/whatif")
    page.locator(".asks select[name=policy]").select_option("fifo")
    page.locator(".asks input[name=cluster_delta]").fill("+1 rack")
    page.locator(f".asks input[name=start][value={start}]").check()
    page.locator(".asks input[name=futures]").fill("2")
    page.locator(".asks input[name=horizon_days]").fill("0.2")
    page.get_by_role("button", name="Simulate").click()
    told = answered(visitor, desk, start)
    answer = told["answer"]
    assert page.locator(".headline").inner_text() == answer["headline"]
    assert start == "now" or page.locator("article .lead").inner_text() == answer["verdict"]
    rows = rows_of(page, "table.figures")
    assert len(answer["figures"]) >= 4
    for row, figure in zip(rows, answer["figures"], strict=True):
        low, high = (signed(figure, figure[end]) for end in ("low", "high"))
        assert list(row.values()) == [
            signed(figure, figure["before"], False), signed(figure, figure["after"], False),
            signed(figure, figure["change"]), "the same" if low == high else f"{low} to {high}",
        ]  # fmt: skip
    counted = page.get_by_role("heading", name="Jobs that gain and lose").locator("xpath=..").locator("p").first
    assert numbers(counted.inner_text(), "5 %", "5\xa0%") == [
        str(answer[name]) for name in ("jobs", "better", "worse")
    ]
    gains = [job for side in ("winners", "losers") for job in answer[side]]
    cells = page.locator(".sides tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.innerText))"
    )
    sign = {True: "−", False: "+"}
    assert cells == [
        [
            duration(job["after_s"]), duration(job["before_s"]),
            sign[job["change_s"] < 0.0] + duration(abs(job["change_s"])),
        ]
        for job in gains
    ]  # fmt: skip
    assumptions = (
        page.get_by_role("heading", name="Assumptions").locator("xpath=..").locator("li").all_inner_texts()
    )
    assert f"{answer['samples']} " in assumptions[0]
    assert assumptions[-len(answer["notes"]) or len(assumptions) :] == answer["notes"]
