"""The part of a run's page about its teams: what each held against its due, who gave way, how fair it was."""

from __future__ import annotations

from html import escape

import polars as pl

from dally.metrics.over_time import held_gpus, occupancies, step_means, time_edges
from dally.metrics.record import Record
from dally.report.html.charts import STEPS, Chart, clock_axis, count_axis, share_axis
from dally.report.html.page import Page
from dally.report.html.page_tables import text_table
from dally.report.html.run_charts import SPANS, stepped
from dally.report.run_summary import fairness_lines, queues_table, types_table
from dally.report.text_table import plain_table

MOST_QUEUES = 8  # that get a chart
MOST_USERS = 10  # that the page names: those worst off
MEANINGS = (
    "Due: what a queue's guarantee, weight and past use give it of what it holds and asks for; in charts sampled "
    "every hour. "
    "Borrowed: held above its guarantee. Lent: of its guarantee, held by others. Stopped: jobs preempted for "
    "another queue's share, with the GPU-hours that they had run."
)
RHO = (
    "Finish-time fairness: the time that a user's jobs took ÷ the time on a fair share of the cluster. Above 1 the "
    "user was worse off than with a share of its own."
)


def add_teams(page: Page, run: Record) -> None:
    """Queues and types of GPU, in runs that have them."""
    summary = run.summary
    queues, types = len(summary.get("queues", {})) > 1, summary.get("gpu_types")
    if not queues and not types:
        return
    page.section("teams", "Teams" if queues else "GPU types")
    edges_s = time_edges(float(run.events["time_s"][0]), run.end_s, SPANS)
    if queues:
        page.add(text_table(queues_table(summary)))
        page.note(MEANINGS)
        for line in fairness_lines(summary):
            page.add(f"<p>{escape(line)}.</p>")
        page.add_charts([share_chart(run, name, place, edges_s) for place, name in enumerate(_largest(run))])
        _add_users(page, run)
    if types:
        page.add(text_table(types_table(summary)))
        if "queues" in summary:
            page.add_charts([types_chart(run, edges_s)])


def _largest(run: Record) -> list[str]:
    queues = run.summary["queues"]
    used = [name for name in queues if queues[name]["jobs"]]
    return sorted(used, key=lambda name: (-queues[name]["gpu_h"], name))[:MOST_QUEUES]


def share_chart(run: Record, queue: str, place: int, edges_s: list[float]) -> Chart:
    """GPUs that a queue held, was due and was guaranteed, over time."""
    jobs = run.jobs.filter(pl.col("queue") == queue)
    events = run.events.filter(pl.col("job_id").is_in(jobs["job_id"].implode()))
    held = held_gpus(events, jobs)
    rows = run.shares.filter(pl.col("queue") == queue).group_by("time_s", maintain_order=True)
    samples = rows.agg(pl.col("due", "guaranteed").sum()).sort("time_s")
    lines = {
        "held": step_means(held["time_s"], held["level"], edges_s),
        "due": step_means(samples["time_s"], samples["due"], edges_s),
        "guaranteed": step_means(samples["time_s"], samples["guaranteed"], edges_s),
    }
    if not any(lines["guaranteed"]):
        del lines["guaranteed"]
    most = max(max(values) for values in lines.values())
    return Chart(
        f"share-{place}", queue, "GPUs held, due, and of these guaranteed.", STEPS,
        clock_axis(run, edges_s[0], edges_s[-1]), count_axis("GPUs", most, ""),
        [stepped(name, colour, values, edges_s) for colour, (name, values) in enumerate(lines.items())],
    )  # fmt: skip


def types_chart(run: Record, edges_s: list[float]) -> Chart:
    """The share of every type's GPUs that jobs held, over time."""
    gpus = {name: use["gpus"] for name, use in run.summary["gpu_types"].items()}
    steps = _steps_by_type(run)
    series = []
    for colour, (name, count) in enumerate(gpus.items()):
        own = steps.filter(pl.col("type") == name)
        levels = step_means(own["time_s"], own["step"].cum_sum(), edges_s)
        values = [level / count if count else 0.0 for level in levels]
        series.append(stepped(name or "not stated", colour, values, edges_s))
    most = max(max(one.ys) for one in series)
    return Chart(
        "types", "GPUs held by type", "Share of the type's GPUs that jobs held.", STEPS,
        clock_axis(run, edges_s[0], edges_s[-1]),
        share_axis("GPUs of the type", most or 1.0, "% of them"), series,
    )  # fmt: skip


def _steps_by_type(run: Record) -> pl.DataFrame:
    """`time_s`, `type` and `step`: GPUs of the type that were taken or released then."""
    types = dict(enumerate(run.topology.gpu_types))
    parts = occupancies(run, run.end_s).select(
        "from_s", "to_s",
        type=pl.col("machine").replace_strict(types, return_dtype=pl.String), step=pl.col("gpus").cast(pl.Int64),
    )  # fmt: skip
    taken = parts.select(pl.col("from_s").alias("time_s"), "type", "step")
    released = parts.select(pl.col("to_s").alias("time_s"), "type", -pl.col("step"))
    return pl.concat([taken, released]).sort("time_s", maintain_order=True)


def _add_users(page: Page, run: Record) -> None:
    rho = run.summary["rho"]
    if not rho or rho["users"] < 2:
        return
    worst = sorted(rho["by_user"].items(), key=lambda row: (-row[1], row[0]))
    rows = [[user, f"{value:.2f}"] for user, value in worst[:MOST_USERS]]
    page.add(f'<h3 class="by">Users, the worst off first</h3>{text_table(plain_table(["user", "fairness"], rows))}')
    more = f" {len(worst) - MOST_USERS:,} more in summary.json." if len(worst) > MOST_USERS else ""
    page.note(RHO + more)
