"""One run among many: what the tables call it, what tells it from others, and the row it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dally.errors import InputError
from dally.metrics.comparison import REPLICATION
from dally.metrics.row import Row, row_of
from dally.runs.execute import execute
from dally.runs.key import keyed
from dally.runs.scenario import Scenario

MOST_RUNS = 1_000_000  # some 2 GB of them


@dataclass(frozen=True)
class Run:
    """A scenario, what the tables call it, and a key: the digest of all that decides its outcome."""

    scenario: Scenario
    labels: dict[str, Any]
    key: str
    folder: Path | None = None  # where it leaves what `dally simulate --out` leaves
    report: bool = False  # report.html too

    def name(self) -> str:
        """The run in words; its replications go by the same name."""
        told = {name: value for name, value in self.labels.items() if value != "" and name != REPLICATION}
        return ", ".join(f"{name} {value}" for name, value in told.items())


def check_count(count: int) -> None:
    """InputError for more runs than anybody waits for, before any of them is made."""
    if count > MOST_RUNS:
        raise InputError(f"{count:,} runs: at most {MOST_RUNS:,} at a time; vary less, or draw samples")


def make_run(scenario: Scenario, labels: Mapping[str, Any], digests: dict[str, str]) -> Run:
    """The run, fit for a worker with another working directory; `digests` holds those of files met before."""
    scenario, key = keyed(scenario, digests)
    return Run(scenario, dict(labels), key)


def make_row(run: Run) -> Row:
    """Carry the run out: its row, and the CPU seconds it took."""
    row = row_of(execute(run.scenario, out=run.folder))
    if run.folder and run.report:
        from dally.report.html.build import build_page, write_page

        write_page(build_page(run.folder), run.folder / "report.html")
    return row
