"""What the daemon schedules with: topology, network, speeds, costs and policy, from its configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dally.cluster.capacity import Cluster
from dally.cluster.network_spec import connect_topology, quiet
from dally.cluster.topology import Topology
from dally.engine.state import State
from dally.errors import InputError
from dally.model import Costs
from dally.perf.base import SpeedModel
from dally.perf.network_model import NetworkModel
from dally.perf.profiles import Steps, load_profiles
from dally.policies.registry import USUAL_POLICY, Built
from dally.runs.team_setup import on_types, policy_for

USUAL_MODEL = "resnet50"  # stands in where a job names no model: the commonest and a mild one


@dataclass(frozen=True)
class Setup:
    """How the cluster is to be scheduled."""

    policy: str = USUAL_POLICY
    settings: dict[str, str] = field(default_factory=dict)
    network: str = ""
    network_settings: dict[str, str] = field(default_factory=dict)
    congestion: str = ""
    gpu: str = "a100"
    profiles: str = ""  # a catalogue of the operator's own
    queues: str = ""  # a file of queues and quotas: docs/queues.md
    gpu_speeds: str = ""  # TYPE=SPEED,…: of GPU types against an A100, where profiles do not say
    usual_model: str = USUAL_MODEL
    restart_s: float = 0.0
    restart_per_gpu_s: float = 1.0
    checkpoint_every_s: float = 0.0


def empty_state(setup: Setup, topology: Topology) -> State:
    """The engine's state of a cluster on which nothing runs."""
    built = Built(setup.policy, setup.settings)
    network = connect_topology(topology, setup.network, setup.network_settings, setup.congestion)
    profiles = Steps(setup.gpu, load_profiles(Path(setup.profiles)) if setup.profiles else None)
    speed = SpeedModel()
    speed.profiles = profiles
    if network is not None:
        still = quiet(topology, setup.network, setup.network_settings)
        assert still is not None
        _known(profiles, setup.usual_model)
        speed = NetworkModel(network, still, profiles, built().sharing())
    speed, _ = on_types(speed, topology, setup.gpu_speeds, setup.profiles, setup.gpu, [])
    policy = policy_for(built, setup.queues, [], topology, network)
    costs = Costs(setup.restart_s, setup.restart_per_gpu_s, setup.checkpoint_every_s)
    return State(Cluster(topology, network), policy, speed, costs)


def _known(profiles: Steps, model: str) -> None:
    """InputError if the model that stands in for others is none: no job without one could be looked at."""
    try:
        profiles(model, 1)
    except InputError as error:
        raise InputError(f"gpu and usual_model: {error}") from None
