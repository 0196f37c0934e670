"""What if, from the present on: known answers on small clusters, and nothing of the present is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.engine.cycle import cycle
from dally.engine.executor import Executor
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.config import Setup
from dally.live.forecast.estimator import Effort
from dally.live.forecast.future import dump_present
from dally.live.forecast.lifetimes import PastJob
from dally.live.forecast.whatif.from_now import FutureQuestion, shorter_note
from dally.live.forecast.whatif.what_ifs import check_allowed
from dally.model import FAIL, FINISH, HOLD, INFINITY, NEVER, SUBMIT, Costs, Event, Job
from dally.perf.base import SpeedModel
from dally.policies.registry import build
from dally.sweep.whatif.change import Change, WhatIfAnswer, WhatIfSide, changed, check_sizes, today
from tests.live.forecast.jobs_at_once import submit_all

EFFORT = Effort(most=2, horizon_s=86400.0, cpu_s=INFINITY)
LINE = [(16, 100.0), (16, 50.0), (8, 30.0), (16, 1000.0)]  # GPUs and seconds, on two machines of 8
PAST = [
    PastJob(
        -number,
        -300.0 * number,
        JobSpec(1 + number % 16, model="vgg16", user=f"u{number % 4}"),
        600.0 + 60.0 * (number % 30),
    )
    for number in range(150, 0, -1)
]


class Now:
    """Machines of eight GPUs, and jobs that all came at once."""

    def __init__(self, setup: Setup, asked: list[tuple[int, float]], racks: int = 1) -> None:
        self.side = today(setup, grid(racks, 2, 8))
        self.state = setup.world(self.side.topology).state()
        self.jobs = submit_all(self.state, asked, "vgg16", users=4, prefix="j")

    def content(self, now: float = 0.0, draining: tuple[int, ...] = ()) -> bytes:
        return dump_present(self.state, self.jobs, now, len(self.jobs), draining=draining)

    def ask(
        self, change: Change, past: list[PastJob] | None = None, effort: Effort = EFFORT,
        draining: tuple[int, ...] = (),
    ) -> WhatIfAnswer:  # fmt: skip
        content = self.content(draining=draining)
        return answer(content, self.side, changed(change, self.side), past or [], effort)


def answer(
    content: bytes, before: WhatIfSide[Setup], after: WhatIfSide[Setup], past: Sequence[PastJob] = (),
    effort: Effort = EFFORT, copies: bool = False,
) -> WhatIfAnswer:  # fmt: skip
    return FutureQuestion(content, effort).answer(before, after, list(past), lambda *_: None, copies)


def figures(answer: WhatIfAnswer) -> dict[str, tuple[float, float]]:
    return {one.name: (one.before, one.after) for one in answer.figures}


def direct(policy: str, racks: int, asked: list[tuple[int, float]]) -> list[Job]:
    """The same jobs simulated from scratch."""
    jobs = [Job(number, str(number), 0.0, gpus, s, "vgg16") for number, (gpus, s) in enumerate(asked)]
    Simulation(jobs, Cluster(grid(racks, 2, 8)), build(policy), SpeedModel(), Costs(), Failures()).run()
    return jobs


def test_figures_are_those_of_a_simulation_of_the_same_jobs() -> None:
    found = Now(Setup("fifo"), LINE).ask(Change(cluster_delta="+1 rack"))
    for side, racks in ((0, 1), (1, 2)):
        jobs = direct("fifo", racks, LINE)
        starts = [job.start_s for job in jobs[1:]]
        told = {name: both[side] for name, both in figures(found).items()}
        assert told["wait_mean_s"] == pytest.approx(sum(starts) / 3)
        assert told["served_s"] == pytest.approx(max(starts))
        assert told["jct_mean_s"] == pytest.approx(sum(job.finish_s for job in jobs) / 4)
        assert told["gpus_used"] == pytest.approx(sum(g * s for g, s in LINE) / 86400.0)
        assert told["preemptions"] == 0.0
    assert (found.jobs, found.better, found.worse) == (4, 3, 0)
    assert {one.job_id for one in found.winners} == {"j1", "j2", "j3"}
    assert found.headline.startswith("fifo, +1 rack instead of fifo: jobs that wait now wait ")
    assert "No new jobs arrive" in found.notes[0]


@pytest.mark.parametrize(
    ("policy", "network"), [("dally", "slow"), ("fifo-backfill", ""), ("las", "normal"), ("slurm-backfill", "slow")]
)
def test_the_same_on_both_sides_differs_in_nothing(policy: str, network: str) -> None:
    now = Now(Setup(policy, network=network), [(16, NEVER), (12, NEVER), (4, NEVER), (2, NEVER), (9, NEVER)])
    before = now.content()
    found = now.ask(Change(), PAST)
    assert now.content() == before  # and the present is as it was
    assert {(one.change, one.low, one.high) for one in found.figures} == {(0.0, 0.0, 0.0)}
    assert found.headline.startswith(
        f"{policy}, as it is: jobs that wait now wait as long on average; the mean job"
    )
    assert found.headline.endswith("takes as long, newcomers take as long.")
    assert found == now.ask(Change(policy=policy), PAST)
    assert figures(found)["coming_jct_s"][0] > 0.0


def test_more_racks_never_make_a_line_longer() -> None:
    now = Now(Setup("fifo"), [(16, 600.0), (16, NEVER), (8, NEVER), (16, NEVER), (4, NEVER), (12, NEVER)])
    waits = [figures(now.ask(Change(cluster_delta=f"+{racks} racks"), PAST))["wait_mean_s"] for racks in (1, 2, 3)]
    assert all(after <= before for before, after in waits)
    assert waits[0][1] > waits[1][1] >= waits[2][1]


def test_jobs_of_a_rack_that_goes_wait_again() -> None:
    now = Now(Setup("fifo", restart_per_gpu_s=0.0), [(16, 1000.0), (16, 1000.0)], racks=2)
    found = now.ask(Change(cluster_delta="-1 rack"))
    assert figures(found)["waiting_s"] == (0.0, 500.0)
    assert [one.job_id for one in found.losers] == ["j1"]
    assert found.headline.startswith(
        "fifo, -1 rack instead of fifo: no job waits now; the mean job takes 8 min 20 s longer"
    )
    with pytest.raises(InputError, match="job 'j0' asks for 16 GPUs and the cluster would have 8"):
        check_sizes([("j0", 16)], changed(Change(cluster_delta="-3 machines"), now.side))


def test_a_faster_network_shortens_the_same_work() -> None:
    now = Now(Setup("fifo", network="slow"), [(16, 1000.0), (16, 1000.0)])
    same = figures(now.ask(Change(network="slow")))
    assert same["jct_mean_s"][0] == same["jct_mean_s"][1]
    faster = figures(now.ask(Change(network="fast")))
    assert faster["jct_mean_s"][1] < 0.95 * faster["jct_mean_s"][0]


def test_another_policy_decides_from_here_on() -> None:
    now = Now(Setup("fifo"), [(16, 100.0), (16, 5000.0), (4, 10.0), (4, 10.0)])
    found = now.ask(Change("sjf"))
    assert figures(found)["wait_mean_s"] == pytest.approx(((100 + 5100 + 5100) / 3, (110 + 100 + 100) / 3))
    assert {one.job_id for one in found.winners} == {"j2", "j3"}
    assert found.losers == []  # ten seconds


def test_teams_keep_their_shares_under_another_policy(tmp_path: Path) -> None:
    queues = tmp_path / "queues.toml"
    queues.write_text("[queues.a]\nguarantee = 8\nmatch = {user = ['u0', 'u1']}\n[queues.b]\ndefault = true\n")
    now = Now(Setup("fifo", queues=str(queues)), [(16, 600.0), (8, 600.0), (8, 600.0), (4, 600.0)])
    found = now.ask(Change("dally-paper"))  # which has learnt other things than fifo
    assert figures(found)["gpus_useful"][1] > 0.0


def test_what_is_down_stays_down_and_who_is_held_stays_so() -> None:
    now = Now(Setup("fifo"), [(8, 100.0), (8, 100.0), (8, 100.0), (8, 100.0), (8, 50.0), (8, 50.0)], racks=2)
    cycle(now.state, [Event(FAIL, machine=3), Event(HOLD, now.jobs[5])], 0.0, Executor())
    found = now.ask(Change(cluster_delta="+1 machine"))
    assert found.jobs == 5
    assert figures(found)["first_start_s"] == (100.0, 50.0)  # of job 3, whose machine is gone, and of job 4


def test_one_on_hold_need_not_fit() -> None:
    now = Now(Setup("fifo"), [(8, 100.0), (8, 100.0), (32, 100.0)], racks=2)
    cycle(now.state, [Event(HOLD, now.jobs[2])], 0.0, Executor())
    assert figures(now.ask(Change(cluster_delta="-1 rack")))["jct_mean_s"] == (100.0, 100.0)


@pytest.mark.parametrize("queues", ["", "[queues.a]\nmatch = {user = ['u0', 'u2']}\n[queues.b]\ndefault = true\n"])
def test_what_drains_takes_no_other_job(tmp_path: Path, queues: str) -> None:
    path = tmp_path / "queues.toml"
    path.write_text(queues)
    setup = Setup("fifo-backfill", queues=str(path) if queues else "")
    now = Now(setup, [(4, 500.0), (8, 1000.0), (4, 300.0), (8, 300.0), (4, 100.0)])  # of whom the last two wait
    drains = next(machine for machine, _ in now.jobs[0].allocation.parts())  # type: ignore[union-attr]
    change = Change("fifo", cluster_delta="+1 machine")
    assert figures(now.ask(change))["first_start_s"][0] == (500.0 + 300.0) / 2
    before_s, after_s = figures(now.ask(change, draining=(drains,)))["first_start_s"]
    assert before_s >= 1000.0  # on the machine that does not drain
    assert after_s <= 150.0  # on the new one


@pytest.mark.parametrize(
    ("policy", "given"), [("dally", {"preemption": "off", "migration": "off"}), ("dally-paper", {})]
)
def test_timers_set_by_hand_hold_in_futures(policy: str, given: dict[str, str]) -> None:
    now = Now(Setup(policy, given, network="slow"), [(5, 100_000.0)] * 4, racks=2)
    late = Job(4, "late", 0.0, 6, 500.0, "vgg16")
    assert now.state.policy.delay_overrides is not None
    now.state.policy.delay_overrides.set_s(6, 9000.0)
    cycle(now.state, [Event(SUBMIT, late)], 0.0, Executor())
    starts = []
    for timers_s in ({6: 0.0}, {6: 3000.0}):
        content = dump_present(now.state, [*now.jobs, late], 0.0, 5, timers_s=timers_s)
        starts.append(figures(answer(content, now.side, now.side))["first_start_s"])
    assert starts == [(0.0, 0.0), (3000.0, 3000.0)]


def test_work_done_counts() -> None:
    now = Now(Setup("fifo"), [(16, 100.0), (16, 50.0)])
    found = figures(answer(now.content(60.0), now.side, now.side))
    assert found["wait_mean_s"] == pytest.approx((40.0, 40.0))
    cycle(now.state, [Event(FINISH, now.jobs[0])], 100.0, Executor())
    content = dump_present(now.state, now.jobs, 110.0, 2)
    assert "wait_mean_s" not in figures(answer(content, now.side, now.side))


def test_a_horizon_missed_by_less_than_is_shown_is_not_said() -> None:
    assert shorter_note(2.999 * 86400.0, 3 * 86400.0) == []
    assert shorter_note(2 * 86400.0, 3 * 86400.0) == [
        "Futures cover 2 d instead of 3 d: the time limit was reached."
    ]


def test_time_that_is_up_is_said() -> None:
    now = Now(Setup("dally", network="slow"), [(16, NEVER), (12, NEVER), (4, NEVER)])
    short = Effort(most=1000, horizon_s=3 * 86400.0, cpu_s=1.0)
    found = now.ask(Change("fifo"), PAST, short)
    assert 1 <= found.samples < 1000
    assert any("the time limit was reached" in note for note in found.notes)
    with pytest.raises(InputError, match="of CPU"):
        now.ask(Change("fifo"), PAST, replace(short, cpu_s=0.0))


def test_copies_of_the_process_say_the_same() -> None:
    now = Now(Setup("dally", network="slow"), [(16, NEVER), (12, NEVER), (4, NEVER)])
    sides = (now.content(), now.side, changed(Change("fifo"), now.side))
    assert answer(*sides, PAST, copies=True) == answer(*sides, PAST, copies=False)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (Change("fife"), "unknown policy 'fife'; did you mean 'fifo'"),
        (Change("/tmp/a.py:Mine"), "unknown policy"),
        (Change("dally", {"learned": "/etc/passwd"}), "names a file"),
        (Change("dally", {"no": "1"}), "no parameter 'no'"),
        (Change(cluster_delta="two racks"), "must be like"),
        (Change(cluster_delta="+100 racks"), "more than 160 GPUs"),
        (Change(network="fast"), "today no network is known"),
    ],
)
def test_what_cannot_be_asked(change: Change, told: str) -> None:
    now = today(Setup("fifo"), grid(1, 2, 8))

    def ask() -> None:
        check_allowed(change, now)
        changed(change, now)

    with pytest.raises(InputError, match=told):
        ask()
