"""`dally.compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dally.api.comparison_result import ComparisonResult
from dally.api.inputs import ClusterLike, ScenarioFields, cluster_text, fields_of, several, trace_file
from dally.api.policies import PolicyLike, known, spelled_out
from dally.api.result_folder import ResultFolder, rows_of_runs, workers_for
from dally.cluster.presets import find_preset
from dally.errors import InputError, unknown
from dally.metrics.comparison import compare_rows
from dally.report.comparison_tables import write_comparison
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.run import REPLICATIONS, Loads, Prepared, comparison_runs, replicated
from dally.traces.readers.frame_trace import is_frame

if TYPE_CHECKING:
    from dally.api.inputs import TraceLike


def compare(
    traces: TraceLike | Sequence[TraceLike] | Mapping[str, TraceLike],
    cluster: ClusterLike,
    policies: PolicyLike | Sequence[PolicyLike] = "all",
    *,
    networks: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    replications: int = REPLICATIONS,
    baseline: str = "",
    out: str | Path | None = None,
    workers: int = 1,
    progress: bool = False,
    **fields: Unpack[ScenarioFields],
) -> ComparisonResult:
    """Many policies on the same jobs, side by side: what `dally compare` does.

    Several traces are a list, or a dict that names them. A policy's settings stand behind its name, as in
    `las:lease_s=1800`. The baseline is the first policy unless it is named. Each run is made `replications` times
    with restarts a microsecond longer or shorter: as many times the CPU, and it shows what is noise. More than one
    worker are processes (0: one per core), but for policies that are classes or objects of yours: those run here.
    With `out` finished runs are kept in that folder, and the same call goes on from there.
    """
    results = ResultFolder(out)
    stated = fields_of(fields)
    on = several("network", networks, stated, "")
    under = several("seed", seeds, stated, 1)
    for name in filter(None, on):
        find_preset(name)
    listed = [policies] if isinstance(policies, str) or not isinstance(policies, Sequence) else policies
    with known(spelled_out(listed)) as choice:
        labels = [one.label() for one in choice.policies]
        if baseline and baseline not in labels:
            raise unknown("baseline", baseline, labels)
        base = Scenario("", cluster_text(results, cluster), "", **stated)
        named = _named(traces)
        runs = comparison_runs(_loads(results, named, base, under, False), on, choice.policies, base)
        frames = _loads(results, named, base, under, True)
        runs += comparison_runs(frames, on, choice.policies, replace(base, trace_format="csv"))
        runs = replicated(with_folders(runs, results.folder / "runs"), replications, "replications")
        rows = rows_of_runs(runs, results.folder, workers_for(workers, choice.everywhere), progress)
    against = baseline or labels[0]
    write_comparison(results.folder, compare_rows(rows, against), against)
    return ComparisonResult(rows, against, results)


def _named(traces: TraceLike | Sequence[TraceLike] | Mapping[str, TraceLike]) -> dict[str, TraceLike]:
    """Traces by the name of the workload: the caller's, else that of the file; numbered if another has it."""
    if isinstance(traces, Mapping):
        return dict(traces)
    named: dict[str, TraceLike] = {}
    for trace in traces if isinstance(traces, (list, tuple)) else [traces]:
        stem = "trace" if is_frame(trace) else Path(str(trace)).name.split(".")[0]
        name, number = stem, 1
        while name in named:
            number += 1
            name = f"{stem}-{number}"
        named[name] = trace
    if not named:
        raise InputError("traces: none given")
    return named


def _loads(
    results: ResultFolder, named: Mapping[str, TraceLike], base: Scenario, seeds: Sequence[int], frames: bool
) -> Loads:
    """The workloads that are frames, or those that are files."""
    result: Loads = {}
    for place, (name, trace) in enumerate(named.items()):
        if is_frame(trace) == frames:
            path = trace_file(results, trace, f"trace-{place}" if place else "trace", base.strict)
            result[name] = dict.fromkeys(seeds, Prepared(Path(path), base.cluster))
    return result
