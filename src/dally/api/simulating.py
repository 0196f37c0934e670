"""`dally.simulate`, going on from where a run was saved, and reading back what a run left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dally.api.inputs import ClusterLike, ScenarioFields, scenario_of, settings_of
from dally.api.policies import PolicyLike, known
from dally.api.result_folder import ResultFolder
from dally.api.run_result import RunResult
from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.going_on import Keep, saved_scenario
from dally.sweep.progress import bar_of_run

if TYPE_CHECKING:
    from dally.api.inputs import TraceLike


def simulate(
    trace: TraceLike,
    cluster: ClusterLike,
    policy: PolicyLike = "dally",
    settings: Mapping[str, object] | None = None,
    *,
    out: str | Path | None = None,
    snapshot: str | Path | None = None,
    snapshot_at: float = 0.0,
    progress: bool = False,
    **fields: Unpack[ScenarioFields],
) -> RunResult:
    """The run of a trace on a cluster under a policy: what `dally simulate` does.

    `settings` are the policy's. With `out` the run is also left in that folder. With `snapshot` it is saved in that
    file when the clock passes `snapshot_at` seconds. `fields` are those of a scenario, see below.
    """
    results = ResultFolder(out)
    with known([(policy, settings_of("settings", settings))]) as choice, bar_of_run(progress) as show:
        scenario = scenario_of(results, trace, cluster, choice.policies[0], fields)
        stop = Keep(Path(snapshot), snapshot_at) if snapshot else None
        return RunResult(execute(scenario, show, results.out, stop), results)


def go_on(
    snapshot: str | Path,
    policy: PolicyLike | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    until_s: float | None = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> RunResult:
    """The run that was saved in that file, gone on with: under its own policy, or under another from there on."""
    results = ResultFolder(out)
    saved = saved_scenario(Path(snapshot))
    if until_s is not None:
        saved = replace(saved, until_s=until_s)
    chosen = [] if policy is None else [(policy, settings_of("settings", settings))]
    with known(chosen) as choice, bar_of_run(progress) as show:
        for other in choice.policies:
            saved = replace(saved, policy=other.name, settings=other.settings)
        return RunResult(execute(saved, show, results.out), results)


def read_run(folder: str | Path) -> RunResult:
    """The run that `dally simulate --out`, or a call with `out`, left in the folder."""
    return RunResult(FolderRecord(Path(folder)))
