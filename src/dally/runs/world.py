"""The world that jobs are scheduled in, for simulations, the daemon, its forecasts and what-ifs alike.

Its configuration is a dataclass and not a model of pydantic: that takes 0.15 s of CPU to import, half of what
a command may take to begin, and comes with the extra `live` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from dally.cluster.capacity import Cluster
from dally.cluster.spec import connect_topology, quiet
from dally.cluster.topology import Topology
from dally.engine.consent import Consent
from dally.engine.consent_rules import read_rules
from dally.engine.state import State
from dally.errors import InputError
from dally.metrics.record import Inputs
from dally.model import Costs, Job, Profile
from dally.parsed_text import ACCEPTED, is_on
from dally.perf.base import SpeedModel
from dally.perf.network_model import NetworkModel
from dally.perf.no_contention import NO_CONTENTION
from dally.perf.profiles import Steps, load_profiles, shipped
from dally.policies.base import Policy
from dally.policies.registry import USUAL_POLICY, Built
from dally.runs.team_setup import idle_quotas, on_types, policy_for

ANY_SIZE: Final = 64  # GPUs of a gang that shows which GPUs of a model must share a machine
Profiles = Callable[[str, int], Profile]  # by model and GPUs
TABLES = {
    "set": "settings",
    "network": "network_settings",
    "preempt": "preempt",
}  # fields of several values, by the prefix of their names


@dataclass
class WorldConfig:
    """How jobs are scheduled and how fast they run; on which machines, a topology says."""

    policy: str = USUAL_POLICY
    settings: dict[str, str] = field(default_factory=dict)
    network: str = ""  # a preset; without it, and without links in the cluster file, all places are equal
    network_settings: dict[str, str] = field(default_factory=dict)
    congestion: str = ""
    contention: str = "on"  # off: jobs that share links do not slow each other down
    gpu: str = "a100"
    profiles: str = ""  # a catalogue of the user's own
    queues: str = ""  # a file of queues and quotas: docs/queues.md
    gpu_speeds: str = ""  # TYPE=SPEED,…: of GPU types against an A100, where profiles do not say
    restart_s: float = 0.0
    restart_per_gpu_s: float = 1.0
    checkpoint_every_s: float = 0.0
    preempt: dict[str, str] = field(default_factory=dict)  # who may be preempted or moved: docs/consent.md

    def world_values(self) -> dict[str, Any]:
        """These fields by name, without those that a scenario or a daemon adds."""
        return {item.name: getattr(self, item.name) for item in fields(WorldConfig)}

    def check_costs(self, shown: Callable[[str], str]) -> None:
        """InputError unless restarts and checkpoints take a time; `shown` names a field as its user stated it."""
        try:
            is_on(self.contention)
        except ValueError:
            raise InputError(f"{shown('contention')} {self.contention}: must be {ACCEPTED}") from None
        read_rules(shown("preempt"), self.preempt)
        for name in ("restart_s", "restart_per_gpu_s", "checkpoint_every_s"):
            value = getattr(self, name)
            if not value >= 0.0:
                raise InputError(f"{shown(name)} {value:g}: must not be negative")
            if value == float("inf") and name != "checkpoint_every_s":
                raise InputError(f"{shown(name)} inf: must be finite")


AnyConfig = TypeVar("AnyConfig", bound=WorldConfig)


def merge(base: AnyConfig, values: Mapping[str, Any]) -> AnyConfig:
    """The configuration with these values over its own: by field, `set.KEY` of its policy, `network.KEY`.

    Tables merge key by key; another policy leaves the settings of the present one behind.
    """
    if values.get("policy", base.policy) != base.policy:
        base = replace(base, settings={})
    plain = {
        name: value for name, value in values.items() if name.partition(".")[0] not in TABLES or "." not in name
    }
    for prefix, name in TABLES.items():
        stated = {key.partition(".")[2]: text for key, text in values.items() if key.startswith(f"{prefix}.")}
        plain[name] = {**getattr(base, name), **stated}
    return replace(base, **plain)


def setting_values(
    settings: Mapping[str, str], network_settings: Mapping[str, str], preempt: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Settings of a policy, of a network and of consent under the names that `merge` takes."""
    tables = {"set": settings, "network": network_settings, "preempt": preempt or {}}
    return {f"{prefix}.{key}": text for prefix, table in tables.items() for key, text in table.items()}


class World:
    """Topology, network, speeds, costs, queues and policy, from one configuration."""

    def __init__(self, config: WorldConfig, topology: Topology) -> None:
        self.config = config
        self.topology = topology
        self.built = Built(config.policy, config.settings)
        self.sample = self.built()  # InputError before anything is read if there is no such policy
        self.network = connect_topology(topology, config.network, config.network_settings, config.congestion)
        self.costs = Costs(config.restart_s, config.restart_per_gpu_s, config.checkpoint_every_s)
        self.profiles = profiles_of(config)
        self.speed = SpeedModel()
        self.speed.profiles = self.profiles
        if self.network is not None:
            still = quiet(topology, config.network, config.network_settings)
            assert still is not None
            sharing = self.sample.link_sharing if is_on(config.contention) else NO_CONTENTION
            self.speed = NetworkModel(self.network, still, self.profiles, sharing)

    def stand_ins(self) -> list[str]:
        """Models that jobs may be like which name none: those that gangs of any size can train."""
        names = load_profiles(Path(self.config.profiles)).models if self.config.profiles else shipped().models
        profiles = {name: self.profiles(name, ANY_SIZE) for name in names}
        return [name for name, one in profiles.items() if one.groups is None and one.tensor_parallel == 1]

    def on_types(self, jobs: list[Job]) -> dict[str, int]:
        """Let speeds differ by type of GPU, for these jobs and any that come; notes on what had to be assumed."""
        config = self.config
        self.speed, notes = on_types(
            self.speed, self.topology, config.gpu_speeds, config.profiles, config.gpu, jobs
        )
        return notes | idle_quotas(config.queues, jobs, self.topology)

    def policy(self, jobs: Sequence[Job] = ()) -> Policy:
        """The policy for these jobs and any that come."""
        return policy_for(self.built, self.config.queues, list(jobs), self.topology, self.network)

    def cluster(self) -> Cluster:
        """All its GPUs, free."""
        return Cluster(self.topology, self.network)

    def state(self) -> State:
        """The engine's state in which no job has come yet."""
        self.on_types([])
        state = State(self.cluster(), self.policy(), self.speed, self.costs)
        state.consent = self.consent()
        return state

    def consent(self) -> Consent | None:
        """Who may be preempted or moved; None: all jobs, as the policy decides."""
        rules = read_rules("preempt", self.config.preempt)
        return None if rules is None else Consent(rules, self.costs.checkpoint_every_s)


def profiles_of(config: WorldConfig | Inputs) -> Profiles:
    """(model, GPUs) to profile, each worked out once."""
    return Steps(config.gpu, load_profiles(Path(config.profiles)) if config.profiles else None)
