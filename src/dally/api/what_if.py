"""`dally.whatif`, and what it gives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dally.api.comparing import ComparisonResult
from dally.api.inputs import (
    ClusterLike,
    PolicyLike,
    ScenarioFields,
    cluster_text,
    fields_of,
    known,
    scenario_of,
    settings_of,
    several,
)
from dally.api.result_folder import ResultFolder, rows_of_runs, workers_for
from dally.api.simulating import written
from dally.errors import InputError
from dally.metrics.summary import Row
from dally.policies.registry import USUAL_POLICY
from dally.report.text_table import TextTable
from dally.report.whatif_text import whatif_parts
from dally.sweep.batch import frame_of
from dally.sweep.run import Run
from dally.sweep.whatif.calibration import USUAL
from dally.sweep.whatif.change import Change, Replay
from dally.sweep.whatif.from_history import HistoryQuestion, HistoryWhatIf
from dally.sweep.whatif.verdict import USE
from dally.traces import read_history

if TYPE_CHECKING:
    import polars as pl

    from dally.api.inputs import TraceLike


class WhatIfResult:
    """Two sides of the same jobs: `users`, `sizes`, `losing_jobs`… as polars frames; all of it in `summary`."""

    def __init__(self, replay: Replay, top: int, comparison: ComparisonResult, results: ResultFolder) -> None:
        self._replay = replay
        self._results = results
        self._comparison = comparison
        self._top = top

    @property
    def summary(self) -> dict[str, Any]:
        """All of whatif.json, by name."""
        return self._replay.values

    @property
    def comparison(self) -> ComparisonResult:
        """The same runs, policy against policy."""
        return self._comparison

    @property
    def verdict(self) -> str:
        """Whether the figures can be used, by how well the replay of the policy in use fits the record."""
        return str(self.summary["verdict"]["text"])

    @property
    def usable(self) -> bool:
        """Whether the replay fits well enough for figures to be quoted."""
        return bool(self.summary["verdict"]["level"] == USE)

    @property
    def answer(self) -> str:
        """The answer in a sentence."""
        return str(self.summary["answer"])

    @property
    def users(self) -> pl.DataFrame:
        """A row per user: GPU-hours and waits on both sides, jobs that are better and worse off."""
        return _frame(self.summary.get("users", []))

    @property
    def sizes(self) -> pl.DataFrame:
        """The same by the number of GPUs of the job."""
        return _frame(self.summary.get("sizes", []))

    @property
    def queues(self) -> pl.DataFrame:
        """The same by queue; no rows where neither side has queues."""
        return _frame(self.summary.get("queues", []))

    @property
    def accounts(self) -> pl.DataFrame:
        """The same by account; no rows where the trace names none."""
        return _frame(self.summary.get("accounts", []))

    @property
    def partitions(self) -> pl.DataFrame:
        """The same by partition."""
        return _frame(self.summary.get("partitions", []))

    @property
    def losing_jobs(self) -> pl.DataFrame:
        """Jobs that take more than 5 % and one minute longer, with `lost_s`; most first."""
        return frame_of(self.summary["losing_jobs"])

    def report(self, path: str | Path | None = None) -> str:
        """The text of report.html: verdict, who gains, who loses; with a path it is also written there."""
        from dally.report.html.whatif_page import whatif_page

        page = whatif_page(self._results.folder, self.summary, self.comparison.rows.to_dicts())
        return written(page.to_html(), path)

    def __str__(self) -> str:
        return "\n".join(part if isinstance(part, str) else part.aligned() for part in self._parts())

    def __repr__(self) -> str:
        return f"<WhatIfResult: {self.answer} {self.verdict} Print it>"

    def _repr_html_(self) -> str:
        pieces = [part for part in self._parts() if part]
        return "".join(f"<p>{escape(part)}</p>" if isinstance(part, str) else part.html() for part in pieces)

    def _parts(self) -> Iterator[str | TextTable]:
        return whatif_parts(self.summary, self._replay.top_users, self._top)


def _frame(groups: list[dict[str, Any]]) -> pl.DataFrame:
    """A row per group, `current_…` beside `new_…`."""
    rows = []
    for group in groups:
        plain = {name: value for name, value in group.items() if name not in ("ranges", "current", "new")}
        both = {f"{side}_{name}": value for side in ("current", "new") for name, value in group[side].items()}
        rows.append({**plain, **both})
    return frame_of(rows)


def whatif(
    trace: TraceLike,
    cluster: ClusterLike,
    policy: PolicyLike = "",
    settings: Mapping[str, object] | None = None,
    *,
    current: PolicyLike | None = None,
    current_settings: Mapping[str, object] | None = None,
    calibrate: bool = True,
    new_cluster: ClusterLike = "",
    cluster_delta: str = "",
    new_network: str = "",
    new_network_settings: Mapping[str, object] | None = None,
    new_queues: str | Path = "",
    quotas: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    top: int = 10,
    out: str | Path | None = None,
    workers: int = 1,
    progress: bool = False,
    **fields: Unpack[ScenarioFields],
) -> WhatIfResult:
    """Recorded jobs under the policy in use and another, and what changes for users and jobs: `dally whatif`.

    `current` is the policy in use, by default the one whose replay fits the record best; so is `network`, unless
    `calibrate` is False. `new_cluster`, `cluster_delta` (`+2 racks`), `new_network`, `new_network_settings`,
    `new_queues` (a file) and `quotas` (`research.guarantee=+64`) change the new side only. `policy` is dally, or
    for other queues the one in use. Tables name `top` users and jobs.
    """
    if current_settings and current is None:
        raise InputError("current_settings: say of which policy with `current`")
    results = ResultFolder(out)
    network = fields.pop("network", None) or ""
    fields["durations"] = fields.get("durations") or "recorded"
    chosen = [1, 2, 3] if seeds is None and fields.get("seed") is None else seeds
    under = several("seed", chosen, fields_of(fields), 1)
    larger = cluster_text(results, new_cluster, "new-topology.toml") if new_cluster else ""
    usual = current if settings and current is not None else USUAL_POLICY
    in_use = (USUAL if current is None else current, settings_of("current_settings", current_settings))
    with known([in_use, (usual if policy == "" else policy, settings_of("settings", settings))]) as choice:
        now, then = choice.policies
        base = scenario_of(results, trace, cluster, now, fields)
        history = read_history(Path(base.trace), base.trace_format, base.strict, base.zone)
        change = Change(
            "" if policy == "" else then.name, then.settings, larger, cluster_delta.strip(), new_network,
            settings_of("new_network_settings", new_network_settings),
            str(new_queues), tuple(quotas),
        )  # fmt: skip
        question = HistoryQuestion(base, change, under, current is not None, network, calibrate)

        def carry(runs: list[Run]) -> list[Row]:
            return rows_of_runs(runs, results.folder, workers_for(workers, choice.everywhere), progress)

        replay = HistoryWhatIf(question, history).answer(results.folder, carry, top).replay
    assert replay is not None
    if results.out is not None:
        results.file("whatif.json", json.dumps(replay.values, indent=2) + "\n")
    return WhatIfResult(replay, top, ComparisonResult(replay.rows, replay.values["current"], results), results)
