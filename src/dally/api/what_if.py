"""`dally.whatif`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dally.api.comparison_result import ComparisonResult
from dally.api.inputs import ClusterLike, ScenarioFields, fields_of, scenario_of, settings_of, several
from dally.api.kept import Kept
from dally.api.many_runs import rows_of_runs, workers_for
from dally.api.policies import PolicyLike, known
from dally.api.what_if_result import WhatIfResult
from dally.sweep.batch import with_folders
from dally.sweep.whatif import answer, both_sides
from dally.sweep.whatif_posed import pose, values_of
from dally.traces import read_history

if TYPE_CHECKING:
    from dally.api.inputs import TraceLike


def whatif(
    trace: TraceLike,
    cluster: ClusterLike,
    policy: PolicyLike = "dally",
    settings: Mapping[str, object] | None = None,
    *,
    current: PolicyLike = "fifo-backfill",
    current_settings: Mapping[str, object] | None = None,
    new_network: str = "",
    cluster_delta: str = "",
    seeds: Sequence[int] | None = None,
    top: int = 10,
    out: str | Path | None = None,
    workers: int = 1,
    progress: bool = False,
    **fields: Unpack[ScenarioFields],
) -> WhatIfResult:
    """Recorded jobs under the policy in use and under another, and what changes for whom: `dally whatif`.

    `current` is the policy in use. `new_network` and `cluster_delta`, as in `+2 racks`, change the new side
    only. Tables name `top` users and jobs.
    """
    kept = Kept(out)
    network = fields.pop("network", None) or ""
    fields["durations"] = fields.get("durations") or "recorded"
    under = several("seed", seeds, fields_of(fields), 1)
    both = [
        (current, settings_of("current_settings", current_settings)),
        (policy, settings_of("settings", settings)),
    ]
    with known(both) as choice:
        now, then = choice.policies
        base = scenario_of(kept, trace, cluster, now, fields)
        posed = pose(base, network, then, under, cluster_delta, new_network)
        history = read_history(Path(base.trace), base.trace_format, base.strict, base.zone)
        runs = with_folders(both_sides(posed.question, posed.topology, kept.folder), kept.folder / "runs")
        rows = rows_of_runs(runs, kept.folder, workers_for(workers, choice.everywhere), progress)
        found = answer(posed.question, history, runs, rows, top)
    values = values_of(posed, history, runs, rows, found)
    if kept.out is not None:
        kept.file("whatif.json", json.dumps(values, indent=2) + "\n")
    return WhatIfResult(found, values, top, ComparisonResult(rows, values["current"], kept))
