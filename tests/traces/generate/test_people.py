"""Users and teams hold as much of the work as measured; who does not ask for them gets the bytes of before."""

from __future__ import annotations

import itertools
from hashlib import sha256
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.traces import read_trace
from dally.traces.generate import WorkloadRequest, find_recipe, generate, write_workload
from dally.traces.generate.campaigns import TEAMS, USERS, owners, quotas
from dally.traces.generate.stream import Stream
from dally.traces.generate.workload import GeneratedJob


def held(jobs: list[GeneratedJob], fact: str, share: float) -> float:
    """The percent of GPU-hours of the busiest."""
    loads: dict[str, float] = {}
    for job in jobs:
        owner = getattr(job, fact)
        loads[owner] = loads.get(owner, 0.0) + job.gpus * job.duration_s
    ordered = sorted(loads.values(), reverse=True)
    return 100.0 * sum(ordered[: round(share * len(ordered))]) / sum(ordered)


@pytest.mark.parametrize("name", ["venus-like", "philly-like"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_busiest_hold_as_much_as_measured(name: str, seed: int) -> None:
    jobs = generate(find_recipe(name), WorkloadRequest(seed, jobs=15000, users=100, teams=10)).jobs
    assert held(jobs, "user", 0.05) == pytest.approx(46.2, abs=2.0)
    assert held(jobs, "user", 0.1) == pytest.approx(61.9, abs=2.0)
    assert held(jobs, "user", 0.2) == pytest.approx(82.5, abs=2.0)
    assert held(jobs, "queue", 0.1) == pytest.approx(52.7, abs=2.0)
    assert held(jobs, "queue", 0.2) == pytest.approx(73.1, abs=2.0)


def test_a_user_has_one_team_and_the_work_is_the_same() -> None:
    recipe = find_recipe("venus-like")
    plain, shared = (
        generate(recipe, WorkloadRequest(jobs=2000)).jobs,
        generate(recipe, WorkloadRequest(jobs=2000, users=50, teams=5)).jobs,
    )
    assert [(job.submit_s, job.gpus, job.duration_s, job.status) for job in plain] == [
        (job.submit_s, job.gpus, job.duration_s, job.status) for job in shared
    ]
    assert len({(job.user, job.queue) for job in shared}) == len({job.user for job in shared})
    assert {job.queue for job in shared} == {f"team{number}" for number in range(5)}


def test_written_with_the_queue_only_where_asked_for(tmp_path: Path) -> None:
    recipe = find_recipe("venus-like")
    write_workload(tmp_path / "plain.csv", generate(recipe, WorkloadRequest(jobs=50)))
    write_workload(tmp_path / "teams.csv", generate(recipe, WorkloadRequest(jobs=50, users=9, teams=3)))
    assert (tmp_path / "plain.csv").read_text().startswith("job_id,user,name,submit_s,gpus,duration_s,status\n")
    # As before there were teams.
    assert sha256((tmp_path / "plain.csv").read_bytes()).hexdigest()[:16] == "108578a68db6c9c5"
    assert {job.queue for job in read_trace(tmp_path / "teams.csv", 1000).jobs} == {"team0", "team1", "team2"}


def test_quotas_add_up_and_fall() -> None:
    for count in (1, 3, 95, 1000):
        for curve in (USERS, TEAMS):
            found = quotas(count, curve)
            assert sum(found) == pytest.approx(1.0)
            assert all(later <= before + 1e-9 for before, later in itertools.pairwise(found))
    assert owners([5.0, 1.0], [0.5, 0.5], Stream(1)) in ([0, 1], [1, 0], [0, 0], [1, 1])


@pytest.mark.parametrize(
    ("ask", "said"),
    [(WorkloadRequest(users=0), "--users 0"), (WorkloadRequest(users=3, teams=4), "--teams 4: must be")],
)
def test_refused(ask: WorkloadRequest, said: str) -> None:
    with pytest.raises(InputError, match=said):
        generate(find_recipe("venus-like"), ask)
