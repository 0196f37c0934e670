"""`dally.simulate`, and reading back what a run left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dally.api.inputs import ClusterLike, ScenarioFields, scenario_of, settings_of
from dally.api.kept import Kept
from dally.api.policies import PolicyLike, known
from dally.api.run_result import RunResult
from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
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
    progress: bool = False,
    **fields: Unpack[ScenarioFields],
) -> RunResult:
    """The run of a trace on a cluster under a policy: what `dally simulate` does.

    `settings` are the policy's. With `out` the run is also left in that folder. `fields` are those of a
    scenario, see below.
    """
    kept = Kept(out)
    with known([(policy, settings_of("settings", settings))]) as choice, bar_of_run(progress) as show:
        scenario = scenario_of(kept, trace, cluster, choice.policies[0], fields)
        return RunResult(execute(scenario, show, kept.out), kept)


def read_run(folder: str | Path) -> RunResult:
    """The run that `dally simulate --out`, or a call with `out`, left in the folder."""
    return RunResult(FolderRecord(Path(folder)))
