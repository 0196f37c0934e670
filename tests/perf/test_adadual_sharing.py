"""Links shared by AdaDUAL, against exact runs; test_contention.py has what every way of sharing keeps."""

from __future__ import annotations

import random

import pytest
from benchmarks.job_mixes import random_mix
from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.links import connect
from dally.cluster.presets import find_preset
from dally.cluster.topology import grid
from dally.errors import InputError
from dally.perf.adadual import BYTE_S, PENALTY_S, AdaDualContention
from dally.perf.cassini import CassiniContention
from dally.perf.contention import Contention
from dally.perf.costs import Cost
from dally.perf.crux import CruxContention
from dally.perf.iteration import Demand
from dally.perf.sharings import contention_of
from tests.perf.reference_adadual import PAIR, THRESHOLD, adadual_iteration_s


def on_one_link(transfer_s: float, compute_s: float) -> Demand:
    """A job that computes, then sends for so long over link 0, hiding nothing."""
    cost = Cost()
    cost.links = vec[i64]([0])
    cost.seconds = vec[float]([transfer_s])
    return Demand(compute_s, 0.0, cost, 1.0)


def shared(demands: list[Demand], links: int = 1) -> AdaDualContention:
    contention = AdaDualContention(links, tolerance=1e-12)
    for job, each in enumerate(demands):
        contention.add(job, each)
    return contention


def test_alone_nothing_changes() -> None:
    assert shared([on_one_link(2.0, 3.0)]).iteration_s(0) == pytest.approx(5.0)


def test_equal_jobs_hand_worked() -> None:
    # Two that send for 1 s after 3 s of compute. Neither ever overlaps: 1 > θ·1. The first goes first, so that it
    # only waits for what is in flight: 1/2 s in 1 of 4 cases. The second also waits while the first is in line.
    contention = shared([on_one_link(1.0, 3.0)] * 2)
    first_s = 1 + 0.5 / 4
    assert contention.comm_s(0) == pytest.approx(first_s)
    assert contention.comm_s(1) == pytest.approx(1 + (0.5 + first_s - 1) / (3 + first_s))


def test_short_beside_long_hand_worked() -> None:
    # 1 s of sending in 10, beside 20 s in 40. The short one overlaps when more than 1/θ = 2.6 s are left.
    # The long one waits 1/2 s in 1 of 10 cases when it begins, and is overlapped meanwhile.
    contention = shared([on_one_link(1.0, 9.0), on_one_link(20.0, 20.0)])
    short_s, long_s = contention.comm_s(0), contention.comm_s(1)
    assert short_s == pytest.approx(1 + (0.5 / THRESHOLD) * 20 / 40)
    guests_s = 1.0 * (20 - 1 / THRESHOLD) / (2 * THRESHOLD * 10)
    assert long_s == pytest.approx(20 + (0.5 + short_s - 1) / (9 + short_s) + guests_s)


def test_waits_on_different_links_overlap() -> None:
    # The job in the middle meets one on link 0 and one on link 1: it waits as if there were one of them.
    def on(*links: int) -> Demand:
        cost = Cost()
        cost.links = vec[i64](links)
        cost.seconds = vec[float]([1.0] * len(links))
        return Demand(3.0, 0.0, cost, 1.0)

    assert shared([on(0), on(1), on(0, 1)], 2).comm_s(2) == shared([on(0), on(0, 1)], 2).comm_s(1)


def test_who_has_least_service_left_goes_first() -> None:
    contention = AdaDualContention(1, tolerance=1e-12)
    for job, left_s in enumerate((900.0, 100.0, 500.0)):
        contention.add(job, on_one_link(1.0, 1.0), left_s)
    assert contention.comm_s(1) < contention.comm_s(2) < contention.comm_s(0)


def test_reference_of_one_and_of_two_by_hand() -> None:
    assert adadual_iteration_s([on_one_link(1.0, 3.0)], [0.0], 10) == pytest.approx([4.0])
    # Two that only send, 1 s each: they take turns.
    assert adadual_iteration_s([on_one_link(1.0, 1e-9)] * 2, [0.0, 0.0], 10) == pytest.approx([2.0, 2.0])
    # Sends 1 of 10 s, beside one that sends for 1000 s and never pauses: nearly always overlapped.
    short_s, _ = adadual_iteration_s([on_one_link(1.0, 9.0), on_one_link(1000.0, 1e-9)], [0.5, 0.0], 20)
    assert short_s == pytest.approx(9 + 1 / PAIR, rel=0.01)
    assert pytest.approx(2 + PENALTY_S / BYTE_S) == 1 / PAIR


def one_link_errors(rng: random.Random, count: int, mixes: int) -> list[float]:
    """Relative errors of iteration times, for mixes of so many jobs whose transfers differ up to 50-fold."""
    errors: list[float] = []
    for _ in range(mixes):
        times = [rng.choice((0.25, 1.0, 2.5, 5.0, 13.0)) * rng.uniform(0.8, 1.2) for _ in range(count)]
        demands = [on_one_link(seconds, seconds / 2 ** rng.uniform(-3, 2)) for seconds in times]
        starts = [rng.uniform(0.0, each.iteration_s(each.alone_s)) for each in demands]
        exact = adadual_iteration_s(demands, starts, 40)
        contention = shared(demands)
        errors += [contention.iteration_s(job) / seconds - 1 for job, seconds in enumerate(exact)]
    return errors


@pytest.mark.parametrize(("count", "most"), [(2, 0.07), (3, 0.11)])
def test_near_the_exact_run_on_one_link(count: int, most: float) -> None:
    errors = one_link_errors(random.Random(11), count, 40)
    assert sum(abs(error) for error in errors) / len(errors) <= most
    assert abs(sum(errors) / len(errors)) <= 0.06  # neither too long nor too short on the whole


def test_near_the_exact_run_on_random_networks() -> None:
    rng = random.Random(5)
    errors: list[float] = []
    for _ in range(15):
        cluster_network, demands = random_mix(rng)
        starts = [rng.uniform(0.0, each.iteration_s(each.alone_s)) for each in demands]
        exact = adadual_iteration_s(demands, starts, 40)
        contention = shared(demands, int(cluster_network.link_count()))
        errors += [abs(contention.iteration_s(job) / seconds - 1) for job, seconds in enumerate(exact)]
    assert sum(errors) / len(errors) <= 0.17


def test_ways_of_sharing_by_name() -> None:
    network = connect(grid(1, 2, 2), find_preset("ethernet-10g"))
    kinds = {"fair": Contention, "adadual": AdaDualContention, "cassini": CassiniContention, "crux": CruxContention}
    for name, kind in kinds.items():
        found = contention_of(name, network)
        assert type(found) is kind
        assert found.sharing() == name
        assert found.kappa == pytest.approx(1 + PENALTY_S / BYTE_S, rel=1e-3)
    with pytest.raises(InputError, match="unknown way of sharing links 'adaduel'; did you mean 'adadual'"):
        contention_of("adaduel", network)
