"""The question of every what-if, what would be different, and its answer: both sides, who gains and who loses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Generic

from dally.cluster.delta import change as resized
from dally.cluster.delta import without_links
from dally.cluster.links import has_links
from dally.cluster.presets import find_preset
from dally.cluster.spec import connect_topology, read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.metrics.summary import Row
from dally.policies.registry import build
from dally.report.time_text import duration
from dally.runs.folder import prepare_folder
from dally.runs.scenario import Scenario
from dally.runs.world import AnyConfig, merge, setting_values
from dally.sweep.policy_list import Chosen
from dally.whole_file import write_whole


@dataclass(frozen=True)
class Change:
    """What would be different; what is empty stays as it is."""

    policy: str = ""
    settings: dict[str, str] = field(default_factory=dict)  # over those in use, where the policy stays
    topology: str = ""  # another cluster, as `--topology` takes it
    cluster_delta: str = ""  # that one, or the present one, with so much more or less
    network: str = ""
    network_settings: dict[str, str] = field(default_factory=dict)
    queues: str = ""  # other queues, as `--queues` takes them
    quotas: tuple[str, ...] = ()  # those, or the present ones, with these changes: research.guarantee=+64
    elastic: str = ""  # jobs that could run on other numbers of GPUs, as `--elastic` takes them

    def changes_network(self) -> bool:
        """Whether links would be others."""
        return bool(self.network or self.network_settings)

    def changes_cluster(self) -> bool:
        """Whether the cluster or its links would."""
        return bool(self.topology or self.cluster_delta or self.changes_network())

    def changes_queues(self) -> bool:
        """Whether queues would be others."""
        return bool(self.queues or self.quotas)

    def labels(self) -> list[str]:
        """What would be different beside the policy, for tables."""
        result = [f"topology {Path(self.topology).name}"] if self.topology else []
        result += [self.cluster_delta] if self.cluster_delta else []
        result += [f"network {self.network}"] if self.network else []
        result += [f"{key}={value}" for key, value in self.network_settings.items()]
        result += [f"queues {Path(self.queues).name}"] if self.queues else []
        result += [f"elastic {self.elastic}"] if self.elastic else []
        return [*result, *self.quotas]


@dataclass(frozen=True)
class WhatIfSide(Generic[AnyConfig]):
    """A cluster and how it is scheduled."""

    config: AnyConfig
    topology: Topology
    label: str


def today(config: AnyConfig, topology: Topology) -> WhatIfSide[AnyConfig]:
    """As it is."""
    return WhatIfSide(config, topology, Chosen(config.policy, config.settings).label())


def changed(change: Change, now: WhatIfSide[AnyConfig], folder: Path | None = None) -> WhatIfSide[AnyConfig]:
    """As it would be; InputError for what cannot be. New quotas go into a file of the folder, if one is given."""
    policy = {"policy": change.policy or now.config.policy}
    config = merge(now.config, policy | setting_values(change.settings, {}))
    build(config.policy, config.settings)
    topology = read_topology(change.topology) if change.topology else now.topology
    if change.changes_network():
        config, topology = _on_network(change, config, now.topology, topology)
    if change.cluster_delta:
        topology = resized(topology, change.cluster_delta)
    connect_topology(topology, config.network, config.network_settings, config.congestion)
    if change.changes_queues():
        config = replace(config, queues=_new_queues(change, config.queues, topology, folder))
    if change.elastic:
        if not isinstance(config, Scenario):
            raise InputError(f"elastic {change.elastic}: jobs can be made elastic in a record alone")
        config = replace(config, elastic=change.elastic)
    label = ", ".join([Chosen(config.policy, config.settings).label(), *change.labels()])
    return WhatIfSide(config, topology, label)


def _on_network(
    change: Change, config: AnyConfig, today: Topology, topology: Topology
) -> tuple[AnyConfig, Topology]:
    """Another preset replaces links that the topology states, and leaves today's settings behind."""
    if not config.network and not config.network_settings and not has_links(today):
        stated = change.network or ", ".join(f"{key}={text}" for key, text in change.network_settings.items())
        raise InputError(f"network {stated}: today no network is known, so there is nothing to compare it with")
    if not change.network:
        return merge(config, setting_values({}, change.network_settings)), topology
    find_preset(change.network)
    settings = dict(change.network_settings)
    return replace(config, network=change.network, network_settings=settings), without_links(topology)


def _new_queues(change: Change, present: str, topology: Topology, folder: Path | None) -> str:
    """The file of the new side's queues."""
    from dally.quotas.known_formats import read_quotas
    from dally.quotas.quota_changes import check_types, with_changes
    from dally.quotas.toml_file import to_toml

    source = change.queues or present
    if not source:
        problem = "name the queues with --queues FILE, today's, or with --new-queues FILE"
        raise InputError(f"--quota {change.quotas[0]}: {problem}")
    tree = with_changes(read_quotas(Path(source)), change.quotas)
    check_types(change.quotas, topology.gpu_types)
    if not change.quotas or folder is None:
        return source
    prepare_folder(folder)
    path = folder / "new-queues.toml"
    write_whole(path, to_toml(tree).encode())
    return str(path)


def check_sizes(sizes: Iterable[tuple[str, int]], side: WhatIfSide[Any], advice: str = "") -> None:
    """InputError if a job, named with its GPUs, would not fit."""
    most = side.topology.total_gpus()
    for job_id, gpus in sizes:
        if gpus > most:
            problem = f"job {job_id!r} asks for {gpus} GPUs and the cluster would have {most}"
            raise InputError(f"{side.label}: {problem}{advice}")


SECONDS: Final = "s"


@dataclass(frozen=True)
class Figure:
    """One figure on both sides; `low` to `high` is how far the change goes over futures or seeds."""

    name: str
    label: str
    unit: str
    before: float
    after: float
    change: float
    low: float
    high: float
    about: str = ""  # what it is, in a line

    def shown(self, value: float, signed: bool = False) -> str:
        """A value of it for people."""
        text = duration(abs(value)) if self.unit == SECONDS else f"{abs(value):,.1f}".removesuffix(".0")
        if float(text.split()[0].replace(",", "")) == 0.0:
            return text
        return f"−{text}" if value < 0.0 else f"+{text}" if signed else text


@dataclass(frozen=True)
class JobChange:
    """One job: how long until it is done, in the mean, on both sides."""

    job_id: str
    name: str
    user: str
    gpus: int
    state: str
    before_s: float
    after_s: float

    @property
    def change_s(self) -> float:
        """Above 0: it loses."""
        return self.after_s - self.before_s


@dataclass(frozen=True)
class Replay:
    """What a replay of recorded jobs tells beside: all of whatif.json, and what tables are made of."""

    values: dict[str, Any]
    top_users: list[dict[str, Any]]  # as `users` in the values: those with most GPU-hours, and the others as one
    rows: list[Row]  # of its runs


@dataclass(frozen=True)
class WhatIfAnswer:
    """All of it."""

    headline: str
    before: str  # what the two sides are called
    after: str
    figures: list[Figure]
    winners: list[JobChange] = field(default_factory=list)
    losers: list[JobChange] = field(default_factory=list)
    jobs: int = 0  # compared
    better: int = 0
    worse: int = 0
    samples: int = 0  # futures, or seeds
    spread: str = ""  # what `low` to `high` is
    notes: list[str] = field(default_factory=list)
    verdict: str = ""  # how far to trust a replay
    replay: Replay | None = None  # None: it runs from now
