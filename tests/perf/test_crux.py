"""Links that serve jobs by GPU intensity: against hand-made cases and event by event."""

from __future__ import annotations

import random
from statistics import median

import pytest
from benchmarks.job_mixes import random_mix

from dally.perf.contention import Contention
from dally.perf.crux import LEAST_LEFT, CruxContention
from tests.perf.reference_sharing import priority_rates, shared_iteration_s
from tests.perf.test_cassini import on_links, together


def test_what_those_that_go_first_leave() -> None:
    contention = CruxContention(1)
    contention.add(0, on_links(1.0, 0.5, {0: 0.4}), -3.0)  # half of the time, 0.4 of the link
    contention.add(1, on_links(1.0, 0.5, {0: 0.4}), -2.0)
    low = on_links(1.0, 0.5)
    contention.add(2, low, -1.0)
    assert contention.comm_s(0) == contention.comm_s(1) == 0.5
    assert contention.comm_s(2) == pytest.approx(0.5 / (1.0 - 2 * 0.5 * 0.4))
    contention.add(3, on_links(1.0, 1.0), -4.0)  # it never pauses
    assert contention.comm_s(2) == pytest.approx(0.5 / LEAST_LEFT)


def test_intensity_is_gpu_time_for_each_second_of_communication() -> None:
    contention = CruxContention(1)
    thin, thick = on_links(1.0, 0.25), on_links(1.0, 0.5)
    assert contention.rank(0.0, 8, thin) == pytest.approx(-8 * 0.75 / 0.25)
    assert contention.rank(0.0, 16, thick) == pytest.approx(-16 * 0.5 / 0.5)
    hidden = on_links(1.0, 0.25)
    hidden.forward_s, hidden.backward_s, hidden.exposed_share = 0.0, 0.75, 0.0
    assert contention.rank(0.0, 8, hidden) == 0.0  # twice as long, it still hides
    assert CruxContention(1).rank(5.0, 8, on_links(1.0, 0.0)) == 0.0


def test_the_intense_go_first_and_equals_share() -> None:
    first, second = on_links(1.0, 0.5), on_links(2.0, 1.5)
    contention = CruxContention(1)
    contention.add(0, first, -2.0)
    contention.add(1, second, -1.0)
    assert contention.comm_s(0) == first.alone_s
    assert contention.comm_s(1) == pytest.approx(second.alone_s / 0.5, rel=0.05)  # half of the time it waits
    fair = together([first, second], Contention)
    assert contention.comm_s(0) < fair.comm_s(0)
    equal = together([first, second], CruxContention)
    assert [equal.comm_s(job) for job in (0, 1)] == pytest.approx([fair.comm_s(job) for job in (0, 1)])


def test_rates_by_priority() -> None:
    needs = [{0: 1.0}, {0: 0.5, 1: 1.0}, {1: 0.25}]
    assert priority_rates(needs, [2.0, 1.0, 3.0]) == pytest.approx([0.5, 1.0, 0.0])


def test_near_the_reference_on_random_mixes() -> None:
    rng = random.Random(5)
    errors: list[float] = []
    for _ in range(15):
        network, demands = random_mix(rng)
        contention = CruxContention(network.link_count())
        ranks = [contention.rank(0.0, 8, demand) + 1e-9 * job for job, demand in enumerate(demands)]
        for job, demand in enumerate(demands):
            contention.add(job, demand, ranks[job])
        starts_s = [rng.uniform(0.0, each.iteration_s(each.alone_s)) for each in demands]
        exact_s = shared_iteration_s(demands, starts_s, 40, ranks)
        errors += [abs(contention.iteration_s(job) / seconds - 1) for job, seconds in enumerate(exact_s)]
    assert median(errors) <= 0.02  # a job that others starve is off by far
    assert sum(errors) / len(errors) <= 0.15
