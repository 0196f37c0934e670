"""What would be different, checked: a set-up and a topology beside today's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from dally.cluster.delta import change, without_links
from dally.cluster.links import has_links
from dally.cluster.network_spec import connect_topology
from dally.cluster.presets import find_preset
from dally.cluster.topology import Topology
from dally.errors import InputError, unknown
from dally.live.config import Setup
from dally.policies.registry import all_policies, build, find
from dally.sweep.policy_list import Chosen

MOST_TIMES: Final = 10  # as large as today may the other cluster be


@dataclass(frozen=True)
class AskedChange:
    """What somebody wants to know the effect of; what is empty stays as it is."""

    policy: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    cluster_delta: str = ""
    network: str = ""
    network_settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """A cluster and how it is scheduled."""

    setup: Setup
    topology: Topology
    label: str


def today(setup: Setup, topology: Topology) -> Stage:
    """As it is."""
    return Stage(setup, topology, Chosen(setup.policy, setup.settings).label())


def changed(asked: AskedChange, now: Stage) -> Stage:
    """As it would be; InputError for what cannot be."""
    setup, topology = now.setup, now.topology
    if asked.policy or asked.settings:
        policy = asked.policy or setup.policy
        kept = setup.settings if policy == setup.policy else {}
        setup = replace(setup, policy=policy, settings={**kept, **asked.settings})
        _check_policy(setup, now.setup)
    if asked.network or asked.network_settings:
        setup, topology = _on_network(asked, setup, topology)
    if asked.cluster_delta:
        topology = change(topology, asked.cluster_delta)
        most = MOST_TIMES * now.topology.total_gpus()
        if topology.total_gpus() > most:
            raise InputError(f"--cluster-delta {asked.cluster_delta!r}: makes more than {most:,} GPUs")
    connect_topology(topology, setup.network, setup.network_settings, setup.congestion)
    words = [Chosen(setup.policy, setup.settings).label()]
    words += [asked.cluster_delta] if asked.cluster_delta else []
    words += [f"network {asked.network}"] if asked.network else []
    words += [f"{key}={value}" for key, value in asked.network_settings.items()]
    return Stage(setup, topology, ", ".join(words))


def _check_policy(setup: Setup, now: Setup) -> None:
    """InputError unless it can be built. Code and files that the daemon does not use yet are not loaded for it."""
    known = all_policies()[0]
    if setup.policy != now.policy and setup.policy not in known:
        raise unknown("policy", setup.policy, list(known))
    for name in find(setup.policy).files:
        if setup.settings.get(name) and setup.settings.get(name) != now.settings.get(name):
            raise InputError(f"--set {name}={setup.settings[name]}: names a file: only `dally whatif` reads those")
    build(setup.policy, setup.settings)


def _on_network(asked: AskedChange, setup: Setup, topology: Topology) -> tuple[Setup, Topology]:
    """Another preset replaces links that the topology states, and leaves today's settings behind."""
    if not setup.network and not setup.network_settings and not has_links(topology):
        raise InputError(
            f"--network {asked.network}: today no network is known, so there is nothing to compare it with"
        )
    if asked.network:
        find_preset(asked.network)
        return replace(setup, network=asked.network, network_settings=dict(asked.network_settings)), without_links(
            topology
        )
    return replace(setup, network_settings={**setup.network_settings, **asked.network_settings}), topology


def check_sizes(sizes: Iterable[tuple[str, int]], stage: Stage) -> None:
    """InputError if a job, named with its GPUs, would not fit."""
    most = stage.topology.total_gpus()
    for job_id, gpus in sizes:
        if gpus > most:
            raise InputError(f"{stage.label}: job {job_id} asks for {gpus} GPUs and the cluster would have {most}")
