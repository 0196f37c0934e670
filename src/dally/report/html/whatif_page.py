"""The page about a what-if: can it be trusted, what changes, who gains and who loses, what is assumed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dally.errors import at
from dally.input_file import read_text
from dally.metrics.metric_list import MEANING
from dally.report.explanation.job_timeline import Explainer
from dally.report.html.charts import STACK, Chart, Series, category_axis, count_axis
from dally.report.html.page import Page, marked
from dally.report.html.page_tables import cells_table, text_table
from dally.report.html.run_charts import PART_COLOURS
from dally.report.html.run_page import history_html
from dally.report.time_text import brief
from dally.report.whatif_text import (
    GROUP_HEADS,
    GROUPS,
    NO_LOSERS,
    assumption_sentences,
    figure_rows,
    fit_table,
    gpu_hours_caution,
    group_rows,
    trust_sentences,
)
from dally.runs.folder import FolderRecord

Values = Mapping[str, Any]
ANSWER = "whatif.json"
COMPARED = "comparison.html"
LOSERS = 10
SHOWN = 15  # rows of a table; the file has all
CHART_LOOK = {"use": "better", "rough": "rough", "do not quote": "worse", "unchecked": "rough"}


def read_answer(folder: Path) -> dict[str, Any]:
    """whatif.json of the folder, or an InputError."""
    path = folder / ANSWER
    try:
        result = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise at(path, None, None, "is not what `dally whatif --out` leaves") from None
    if not isinstance(result, dict) or not {"verdict", "calibration", "total", "answer"} <= result.keys():
        raise at(path, None, None, "is not what this version of `dally whatif --out` leaves")
    return result


def whatif_page(folder: Path, values: Values, rows: Sequence[Mapping[str, Any]]) -> Page:
    """The page; `rows` are those of results.parquet, which say where the runs lie."""
    gpus = " → ".join(f"{count:,} GPUs" for count in dict.fromkeys(values["gpus"]))
    facts = f"{values['total']['jobs']:,} recorded jobs · {gpus} · {values['current']} → {values['new']}"
    page = Page("What if?", facts)
    _verdict(page, values)
    _trust(page, values)
    _changes(page, values)
    _groups(page, values)
    _losers(page, folder, values, rows)
    page.section("assumptions", "Assumptions")
    for line in _assumed(values):
        page.add(f"<p>{marked(line)}</p>")
    if (folder / COMPARED).exists():
        page.add(
            f'<p><a href="{COMPARED}">Both sides as a comparison</a>, with charts and a replay of every run.</p>'
        )
    return page


def _verdict(page: Page, values: Values) -> None:
    result = values["verdict"]
    page.add(f'<div class="verdict {CHART_LOOK[result["level"]]}"><p class="lead">{marked(result["text"])}</p>')
    if result["reasons"]:
        page.add("<p>Most likely because</p><ul>")
        page.add("".join(f"<li>{marked(reason)}.</li>" for reason in result["reasons"]))
        page.add("</ul>")
    only = "Only a simulation: " if result["level"] in ("do not quote", "unchecked") else ""
    page.add(f'</div><p class="answer">{only}{marked(values["answer"])}</p>')
    for line in gpu_hours_caution(values):
        page.add(f"<p>{marked(line)}</p>")


def _trust(page: Page, values: Values) -> None:
    page.section("trust", "Can it be trusted?")
    for line in trust_sentences(values):
        page.add(f"<p>{marked(line)}</p>")
    if not values["fit"]["whole"]["jobs"]:
        return
    page.add(text_table(fit_table(values)))
    page.note(
        "Recorded waits beside those of the replay under what is in use. A job is off by how much longer one wait "
        "is than the other, a minute added to both. The last quarter of the time had no say in what was chosen."
    )


def _changes(page: Page, values: Values) -> None:
    page.section("changes", "What changes")
    page.add(cells_table(["", values["current"], values["new"], "change"], figure_rows(values)))
    if len(values["seeds"]) > 1:
        page.note(f"± is {MEANING}. Less is better everywhere.")
    page.add_charts([_causes(values)])


def _causes(values: Values) -> Chart:
    """GPU-hours by what they went to, a bar for each side."""
    sides = [values["total"][side] for side in ("current", "new")]
    used = [side["gpu_h"] - side["comm_gpu_h"] - side["restart_gpu_h"] for side in sides]
    parts = {
        "computing": used,
        "communication": [side["comm_gpu_h"] for side in sides],
        "restarts": [side["restart_gpu_h"] for side in sides],
        "waiting": [side["wait_gpu_h"] for side in sides],
    }
    most = max(sum(part[place] for part in parts.values()) for place in (0, 1))
    return Chart(
        "gpu-hours", "GPU-hours by cause",
        "GPUs that jobs held, computing, in exposed communication and restarting; and GPUs that they waited for.",
        STACK, count_axis("GPU-hours of all jobs", most, "hours"),
        category_axis("side", "policy", [values["current"], values["new"]]),
        [Series(name, PART_COLOURS[name], part, [0.0, 1.0]) for name, part in parts.items()],
    )  # fmt: skip


def _groups(page: Page, values: Values) -> None:
    page.section("whom", "Who gains, who loses")
    page.note("A job is better or worse off if it takes 5 % and a minute less or longer. Click a heading to sort.")
    for key, what in GROUPS.items():
        groups = values.get(key, [])
        if len(groups) < 2 and key != "sizes":
            continue
        page.add(f'<h3 class="by">By {"GPUs of the job" if key == "sizes" else what}</h3>')
        heads = [what, *(head or "share" for head in GROUP_HEADS)]
        page.add(cells_table(heads, group_rows(groups[:SHOWN]), sortable=True))
        if len(groups) > SHOWN:
            page.note(f"Those with most GPU-hours; {len(groups) - SHOWN:,} more in {ANSWER}.")


def _losers(page: Page, folder: Path, values: Values, rows: Sequence[Mapping[str, Any]]) -> None:
    """The jobs that lose most, each with what it was like before and its story on the new side."""
    page.section("losers", "The largest losers")
    losers = values["losing_jobs"]
    if not losers:
        page.add(f"<p>{NO_LOSERS}</p>")
        return
    shown = min(LOSERS, len(losers))
    page.note(
        f"{shown} of {len(losers):,} jobs that take more than 5 % and one minute longer, with what happens to them "
        f"under `{values['new']}` (the first seed). Click a job for its history."
    )
    first = {str(row["policy"]): row["folder"] for row in reversed(list(rows))}
    if values["new"] not in first:
        return
    where = first[values["new"]]
    run = FolderRecord(folder / where)
    explainer = Explainer(run)
    replay = f"{where}/report.html" if (folder / where / "report.html").exists() else None
    known = {row["job_id"]: row for row in run.jobs.iter_rows(named=True)}
    page.add('<div class="card">')
    for job in losers[:LOSERS]:
        row = known.get(job["job_id"])
        if row is not None and row["jct_s"] is not None:
            page.add(history_html(explainer, row | {"lost_s": job["lost_s"]}, replay, _before(job)))
    page.add("</div>")


def _before(job: Mapping[str, Any]) -> str:
    return (
        f"takes {brief(job['new_jct_s'])} instead of {brief(job['current_jct_s'])}, "
        f"waits {brief(job['new_wait_s'])} instead of {brief(job['current_wait_s'])}"
    )


def _assumed(values: Values) -> list[str]:
    """All that the answer stands on."""
    lines = [
        "The same jobs are submitted at the same times on both sides, whether queues are short or long.",
        "What the record does not hold is not replayed: dependencies, holds, reservations, limits per user.",
    ]
    if values["links_stated"] and not values["network"]:
        lines.append("Links are as the topology states them.")
    return lines + assumption_sentences(values)
