"""`dally-paper` decides as the literal Dally does, job by job."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dally.benchmark.cells import Cell, prepare
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.model import Costs
from dally.policies.registry import build
from dally.runs.assemble import assemble
from dally.testing import record_of
from dally.testing.strategies import Case, cases
from tests.examples import many
from tests.policies.literal_dally import LiteralDally

INF = float("inf")
DAY_S = 86400.0
# name, tuner, floors in leases
VARIANTS = {
    "dally-paper": (True, (6.0, 12.0)),
    "dally-paper-manual": (False, (6.0, 12.0)),
    "dally-paper-nowait": (False, (0.0,)),
    "dally-paper-consolidated": (False, (INF,)),
}


def events_of(simulation: Simulation) -> list[tuple[float, str, int, list[tuple[int, int]]]]:
    """All that happened but the clock going off."""
    rows = record_of(simulation).events
    return [(row.time_s, row.kind, row.job, row.parts) for row in rows if row.kind != "timer"]


@settings(max_examples=many(60), suppress_health_check=list(HealthCheck))
@given(
    cases(constraints_too=False),
    st.sampled_from(sorted(VARIANTS)),
    st.sampled_from([7.0, 50.0, 600.0]),
    st.booleans(),
)
def test_random_workloads(case: Case, name: str, lease_s: float, short: bool) -> None:
    # Uneven trees, failures, networks. Short floors make timers run out within these runs, and the tuner set them.
    tuner, floors = VARIANTS[name]
    given_settings = {"lease_s": str(lease_s)}
    if short and floors == (6.0, 12.0):
        floors = (1.0, 2.0)
        given_settings["floors"] = "1,2"
    fast = case.run(build(name, given_settings))
    literal = case.run(LiteralDally(lease_s, floors, tuner))
    assert events_of(fast) == events_of(literal)
    assert [job.finish_s for job in fast.jobs] == [job.finish_s for job in literal.jobs]


@pytest.mark.once
@pytest.mark.parametrize("network", ["normal", "congested"])
@pytest.mark.parametrize("seed", range(10))
def test_crowded_workloads(network: str, seed: int) -> None:
    # 60 gangs on two racks of two machines of 4 GPUs, more than fit; leases of 60 s end all the time.
    draw = Random(seed)
    jobs = [
        (float(draw.randrange(400)), draw.choice([1, 2, 3, 4, 6, 8, 12]), draw.uniform(20, 600)) for _ in range(60)
    ]
    case = Case(
        [((rack,), 4) for rack in "aabb"],
        sorted(jobs),
        outages=[(draw.randrange(4), 300.0, 700.0), (draw.randrange(4), 2000.0, 2100.0)],
        costs=Costs(0.0, 1.0, 30.0),
        network=network,
    )
    fast = case.run(build("dally-paper", {"lease_s": "60", "floors": "1,3"}))
    literal = case.run(LiteralDally(60.0, (1.0, 3.0), True))
    assert events_of(fast) == events_of(literal)
    assert sum(job.preemptions for job in fast.jobs) > 20
    assert sum(job.renewals for job in fast.jobs) > 20


@pytest.mark.once
@pytest.mark.parametrize("network", ["slow"])
def test_a_day_of_venus(network: str, shared: Path, tmp_path: Path) -> None:
    prepared = prepare("venus80", 1, shared, tmp_path)
    scenario = Cell("venus80", network, 1).scenario(prepared, "dally-paper", {})
    fast, _ = assemble(scenario)
    same, _ = assemble(scenario)
    state = same.state
    literal = Simulation(
        same.jobs, state.cluster, LiteralDally(3600.0, (6.0, 12.0), True), state.speed, state.costs, Failures()
    )
    first_s = fast.jobs[0].submit_s
    for simulation in (fast, literal):
        simulation.run(first_s + DAY_S)
    assert events_of(fast) == events_of(literal)
    assert sum(job.start_s >= 0.0 for job in fast.jobs) > 100
