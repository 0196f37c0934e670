"""What the policy records of gangs that decline farther places: the tier on offer, and until when."""

from __future__ import annotations

import pytest

from dally.engine.simulate import Simulation
from dally.model import ACCEPT, INFINITY, OFFER, WAITING, Costs
from dally.policies.gate.pooled import make_gate
from dally.policies.registry import Built, build
from dally.quotas.tree import QueueNode, QueueTree
from dally.testing.strategies import Case

GRID: list[tuple[tuple[str, ...], int]] = [(("r0",), 2), (("r0",), 2), (("r1",), 2), (("r1",), 2)]
# Each machine has one GPU free from 100 s on, and nobody moves. Then a gang of 2 comes, which fits a machine.
GAPS = [(0.0, 1, 9000.0), (0.0, 1, 100.0)] * 4 + [(200.0, 2, 5000.0)]
STILL = {"preemption": "off", "compaction": "off", "migration": "off", "mixing": "off", "patient_price": "100"}


def gaps(given: dict[str, str], until_s: float) -> Simulation:
    case = Case(GRID, GAPS, network="ethernet-10g", costs=Costs(0.0, 1.0, 0.0))
    simulation = case.simulation(build("dally", STILL | given))
    simulation.go_on(until_s)
    return simulation


def rows(simulation: Simulation, kind: int) -> list[tuple[float, int, float, list[float]]]:
    """Time, tier, value and timers of the gang's records of that kind."""
    log = simulation.state.log.decisions
    ends = [0, *(int(end) for end in log.timer_ends)]
    timers_s = list(log.timers_s)
    return [
        (log.times[row], int(log.tiers[row]), log.values[row], timers_s[ends[row] : ends[row + 1]])
        for row in range(len(log))
        if log.kinds[row] == kind and log.jobs[row] == 8
    ]


def test_the_delay_is_recorded_once_and_ends_when_it_said() -> None:
    simulation = gaps({}, 9000.0)
    gang = simulation.jobs[8]
    ((time_s, tier, _, delays_s),) = rows(simulation, OFFER)
    assert (time_s, tier) == (200.0, 1)
    assert 0.0 < delays_s[0] < INFINITY
    ((start_s, taken, delay_s, _),) = rows(simulation, ACCEPT)
    assert (start_s, taken) == (gang.start_s, 1)
    assert delay_s == pytest.approx(delays_s[0], rel=0.1)
    assert 0.0 <= gang.start_s - (gang.lost_s + delay_s) <= 300.0  # it is looked at every 300 s


def test_why_says_until_when() -> None:
    simulation = gaps({}, 250.0)
    gang = simulation.jobs[8]
    assert gang.status == WAITING
    reason = simulation.state.policy.why(gang)
    assert reason.waits_for == "closer GPUs than one domain of tier 1"
    assert gang.lost_s < reason.until_s < INFINITY
    assert reason.changed_by == "closer GPUs become free"


def test_a_place_that_no_wait_pays_for_is_never_taken() -> None:
    simulation = gaps({"patient_price": "1"}, 250.0)
    assert simulation.state.policy.why(simulation.jobs[8]).until_s == INFINITY


def test_an_override_is_the_delay() -> None:
    simulation = gaps({}, 150.0)
    simulation.jobs[8].delay_until_s = 700.0
    simulation.go_on(250.0)
    assert simulation.state.policy.why(simulation.jobs[8]).until_s == 700.0
    assert rows(simulation, OFFER) == [(200.0, 1, 0.0, [500.0, 500.0])]


def test_who_runs_waits_for_nothing() -> None:
    simulation = gaps({}, 250.0)
    assert simulation.state.policy.why(simulation.jobs[0]).waits_for == "nothing: it does not wait"


def test_under_a_gate_the_same_is_recorded() -> None:
    case = Case(GRID, GAPS, network="ethernet-10g", costs=Costs(0.0, 1.0, 0.0))
    plain = case.simulation(build("dally", STILL))
    tree = QueueTree([QueueNode("a")])
    gate = make_gate(tree, Built("dally", STILL), plain.state.cluster.topology, plain.state.cluster.network)
    simulation = case.simulation(gate)
    simulation.go_on(250.0)
    ((_, tier, _, delays_s),) = rows(simulation, OFFER)
    assert tier == 1
    assert 0.0 < delays_s[0] < INFINITY
    assert simulation.state.policy.why(simulation.jobs[8]).waits_for == "closer GPUs than one domain of tier 1"
