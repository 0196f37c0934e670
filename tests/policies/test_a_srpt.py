"""A-SRPT by hand: what the virtual machine lets go when, and what the cluster makes of it."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.model import START, Costs
from dally.policies.a_srpt import VirtualMachine
from dally.policies.prediction.named import PREDICTORS
from dally.policies.registry import build
from dally.testing import check_policy
from dally.testing.strategies import Case
from tests.examples import many
from tests.policies.test_schedules import Row, schedules

FREE = Costs(0.0, 0.0, 0.0)
ORACLE = {"predictor": "oracle"}
EARLY = {"predictor": "oracle", "early": "on"}

# name, policy, settings, machines of one rack, jobs (submit, gpus, duration), expected (first start, finish).
# The virtual machine does the work of all 8 GPUs: a job takes it gpus / 8 x predicted seconds.
TABLE: list[Row] = [
    # Sizes 10, 2, 1. Virtual: j0 0-2, j1 from 2 (2 < 8 left), j2 comes at 3 and ties with j1 (1 left each): the
    # first submitted goes on. j1 leaves at 4, j2 at 5, j0 at 13. Real: j1 4-8, j2 needs all GPUs: 8-9, j0 13-23.
    ("departures", "a-srpt", ORACLE, [8], [(0, 8, 10), (2, 4, 4), (3, 8, 1)], [(13, 23), (4, 8), (8, 9)]),
    # The same jobs, early: j0 takes the idle GPUs at 0 and keeps them; j1 and j2 left at 4 and 5, in that order.
    ("early", "a-srpt", EARLY, [8], [(0, 8, 10), (2, 4, 4), (3, 8, 1)], [(0, 10), (10, 14), (14, 15)]),
    # Sizes 2, 3, 5, 6: they leave at 2, 5, 10, 16. j2 needs 8 GPUs at 10, j1 holds 2 until 17: it is passed over by
    # j3, which starts when it leaves at 16 and holds 2 until 40.
    ("passed over", "a-srpt", ORACLE, [8], [(0, 8, 2), (0, 2, 12), (0, 8, 5), (0, 2, 24)],
     [(2, 4), (5, 17), (40, 45), (16, 40)]),
    # Early, everyone at once, least virtual work first: j3 (1.5) starts; j1 (2) needs 8 GPUs and is passed over by
    # j2 (3), which holds 4 until 6. Then j1, then j0 (4).
    ("early order", "a-srpt", EARLY, [8], [(0, 8, 4), (0, 8, 2), (0, 4, 6), (0, 4, 3)],
     [(8, 12), (6, 8), (0, 6), (0, 3)]),
    # Without predictions everybody leaves at once: order of submission.
    ("no predictions", "a-srpt", {"predictor": "none"}, [8], [(0, 8, 10), (1, 8, 9), (2, 8, 2)],
     [(0, 10), (10, 19), (19, 21)]),
    # History: nothing is known of j0: 0-4. j1 is predicted 4 s (its user and size), virtual 4; j2 has a size never
    # seen: the median of all, 4 s, virtual 2. Virtual: j1 5-6, j2 6-8 (2 < 3 left), j1 8-11.
    ("predicted", "a-srpt", {"predictor": "history"}, [8], [(0, 8, 4), (5, 8, 6), (6, 4, 2)],
     [(0, 4), (11, 17), (8, 10)]),
    # srtf on history: j1 is predicted 3 s like j0, and so is j2. At 8 j1 outlasts that: 6 s, 3 left, a tie. At 11
    # it outlasts 6 s: 12, so 6 are left, and j2 takes the GPU. j1 comes back at 13 and works its last 4 s.
    ("outlasted", "srtf", {"predictor": "history"}, [1], [(0, 1, 3), (5, 1, 10), (6, 1, 2)],
     [(0, 3), (5, 17), (11, 13)]),
    # srsf on history: both waiting are predicted 10 s, j2 is the smaller (4 x 10 GPU-s).
    ("smaller", "srsf", {"predictor": "history"}, [8], [(0, 8, 10), (0, 8, 30), (11, 8, 5), (12, 4, 9)],
     [(0, 10), (10, 40), (49, 54), (40, 49)]),
    # sjf on history: j2 (size never seen) and j3 are both predicted 10 s: as submitted, though j3 is shorter.
    ("misjudged", "sjf", {"predictor": "history"}, [8], [(0, 8, 10), (11, 8, 5), (12, 4, 9), (13, 8, 1)],
     [(0, 10), (11, 16), (16, 25), (25, 26)]),
    # EASY on history: j0 took 10 s. j1 (predicted 10 s) holds 4 GPUs from 11; j2 needs 8, reserved for 21. j3 would
    # end at 23 (predicted 10 s): it waits. At 21 j1 goes on, is taken to last 20 s, until 31, and j3 (until 31) may
    # start. It ends at 22; j4, predicted to end at 32, has to wait for j2.
    ("easy", "easy-backfill", {"predictor": "history"}, [8],
     [(0, 4, 10), (11, 4, 15), (12, 8, 2), (13, 4, 1), (21, 4, 1)],
     [(0, 10), (11, 26), (26, 28), (21, 22), (28, 29)]),
    # sjf without predictions is fifo-backfill.
    ("blind", "sjf", {"predictor": "none"}, [8], [(0, 8, 10), (1, 8, 9), (2, 8, 2)], [(0, 10), (10, 19), (19, 21)]),
]  # fmt: skip


test_schedule = schedules(TABLE)


def test_gangs_sit_on_the_fewest_machines() -> None:
    # Rack a: 4 machines of 2; rack b: 2 of 4, 1 of 1. G = 17. All at 0, early: j0 (1 GPU, size 1/17) takes the
    # machine of 1, the fullest that fits. j1 (8 GPUs) fits rack a whole on 4 machines, rack b on 2: it takes those.
    # j2 (3 GPUs) is left with rack a: two machines.
    machines: list[tuple[tuple[str, ...], int]] = [(("a",), 2)] * 4
    machines += [(("b",), 4), (("b",), 4), (("b",), 1)]
    case = Case(machines, [(0.0, 1, 1.0), (0.0, 8, 1.0), (0.0, 3, 9.0)], costs=FREE)
    simulation = case.run(build("a-srpt", EARLY))
    log = simulation.state.log
    placed = {int(log.jobs[row]): sorted(log.parts(row)) for row in range(len(log)) if log.kinds[row] == START}
    assert placed == {0: [(6, 1)], 1: [(4, 4), (5, 4)], 2: [(0, 2), (1, 1)]}


def test_a_job_that_lost_its_machine_keeps_its_place() -> None:
    # Two machines of 4, the second down from 0.5 to 4.5. j0 (size 2) leaves the virtual machine at 2, starts, and
    # loses the first machine at 3. j1 (size 2) leaves at 4. At 4.5 the second is back: j0, which left first, gets
    # it for its last 3 s. At 5 the first is back, for j1.
    case = Case(
        [(("r",), 4), (("r",), 4)],
        [(0.0, 4, 4.0), (0.0, 4, 4.0)],
        outages=[(0, 3.0, 5.0), (1, 0.5, 4.5)],
        costs=FREE,
    )
    first, second = case.run(build("a-srpt", ORACLE)).jobs
    assert (first.start_s, first.finish_s) == (2.0, 7.5)
    assert (second.start_s, second.finish_s) == (5.0, 9.0)


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("policy", ["sjf", "srtf", "srsf", "easy-backfill", "a-srpt"])
def test_the_rules_are_kept_with_every_predictor(policy: str, predictor: str) -> None:
    check_policy(lambda: build(policy, {"predictor": predictor}), examples=many(40))


def test_the_rules_are_kept_with_early_starts() -> None:
    check_policy(lambda: build("a-srpt", {"early": "on"}), examples=many(100))


works = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 64)), min_size=1, max_size=12)


@given(works)
def test_the_virtual_machine_against_exact_fractions(jobs: list[tuple[int, int]]) -> None:
    """Arrival and work in GPU-seconds on 8 GPUs; the machine through a pickle now and then."""
    jobs = sorted(jobs)
    left = {index: Fraction(work, 8) for index, (_, work) in enumerate(jobs)}
    expected: list[tuple[int, Fraction]] = []
    now = Fraction(0)
    while left:
        here = [index for index in left if jobs[index][0] <= now]
        later = [Fraction(jobs[index][0]) for index in left if jobs[index][0] > now]
        if not here:
            now = min(later)
            continue
        served = min(here, key=lambda index: (left[index], index))
        until = min([now + left[served], *later])
        left[served] -= until - now
        now = until
        if left[served] == 0:
            expected.append((served, now))
            del left[served]

    machine = VirtualMachine()
    found: list[tuple[int, float]] = []

    def step(now: float) -> None:
        while machine.next_done_s() <= now:
            end_s = machine.next_done_s()
            found.extend((index, end_s) for index in machine.advance(end_s, 8.0))
        assert machine.advance(now, 8.0) == []

    machine.advance(0.0, 8.0)
    for index, (arrival_s, work) in enumerate(jobs):
        step(float(arrival_s))
        machine.add(index, float(work))
        machine = pickle.loads(pickle.dumps(machine))
    step(1e4)
    assert sorted(found) == sorted((index, float(end)) for index, end in expected)
