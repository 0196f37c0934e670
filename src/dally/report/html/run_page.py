"""The report of one run: what came of it, GPUs over time, charts, and the history of the jobs that lost most."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from dally.metrics.comparison import lost_to_network
from dally.metrics.distribution import most_delayed
from dally.metrics.jobs_csv import USER
from dally.metrics.over_time import waiting_jobs
from dally.metrics.record import Record
from dally.report.explanation.job_timeline import Explainer
from dally.report.html.gantt import gantt_data
from dally.report.html.headline import run_headline
from dally.report.html.page import Page, asset
from dally.report.html.page_tables import cards
from dally.report.html.run_charts import run_charts
from dally.report.html.team_section import add_teams
from dally.report.time_text import brief, run_stamp

HISTORIES = 10
MOST_EVENTS = 40  # of a job's history on the page: a policy that preempts by the minute leaves thousands
JUMPS = 12  # of each kind of moment


def run_page(run: Record) -> Page:
    """The page about a run."""
    summary = run.summary
    page = Page(f"Run of {summary['policy']}", facts_of(run))
    page.headline(run_headline(summary["policy"], run.jobs, summary["jct_bound_s"]))
    page.add(cards(key_figures(summary)))
    if run.events.is_empty():
        page.note("Nothing happened in this run: there is nothing to draw.")
        return page
    add_gantt(page, run, run.end_s)
    page.section("charts", "Charts")
    page.add_charts(run_charts(run, run.end_s))
    add_teams(page, run)
    add_histories(page, run)
    return page


def facts_of(run: Record) -> str:
    """What was run, in a line."""
    scenario, summary = run.scenario, run.summary
    parts = [
        f"{Path(scenario.trace).name}: {summary['jobs']:,} jobs",
        f"cluster {Path(scenario.cluster).name}, {run.topology.total_gpus():,} GPUs",
        f"network {scenario.network}" if scenario.network else "",
        f"congestion {scenario.congestion}" if scenario.congestion else "",
        f"network at {scenario.network_at}" if scenario.network_at else "",
        ", ".join(f"{key}={value}" for key, value in scenario.settings.items()),
        f"seed {scenario.seed}",
        _dates(run),
    ]
    return " · ".join(part for part in parts if part)


def _dates(run: Record) -> str:
    """From which day to which, where the trace has dates."""
    if run.summary.get("epoch_s") is None or run.events.is_empty():
        return ""
    first, last = (run_stamp(run, time_s)[:10] for time_s in (float(run.events["time_s"][0]), run.end_s))
    return f"{first} to {last} ({run.scenario.zone})"


def key_figures(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The figures on top."""

    def times(value: str, bound: str) -> str:
        return f"{summary[value] / summary[bound]:.2f}× the lower bound" if summary[bound] else ""

    result = []
    if summary["finished"]:
        result = [
            ("mean JCT", brief(summary["jct_mean_s"]), times("jct_mean_s", "jct_bound_s")),
            ("median JCT", brief(summary["jct_p50_s"]), f"95 % within {brief(summary['jct_p95_s'])}"),
            ("p99 JCT", brief(summary["jct_p99_s"]), "1 % of jobs take longer"),
            ("mean wait", brief(summary["queue_mean_s"]), f"p99 {brief(summary['queue_p99_s'])}"),
            ("makespan", brief(summary["makespan_s"]), times("makespan_s", "makespan_bound_s")),
        ]
    if summary["comm_s"]:
        lost = f"{lost_to_network(summary) * 100:.1f} %"
        floor = f"{brief(summary['comm_s'])}; {brief(summary['comm_floor_s'])} alone, at the closest"
        result.append(("lost to network", lost, floor if summary["comm_floor_s"] else "of GPU time at work"))
    result += [
        ("GPUs held", f"{summary['utilization'] * 100:.1f} %", f"computing {summary['goodput'] * 100:.1f} %"),
        ("preemptions", f"{summary['preemptions']:,}", f"{summary['renewals']:,} renewals"),
    ]
    return result


def add_gantt(page: Page, run: Record, end_s: float) -> None:
    """The GPUs over time, and how to replay the run from any moment of them."""
    data = gantt_data(run, end_s)
    page.embed("course-facts", data.facts)
    page.embed("course", data.packed)
    ways = [("job", "job"), *([("slowdown", "slowdown")] if data.facts["network"] else [])]
    ways += [("tier", "how far it is spread"), *([("user", "user")] if len(data.facts["users"]) > 1 else [])]
    colours = "".join(f'<option value="{value}">{label}</option>' for value, label in ways)
    left_out = ""
    if data.facts["left_out"]:
        left_out = (
            f" {data.facts['left_out']:,} of the shortest stays on a machine are not shown "
            f"({data.facts['hidden_share'] * 100:.2g} % of the GPU time)."
        )
    page.section("gpus", "GPUs over time")
    page.add(
        _filled("gantt.html", COLOURS=colours, GROUP=escape(run.tiers[1]), JUMPS=_jumps(run), LEFTOUT=left_out)
    )


def _filled(name: str, **parts: str) -> str:
    pieces = asset(name).split("%%")
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def _jumps(run: Record) -> str:
    return "".join(f'<option value="{time_s!r}">{escape(label)}</option>' for time_s, label in moments(run))


def moments(run: Record) -> list[tuple[float, str]]:
    """Instants worth a look: when most jobs waited, failures, the first preemptions, the largest gangs."""
    busiest_s = Explainer(run).busiest_s()
    level = waiting_jobs(run.events.filter(pl.col("time_s") <= busiest_s))["level"]
    most = int(level[-1]) if len(level) else 0
    result = [(busiest_s, f"most jobs wait ({most:,})")]
    down = run.all_events.filter(pl.col("kind") == "fail").head(JUMPS)
    result += [(time_s, f"{machine} fails") for time_s, machine in down.select("time_s", "machine").iter_rows()]
    lost = run.events.filter(pl.col("kind") == "preempt").head(JUMPS // 2)
    result += [(time_s, f"{job} is preempted") for time_s, job in lost.select("time_s", "job_id").iter_rows()]
    large = (
        run.jobs.filter(pl.col("start_s").is_not_null())
        .sort("gpus", descending=True, maintain_order=True)
        .head(JUMPS // 2)
    )
    result += [
        (start_s, f"{job} starts on {gpus} GPUs")
        for start_s, job, gpus in large.select("start_s", "job_id", "gpus").iter_rows()
    ]
    return result


def add_histories(
    page: Page,
    run: Record,
    count: int = HISTORIES,
    anchor: str = "slowest",
    title: str = "Jobs that lost most time",
    replay: str | None = "",
) -> None:
    """The jobs that lost most time, each with its history; `replay`: the page that has one, None if none does."""
    jobs = most_delayed(run.jobs, count)
    if jobs.is_empty():
        return
    page.section(anchor, title)
    page.note(
        "Lost: completion time less the time that the job's work takes alone at its closest placement. "
        "Click a job for its history, which `dally explain JOB --run DIR` prints too"
        f"{', whole' if _is_long(run, jobs) else ''}."
    )
    page.add('<div class="card">')
    explainer = Explainer(run)
    for job in jobs.iter_rows(named=True):
        page.add(history_html(explainer, job, replay))
    page.add("</div>")


def _is_long(run: Record, jobs: pl.DataFrame) -> bool:
    """Whether one of the jobs has more events than its history shows."""
    counts = run.events.filter(pl.col("job_id").is_in(jobs["job_id"].to_list())).group_by("job_id").len()
    return bool((counts["len"] > MOST_EVENTS).any())


def history_html(explainer: Explainer, job: dict[str, Any], replay: str | None = "", lost: str = "") -> str:
    """One job: what it lost in a line, and its history behind it, each time a link into the replay.

    `lost` says it in other words than its row of jobs.csv does.
    """
    often = f", preempted {job['preemptions']:,}×" if job["preemptions"] else ""
    slow = f", slowdown {job['slowdown']:.2f}" if (job["slowdown"] or 0.0) > 1.005 else ""
    model = f" {job['model']}" if job["model"] else ""
    user = f"{job[USER]}, " if job.get(USER) else ""
    parts = (
        f"{user}{job['gpus']} GPUs{model}, "
        + (lost or f"lost {brief(job['lost_s'])} of {brief(job['jct_s'])}: waited {brief(job['queue_s'])}")
        + f"{slow}{often}"
    )
    lines = "".join(
        f"<dt>{_moment(explainer.clock(entry.time_s), entry.time_s, job['job_id'], replay)}</dt>"
        f"<dd>{escape(entry.text)}</dd>"
        for entry in explainer.history(job["job_id"], most=MOST_EVENTS)
    )
    summary = f"<summary><b>{escape(job['job_id'])}</b> {escape(parts)}</summary>"
    return f'<details class="job">{summary}<dl>{lines}</dl></details>'


def _moment(parts: str, time_s: float, job_id: str, replay: str | None) -> str:
    """A time that leads to its moment in the replay."""
    if replay is None:
        return escape(parts)
    return f'<a href="{escape(replay)}#t={time_s:.3f}&amp;job={quote(job_id, safe="")}">{escape(parts)}</a>'
