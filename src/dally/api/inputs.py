"""What the calls take, made into what a scenario holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict

from dally.api.result_folder import ResultFolder
from dally.cluster.formats.writers import to_toml
from dally.cluster.topology import Topology
from dally.errors import InputError, unknown
from dally.policies.base import Policy
from dally.policies.declaration import NamedPolicy
from dally.policies.here import known_here, named_here
from dally.runs.scenario import Scenario
from dally.sweep.plan import convert
from dally.sweep.policy_list import Chosen, read_policies
from dally.traces.readers.csv_trace import frame_csv, is_frame

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    TraceLike: TypeAlias = str | PathLike[str] | pl.DataFrame | pd.DataFrame


ClusterLike: TypeAlias = str | PathLike[str] | Topology


class ScenarioFields(TypedDict, total=False):
    """The other fields of a scenario, by keyword; what is left out is as on the command line."""

    network: str
    network_settings: Mapping[str, object]
    congestion: str | float
    contention: str
    gpu: str
    profiles: str | PathLike[str]
    queues: str | PathLike[str]
    gpu_speeds: str
    restart_s: float
    restart_per_gpu_s: float
    checkpoint_every_s: float
    preempt: Mapping[str, object]
    seed: int
    until_s: float
    skip_impossible: bool
    jitter: int
    failures: str | PathLike[str]
    failure_rate: float
    repair_s: float
    job_progress: str
    sensitivity: str
    health: str | PathLike[str]
    elastic: str
    network_at: str
    mix: str
    trace_format: str
    strict: bool
    zone: str
    durations: str
    past: str | PathLike[str]


def scenario_of(
    results: ResultFolder, trace: TraceLike, cluster: ClusterLike, policy: Chosen, options: Mapping[str, Any]
) -> Scenario:
    """The scenario; a frame and a topology become files that are kept with the result."""
    fields = fields_of(options)
    if is_frame(trace):
        fields["trace_format"] = "csv"
    return Scenario(
        trace=trace_file(results, trace, strict=fields.get("strict", False)),
        cluster=cluster_text(results, cluster),
        policy=policy.name,
        settings=policy.settings,
        **fields,
    )


def fields_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords as a scenario's fields; None stands for a keyword that was not given."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if name not in ScenarioFields.__annotations__:
            raise unknown("keyword", name, list(ScenarioFields.__annotations__))
        if value is None:
            continue
        is_table = name in ("network_settings", "preempt")
        fields[name] = settings_of(name, value) if is_table else convert(name, value)
    return fields


def several(name: str, listed: Sequence[Any] | None, stated: Mapping[str, Any], usual: object) -> list[Any]:
    """The values of `seeds` or `networks`, else the one of `seed` or `network`; InputError if both are given."""
    if listed is None:
        return [stated.get(name, usual)]
    if name in stated:
        raise InputError(f"{name} and {name}s: give one of them")
    result = [listed] if isinstance(listed, (str, int)) else list(listed)
    if not result:
        raise InputError(f"{name}s: none given")
    return [convert(name, value) for value in dict.fromkeys(result)]


def settings_of(name: str, options: Mapping[str, object] | None) -> dict[str, str]:
    """Settings as text, as `--set` takes them."""
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"{name}: {options!r}: must be a dict")
    return {str(key): convert(f"{name} {key}", value) for key, value in (options or {}).items()}


def trace_file(results: ResultFolder, trace: TraceLike, name: str = "trace", strict: bool = False) -> str:
    """The path of the trace; that of a frame is a new file of that name."""
    if is_frame(trace):
        return results.file(f"{name}.csv", frame_csv(trace, strict))
    if isinstance(trace, (str, PathLike)):
        return fspath(trace)
    raise InputError(f"trace: {type(trace).__name__}: must be a path or a DataFrame of polars or pandas")


def cluster_text(results: ResultFolder, cluster: ClusterLike, name: str = "topology.toml") -> str:
    """The cluster as `--cluster` takes it; a topology becomes a file of that name."""
    if isinstance(cluster, Topology):
        return results.file(name, to_toml(cluster))  # whatif writes a cluster.toml beside it
    if isinstance(cluster, (str, PathLike)):
        return fspath(cluster)
    raise InputError(f"cluster: {type(cluster).__name__}: must be a path, a text such as 4x16x8, or a Topology")


PolicyLike: TypeAlias = str | type[Policy] | Policy
WithSettings: TypeAlias = tuple[PolicyLike, dict[str, str]]


class PolicyChoice(NamedTuple):
    """Policies by name, and whether all of them are known to other processes too."""

    policies: list[Chosen]
    everywhere: bool


@contextmanager
def known(policies: Iterable[WithSettings]) -> Iterator[PolicyChoice]:
    """The policies in their order; inside, those of this process are known by the names of their classes."""
    result: list[Chosen] = []
    here: dict[str, NamedPolicy] = {}
    for policy, settings in policies:
        name = policy if isinstance(policy, str) else _free_name(policy, {one.name for one in result})
        if not isinstance(policy, str):
            here[name] = named_here(name, policy)
        result.append(Chosen(name, settings))
    with known_here(here):
        yield PolicyChoice(result, not here)


def spelled_out(policies: Iterable[PolicyLike]) -> list[WithSettings]:
    """Policies with the settings that a text such as `las:lease_s=1800` holds, none twice; `all` is all of ours."""
    result: list[WithSettings] = []
    for policy in [policies] if isinstance(policies, str) else policies:
        here: list[WithSettings] = [(policy, {})]
        if isinstance(policy, str):
            here = [(one.name, one.settings) for one in read_policies([policy])]
        result += [one for one in here if one not in result]
    if not result:
        raise InputError("policies: names none; `dally policies` lists them")
    return result


def _free_name(policy: type[Policy] | Policy, taken: set[str]) -> str:
    """The name of the class, numbered if another policy has it."""
    kind = policy if isinstance(policy, type) else type(policy)
    if not issubclass(kind, Policy):
        raise InputError(
            f"policy: {kind.__name__}: must be a name, file.py:Class, or a subclass or an object of Policy"
        )
    name, number = kind.__name__, 1
    while name in taken:
        number += 1
        name = f"{kind.__name__}-{number}"
    return name
