"""A scenario: everything that defines a run, and how to run it again."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from dally.cluster.capacity import Cluster
from dally.cluster.links import Network
from dally.cluster.network_spec import connect_topology, quiet
from dally.cluster.spec import cluster_files, read_topology
from dally.cluster.topology import Topology
from dally.engine.failures import Failures, ListedFailures, RandomFailures
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.model import Costs, Profile
from dally.perf.base import SpeedModel
from dally.perf.catalogue import Catalogue
from dally.perf.closest import closest_placement, placement_at
from dally.perf.iteration import demand_of
from dally.perf.network_model import NetworkModel
from dally.perf.profiles import find_profile, load_profiles, shipped
from dally.policies.registry import build
from dally.traces import Trace, companions, read_outages, read_trace
from dally.traces.mixes import assign_models, find_mix


@dataclass
class Scenario:
    """The inputs of one run, as scenario.toml holds them. Files are named by absolute path and digest."""

    trace: str
    cluster: str
    policy: str
    settings: dict[str, str] = field(default_factory=dict)
    seed: int = 1
    until_s: float = float("inf")
    skip_impossible: bool = False
    restart_s: float = 0.0
    restart_per_gpu_s: float = 1.0
    checkpoint_every_s: float = 0.0
    failures: str = ""
    failure_rate: float = 0.0  # per machine and day
    repair_s: float = 3600.0
    network: str = ""  # a preset; without it, and without links in the cluster file, all places are equal
    network_settings: dict[str, str] = field(default_factory=dict)
    congestion: str = ""
    mix: str = "benchmark"  # gives models to jobs that name none, where speed depends on them
    gpu: str = "a100"
    profiles: str = ""  # a catalogue of the user's own
    trace_format: str = "auto"  # told by the trace's content
    strict: bool = False  # rows of the trace that cannot be used are errors
    zone: str = "UTC"  # of local times in the trace
    digests: dict[str, str] = field(default_factory=dict)  # sha256 by file name

    def simulation(self) -> tuple[Simulation, int]:
        """The run, ready to go, and how many impossible jobs were left out."""
        simulation, trace = self.prepare()
        return simulation, trace.skipped

    def prepare(self) -> tuple[Simulation, Trace]:
        """The run, ready to go, and the trace it runs: what of it could not be used."""
        self._check()
        policy = build(self.policy, self.settings)
        topology = read_topology(self.cluster)
        failures = self._failures(topology.machine_numbers)
        network = connect_topology(topology, self.network, self.network_settings, self.congestion)
        trace = read_trace(
            Path(self.trace), topology.total_gpus(), self.skip_impossible, self.trace_format, self.strict, self.zone
        )
        speed = self._speed(topology, network, trace, policy.sharing())
        costs = Costs(self.restart_s, self.restart_per_gpu_s, self.checkpoint_every_s)
        cluster = Cluster(topology, network)
        return Simulation(trace.jobs, cluster, policy, speed, costs, failures), trace

    def _speed(self, topology: Topology, network: Network | None, trace: Trace, sharing: str) -> SpeedModel:
        """The speed model; it also turns what the trace says of a job's length into its duration."""
        profiles = self._profiles()
        speed = SpeedModel()
        speed.profiles = profiles
        if network is None and trace.length == "duration_s":
            return speed
        assign_models(trace.jobs, self.mix, self.seed)
        if network is not None:
            quiet_network = quiet(topology, self.network, self.network_settings)
            assert quiet_network is not None
            speed = NetworkModel(network, quiet_network, profiles, sharing)
        for job in trace.jobs:
            try:
                profile = profiles(job.model, int(job.gpus))
            except InputError as error:
                raise InputError(f"{self.trace}: job {job.job_id!r}: {error}") from None
            if network is not None:
                job.group = profile.tensor_parallel
            if trace.length == "iterations":
                job.duration_s *= profile.compute_s()
            if trace.length != "duration_s":
                job.duration_s = speed.closest_s(job, job.duration_s)
        return speed

    def tier_slowdowns(self, model: str, gpus: int) -> list[float]:
        """How much slower such a gang runs at each tier, alone; 0 where it cannot be; [] without a network."""
        topology = read_topology(self.cluster)
        network = connect_topology(topology, self.network, self.network_settings, self.congestion)
        still = quiet(topology, self.network, self.network_settings)
        if network is None or still is None or not model:
            return []
        profile = self._profiles()(model, gpus)
        best = demand_of(still, closest_placement(still, gpus), profile)
        best_s = best.iteration_s(best.alone_s)
        found: list[float] = []
        for tier in range(len(topology.tiers)):
            gang = placement_at(network, gpus, tier)
            if gang is None:
                found.append(0.0)
                continue
            here = demand_of(network, gang, profile)
            found.append(here.iteration_s(here.alone_s) / best_s if best_s > 0.0 else 1.0)
        return found

    def _profiles(self) -> Callable[[str, int], Profile]:
        """(model, GPUs) to profile, each worked out once; the catalogue is read when first asked."""

        @cache
        def catalogue() -> Catalogue:
            return load_profiles(Path(self.profiles)) if self.profiles else shipped()

        @cache
        def profile_of(model: str, gpus: int) -> Profile:
            return find_profile(model, self.gpu, catalogue=catalogue()).step(gpus)

        return profile_of

    def _failures(self, machines: Callable[[], dict[str, int]]) -> Failures:
        if self.failures and self.failure_rate:
            raise InputError("failures come from a file or at a rate, not both")
        if self.failures:
            return ListedFailures(read_outages(Path(self.failures), machines()))
        if self.failure_rate:
            return RandomFailures(self.failure_rate, self.repair_s, self.seed)
        return Failures()

    def _check(self) -> None:
        find_mix(self.mix)
        for name in ("until_s", "restart_s", "restart_per_gpu_s", "checkpoint_every_s", "failure_rate"):
            if not getattr(self, name) >= 0.0:
                raise InputError(f"{_option(name)} {getattr(self, name):g}: must not be negative")
        if not 0.0 < self.repair_s < float("inf"):
            raise InputError(f"{_option('repair_s')} {self.repair_s:g}: must be more than 0 and finite")
        for name in ("restart_s", "restart_per_gpu_s", "failure_rate"):
            if getattr(self, name) == float("inf"):
                raise InputError(f"{_option(name)} inf: must be finite")
        for name, digest in self.digests.items():
            if file_digest(name) != digest:
                raise InputError(f"{name}: has changed since the scenario was written")

    def files(self) -> list[str]:
        """The files it reads."""
        named = [self.trace, self.failures, self.profiles, *cluster_files(self.cluster)]
        beside = companions(Path(self.trace), self.trace_format) if self.trace else []
        return [name for name in named if name] + [str(path) for path in beside]

    def to_toml(self) -> str:
        """The text of scenario.toml."""
        values = asdict(self)
        for name in ("trace", "cluster", "failures", "profiles"):
            if values[name] in self.files():
                values[name] = str(Path(values[name]).resolve())
        values["digests"] = {str(Path(name).resolve()): file_digest(name) for name in self.files()}
        tables = {name: values.pop(name) for name in ("settings", "network_settings", "digests")}
        lines = [f"{name} = {_toml(value)}" for name, value in values.items()]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(f"{_toml(key)} = {_toml(value)}" for key, value in table.items())]
        return "\n".join(lines) + "\n"


def read_scenario(path: Path) -> Scenario:
    """The scenario that the file describes."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    known = {item.name: item.type for item in fields(Scenario)}
    for name, value in values.items():
        if name not in known:
            raise InputError(f"{path}: {name}: unknown; known: {', '.join(known)}")
        if not _fits(value, str(known[name])):
            raise InputError(f"{path}: {name}: {value!r}: must be of type {known[name]}")
        if known[name] == "float":
            values[name] = float(value)
    for name in ("trace", "cluster", "policy"):
        if name not in values:
            raise InputError(f"{path}: {name}: missing")
    return Scenario(**values)


def _fits(value: object, wanted: str) -> bool:
    if wanted == "dict[str, str]":
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    if wanted == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value).__name__ == wanted


def _option(name: str) -> str:
    """The option that sets a field."""
    short = {"until_s": "until", "checkpoint_every_s": "checkpoint-every"}.get(name, name)
    return "--" + short.replace("_", "-")


def file_digest(name: str) -> str:
    """The SHA-256 of a file."""
    try:
        with open(name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None


def _toml(value: Any) -> str:
    """A TOML value. Strings go in as JSON strings, which TOML reads the same way."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c for c in escaped) + '"'
    return repr(value)
