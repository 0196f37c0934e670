"""`dally trace stats`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.cli.trace.trace_options import FILE, TraceOptions, reads_trace
from dally.cluster.spec import read_topology
from dally.report.time_text import span
from dally.traces.rows import counts_text
from dally.traces.statistics import statistics
from dally.traces.times import Clock

BLOCKS = " ▏▎▍▌▋▊▉█"
STEPS = "▁▂▃▄▅▆▇█"
BAR_WIDTH = 24  # characters


@examples(
    "dally trace stats jobs.csv --cluster 10x8x8",
    "dally trace stats accounting.txt --zone Europe/Berlin --plot accounting.svg",
    "dally trace stats cluster_job_log --json",
)
@reads_trace
def stats(
    options: TraceOptions,
    file: Path = FILE,
    cluster: str = typer.Option(None, help="RxMxG or a topology file: how much the trace loads it."),
    plot: Path = typer.Option(None, metavar="FILE", help="Draw sizes, durations and arrivals: .svg or .png."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as JSON."),
) -> None:
    """Say what a trace holds: sizes, durations, arrivals, GPU-hours, load."""
    gpus = read_topology(cluster).total_gpus() if cluster else None
    history = options.history(file)
    figures = statistics(history, Clock(options.zone), gpus)
    if plot:
        from dally.report.figures import draw_trace

        draw_trace(figures, plot, file.name)
    if as_json:
        typer.echo(json.dumps({"file": str(file), **figures}, indent=2))
        return
    print_table(["", ""], _facts(figures))
    print_table(["GPUs", "jobs", "", "", "GPU-hours", "", ""], _sizes(figures), numbers_from=1, bars=(3, 6))
    if figures["durations"]:
        print_table(["runs", "jobs", "", ""], _durations(figures), numbers_from=1, bars=(3,))
    typer.echo(f"Submissions by hour of the day, 0 to 23: {_spark(figures['arrivals_by_hour'])}")


def _facts(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """The figures that are one value each."""
    busiest, quietest = max(figures["arrivals_by_hour"]), min(figures["arrivals_by_hour"])
    rows = [
        ("format", figures["format"]),
        ("jobs", f"{figures['rows']:,}"),
        ("users", f"{figures['users']:,}" if figures["users"] else "not known"),
        ("first to last submission", f"{span(figures['span_s'])}  ({figures['span_s']:,.0f} s)"),
        ("busiest / quietest hour of the day", f"{busiest:,} / {quietest:,} jobs"),
    ]
    if figures["gpu_hours"] is None:
        rows.append(("GPU-hours", "not known: the trace states iterations"))
    else:
        over_8 = figures["share_over_8"]
        of_which = f"  ({over_8:.1%} in jobs over 8 GPUs)" if over_8 is not None else ""
        keys = ("duration_p50_s", "duration_p90_s", "duration_p99_s", "duration_max_s")
        rows += [
            ("GPU-hours", f"{figures['gpu_hours']:,.1f}{of_which}"),
            ("duration, mean", span(figures["duration_mean_s"])),
            ("duration, p50 / p90 / p99 / max", " / ".join(span(figures[key]) for key in keys)),
        ]
    rows.append(("GPUs, mean / max", f"{figures['gpus_mean']:.2f} / {figures['gpus_max']}"))
    if figures["zero_durations"]:
        rows.append(("durations of zero", f"{figures['zero_durations']:,}"))
    if figures["wait_mean_s"] is not None:
        waits = f"{span(figures['wait_mean_s'])} / {span(figures['wait_p50_s'])}"
        rows.append(("recorded wait, mean / p50", waits))
    if figures["statuses"]:
        ends = ", ".join(f"{count:,} {status}" for status, count in list(figures["statuses"].items())[:6])
        rows.append(("ended", ends))
    return rows + _limits(figures)


def _limits(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """How the trace fits a cluster, and what of it was not used."""
    rows = []
    if figures["load"] is not None:
        rows.append((f"load on {figures['cluster_gpus']:,} GPUs", f"{figures['load']:.3f}"))
    if figures["impossible"]:
        rows.append(("larger than the cluster", f"{figures['impossible']:,} jobs"))
    if figures["unused"]:
        rows.append(("left out", counts_text(figures["unused"])))
    rows += [("note", f"{count:,} jobs {what}") for what, count in figures["notes"].items()]
    return rows


def _sizes(figures: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            size["gpus"], f"{size['jobs']:,}", f"{size['jobs_share']:.1%}", _bar(size["jobs_share"]),
            "" if size["gpu_hours"] is None else f"{size['gpu_hours']:,.0f}",
            "" if size["gpu_hours_share"] is None else f"{size['gpu_hours_share']:.1%}",
            _bar(size["gpu_hours_share"] or 0.0),
        )
        for size in figures["sizes"]
    ]  # fmt: skip


def _durations(figures: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (row["duration"], f"{row['jobs']:,}", f"{row['jobs_share']:.1%}", _bar(row["jobs_share"]))
        for row in figures["durations"]
    ]


def _bar(share: float) -> str:
    """A bar as long as the share."""
    full, part = divmod(round(share * BAR_WIDTH * 8), 8)
    return "█" * full + BLOCKS[part].strip()


def _spark(counts: list[int]) -> str:
    """Counts as a row of columns."""
    most = max(counts) or 1
    return "".join(STEPS[min(count * len(STEPS) // most, len(STEPS) - 1)] for count in counts)
