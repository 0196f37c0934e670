"""`dally.whatif`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dally.api.comparison_result import ComparisonResult
from dally.api.inputs import (
    ClusterLike,
    ScenarioFields,
    cluster_text,
    fields_of,
    scenario_of,
    settings_of,
    several,
)
from dally.api.policies import PolicyLike, known
from dally.api.result_folder import ResultFolder, rows_of_runs, workers_for
from dally.api.what_if_result import WhatIfResult
from dally.errors import InputError
from dally.metrics.summary import Row
from dally.policies.registry import USUAL_POLICY
from dally.sweep.run import Run
from dally.sweep.whatif.calibration import USUAL
from dally.sweep.whatif.change import Change
from dally.sweep.whatif.from_history import HistoryQuestion, HistoryWhatIf
from dally.traces import read_history

if TYPE_CHECKING:
    from dally.api.inputs import TraceLike


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
    """Recorded jobs under the policy in use and under another, and what changes for whom: `dally whatif`.

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
