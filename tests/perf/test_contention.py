"""The fast contention model: against hand-made cases, against itself from scratch, against max-min sharing."""

from __future__ import annotations

import random
from math import pi

import pytest
from benchmarks.job_mixes import random_mix
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.vecs import vec
from mypy_extensions import i64

from dally import Cluster, Profile, iteration_times
from dally.cluster.links import Network, connect
from dally.cluster.presets import find_preset
from dally.cluster.topology import grid
from dally.perf.adadual import AdaDualContention
from dally.perf.contention import Contention, longer, slowdown
from dally.perf.costs import Cost
from dally.perf.crux import CruxContention
from dally.perf.iteration import Demand, demand_of
from dally.perf.queries import placed
from tests.examples import many
from tests.perf.racks import network_of, two_racks
from tests.perf.reference_sharing import max_min_rates, shared_iteration_s


def network() -> Network:
    return network_of(two_racks(4))


def demand(placement: dict[int, int], compute_s: float = 0.01, nbytes: float = 1e8, overlap: float = 0.0) -> Demand:
    return demand_of(network(), placed(network(), placement), Profile(compute_s, nbytes, overlap))


def test_alone_nothing_changes() -> None:
    contention = Contention(network().link_count())
    job = demand({0: 8, 1: 8})
    assert contention.add(7, job) == [7]
    assert contention.comm_s(7) == pytest.approx(job.alone_s, rel=1e-12)
    assert contention.add(3, demand({2: 8, 3: 8})) == [3]  # no link in common
    assert contention.remove(7) == []


def test_two_that_never_compute_halve_the_link() -> None:
    contention = Contention(network().link_count(), tolerance=1e-12)
    pair = demand({0: 4, 1: 4}, compute_s=0.0)
    pair.cost.fixed_s = pair.cost.private_s = 0.0  # nothing but the link
    pair = Demand(0.0, 0.0, pair.cost, 1.0)
    assert contention.add(1, pair) == [1]
    assert contention.add(2, pair) == [1, 2]
    assert contention.comm_s(1) == pytest.approx(2 * pair.alone_s)
    assert contention.remove(2) == [1]
    assert contention.comm_s(1) == pytest.approx(pair.alone_s)


def test_slowdown_is_exact_when_others_never_pause() -> None:
    assert slowdown(3.0, 0.0) == 4.0
    # One other, there half of the time: between 1/E[speed] = 4/3 and E[slowdown] = 3/2.
    assert 4 / 3 <= slowdown(0.5, 0.25) <= 3 / 2


def test_longer_is_exact_far_from_full() -> None:
    assert longer(0.5, 0.0) == 1.0
    assert longer(1.7, 0.0) == pytest.approx(1.7)
    # A standard deviation of 0.1 around 1: E[max(1, X)] = 1 + 0.1/√(2π) for a bell curve.
    assert longer(1.0, 0.01) == pytest.approx(1 + 0.1 / (2 * pi) ** 0.5)


def test_the_penalty_of_sharing() -> None:
    # AdaDUAL's 10 Gb Ethernet: two transfers that never pause take 2b + η a byte, not 2b.
    cluster = Cluster(grid(1, 2, 4), connect(grid(1, 2, 4), find_preset("ethernet-10g")))
    together = iteration_times(cluster, [(Profile(0.0, 1e9, 0.0), {0: 2, 1: 2})] * 2)
    alone = iteration_times(cluster, [(Profile(0.0, 1e9, 0.0), {0: 2, 1: 2})])
    assert together[0] / alone[0] == pytest.approx(2.3, rel=0.01)


def test_a_gang_held_up_elsewhere_leaves_its_share_to_others() -> None:
    # b crosses link 0, where a is, and link 1, where four others never pause: a fifth of link 0 is left to b.
    def on(links: list[int]) -> Demand:
        cost = Cost()
        cost.links = vec[i64](links)
        cost.seconds = vec[float]([1.0] * len(links))
        return Demand(0.0, 0.0, cost, 1.0)

    contention = Contention(2, tolerance=1e-9)
    for job, links in enumerate(([0], [0, 1], [1], [1], [1], [1])):
        contention.add(job, on(links))
    assert contention.comm_s(1) == pytest.approx(5.0)
    assert contention.comm_s(0) == pytest.approx(1 / (1 - 1 / 5))
    assert contention.comm_s(2) == pytest.approx(5.0)
    # The same as max-min sharing event by event; and a was better off when b was held up.
    assert 1 / max_min_rates([{0: 1.0}, {0: 1.0, 1: 1.0}, *[{1: 1.0}] * 4])[0] == pytest.approx(1.25)
    for job in (2, 3, 4, 5):
        contention.remove(job)
    assert contention.comm_s(0) == pytest.approx(2.0)


def test_hidden_communication_costs_nothing_until_it_sticks_out() -> None:
    hidden = demand({0: 8, 4: 8}, compute_s=1.0, overlap=1.0)
    assert hidden.iteration_s(hidden.alone_s) == pytest.approx(1.0)
    assert hidden.iteration_s(0.9) == pytest.approx(1 / 3 + 0.9)


def test_iteration_times_of_the_issue() -> None:
    profile = Profile(compute_s=0.0073, nbytes=52_428_800, overlap=0.0)
    alone, beside = (
        iteration_times(two_racks(4), [(profile, {0: 8, 4: 8}), *extra])[0]
        for extra in ([], [(profile, {1: 8, 5: 8})])
    )
    inside = 14e-6 + 1.75 * 52_428_800 / 300e9  # 7 steps of two hops each way
    assert alone == pytest.approx(0.0073 + inside + 20e-6 + 52_428_800 / 25e9)
    assert beside > alone  # they meet on the racks' uplinks


def test_max_min_rates() -> None:
    assert max_min_rates([{0: 1.0}, {0: 1.0}]) == pytest.approx([0.5, 0.5])
    assert max_min_rates([{0: 1.0}, {0: 0.2}]) == pytest.approx([0.8, 1.0])
    # The second is held to a half by link 1, needs half of that on link 0, and leaves the rest.
    assert max_min_rates([{0: 1.0}, {0: 0.5, 1: 1.0}, {1: 1.0}]) == pytest.approx([0.75, 0.5, 0.5])


def test_reference_alone_and_in_lockstep() -> None:
    job = demand({0: 8, 4: 8})
    whole = job.iteration_s(job.alone_s)
    assert shared_iteration_s([job], [0.0], 10) == pytest.approx([whole])
    # Two equal jobs that start together stay together: each transfer takes twice as long.
    transfer = job.alone_s - job.cost.fixed_s
    together = shared_iteration_s([job, demand({1: 8, 5: 8})], [0.0, 0.0], 10)
    assert together == pytest.approx([whole + transfer] * 2)


def test_near_the_reference_on_random_mixes() -> None:
    rng = random.Random(5)
    errors = []
    for _ in range(15):
        cluster_network, demands = random_mix(rng)
        contention = Contention(cluster_network.link_count())
        for job, each in enumerate(demands):
            contention.add(job, each)
        starts = [rng.uniform(0.0, each.iteration_s(each.alone_s)) for each in demands]
        exact = shared_iteration_s(demands, starts, 40)
        errors += [abs(contention.iteration_s(job) / seconds - 1) for job, seconds in enumerate(exact)]
    assert sum(errors) / len(errors) <= 0.05


# Properties, on jobs that share a small cluster.

jobs = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 7), st.integers(1, 2), min_size=2, max_size=6),
        st.floats(1e-3, 1.0),
        st.floats(1e6, 1e9),
        st.floats(0.0, 1.0),
    ),
    min_size=2,
    max_size=8,
)
Drawn = list[tuple[dict[int, int], float, float, float]]


SHARINGS = (Contention, AdaDualContention)


def settled(demands: list[Demand], sharing: type[Contention]) -> Contention:
    contention = sharing(network().link_count(), tolerance=1e-12)
    for job, each in enumerate(demands):
        contention.add(job, each, contention.rank(0.0, 8, each))
    return contention


@pytest.mark.parametrize("sharing", SHARINGS)
@given(jobs)
@settings(max_examples=many(60), deadline=None)
def test_one_more_job_never_lowers_a_ceiling(sharing: type[Contention], drawn: Drawn) -> None:
    demands = [demand(*each) for each in drawn]
    before, after = settled(demands[:-1], sharing), settled(demands, sharing)
    for job in range(len(demands) - 1):
        assert before.flows[job].rough_s <= after.flows[job].rough_s * (1 + 1e-9)
        assert demands[job].alone_s * (1 - 1e-9) <= after.comm_s(job)


@pytest.mark.parametrize("sharing", SHARINGS)
@given(jobs)
@settings(max_examples=many(60), deadline=None)
def test_one_more_job_on_the_same_machines_is_never_faster(sharing: type[Contention], drawn: Drawn) -> None:
    # Where nobody is held up elsewhere by a job that does not hold up the others too.
    demands = [demand({0: 1, 1: 1}, *each[1:]) for each in drawn]
    before, after = settled(demands[:-1], sharing), settled(demands, sharing)
    for job in range(len(demands) - 1):
        assert before.comm_s(job) <= after.comm_s(job) * (1 + 1e-9)


@pytest.mark.parametrize("sharing", [*SHARINGS, CruxContention])
@given(jobs, st.randoms(use_true_random=False))
@settings(max_examples=many(60), deadline=None)
def test_incremental_equals_from_scratch(sharing: type[Contention], drawn: Drawn, rng: random.Random) -> None:
    demands = [demand(*each) for each in drawn]
    contention = sharing(network().link_count(), tolerance=1e-12)
    running: list[int] = []
    known: dict[int, float] = {}
    for _ in range(3 * len(demands)):
        job = rng.randrange(len(demands))
        if job in running:
            running.remove(job)
            del known[job]
            changed = contention.remove(job)
        else:
            running.append(job)
            changed = contention.add(job, demands[job], contention.rank(0.0, 8, demands[job]))
        assert changed == sorted(changed)
        known |= {each: contention.comm_s(each) for each in changed}
        scratch = settled([demands[each] for each in sorted(running)], sharing)
        fresh = {each: scratch.comm_s(place) for place, each in enumerate(sorted(running))}
        assert known == pytest.approx(fresh, rel=1e-8)  # those it did not name did not change


def test_order_of_arrival_does_not_matter() -> None:
    rng = random.Random(3)
    cluster_network, demands = random_mix(rng)
    times = []
    for order in (range(len(demands)), reversed(range(len(demands)))):
        contention = Contention(cluster_network.link_count(), tolerance=1e-9)
        for job in order:
            contention.add(job, demands[job])
        times.append([contention.iteration_s(job) for job in range(len(demands))])
    assert times[0] == pytest.approx(times[1], rel=1e-6)


def test_a_change_elsewhere_reaches_nobody() -> None:
    """Cost per change: only flows on the changed links are looked at."""
    cluster = Cluster.grid(racks=50, machines=2, gpus=8, intra_gbps=300, nic_gbps=25, ideal=True)
    wide = cluster.network
    assert wide is not None
    contention = Contention(wide.link_count())
    pairs = [
        demand_of(wide, placed(wide, {2 * rack: 4, 2 * rack + 1: 4}), Profile(0.01, 1e8)) for rack in range(50)
    ]
    for job in range(100):
        changed = contention.add(job, pairs[job % 50])
        assert changed == ([job - 50, job] if job >= 50 else [job])
    assert contention.remove(99) == [49]
