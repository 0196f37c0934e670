"""A what-if as it is asked, checked before anything is run, and its whole answer as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dally.cluster.links import has_links
from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.metrics.row import Row
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run
from dally.sweep.whatif import NO_NETWORK, Answer, Question, known_network
from dally.traces import History


class Posed(NamedTuple):
    """The question, the cluster that is there, and whether its network had to be assumed."""

    question: Question
    topology: Topology
    network_assumed: bool


def pose(
    base: Scenario, network: str, policy: Chosen, seeds: Sequence[int], delta: str = "", new_network: str = ""
) -> Posed:
    """The question about jobs that run as the base says; what is wrong with the input is said here."""
    topology = read_topology(base.cluster)
    preset, assumed = known_network(topology, network or base.network)
    if network == NO_NETWORK and base.network_settings:
        raise InputError("--network none and --set-network: give one of them")
    base = replace(base, network=preset)
    assemble(base)
    return Posed(Question(base, policy, seeds, delta.strip(), new_network), topology, assumed)


def values_of(
    posed: Posed, history: History, runs: Sequence[Run], rows: Sequence[Row], found: Answer
) -> dict[str, Any]:
    """whatif.json: the answer, and what it stands on."""
    question, topology = posed.question, posed.topology
    current, new = question.labels()
    network = question.current.network
    return {
        "current": current,
        "new": new,
        "network": network,
        "network_assumed": posed.network_assumed,
        "mix": question.current.mix,
        "seeds": question.seeds,
        "models_assumed": sum(not row.model for row in history.rows) if network or has_links(topology) else 0,
        "gpus": [topology.total_gpus(), read_topology(runs[-1].scenario.cluster).total_gpus()],
        "skipped": rows[0]["skipped"],
        "no_longer_fit": rows[-1]["skipped"] if question.changes_cluster() else 0,
        **found.to_values(),
    }
