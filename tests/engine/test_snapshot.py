"""Saving in the middle of a run and going on gives the bytes of not stopping, under every policy."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.engine.simulate import Simulation
from dally.engine.snapshot import FORMAT, MAGIC, fork, load, note_of, resume, save
from dally.engine.state import State
from dally.errors import InputError
from dally.model import Action, Costs
from dally.policies.base import Policy
from dally.policies.queue import Queue
from dally.policies.registry import POLICIES, build
from dally.testing import check_record, record_of
from dally.testing.strategies import Case, cases
from tests.examples import many

# Leases, queues, a failure and shared links, long enough for every policy to have something to remember.
CASE = Case(
    [(("a",), 4), (("a",), 4), (("b",), 8)],
    [(60.0 * place, 1 + place * 5 % 12, 900.0 + place * 997 % 7000) for place in range(30)],
    outages=[(1, 2000.0, 2600.0)],
    costs=Costs(10.0, 1.0, 600.0),
    network="congested",
)


FACTS = [
    "comm_s", "compute_s", "finish_s", "held_s", "lost_s", "migrations", "overhead_s", "predicted_s", "preemptions",
    "renewals", "start_s", "status", "tier", "work_s",
]  # fmt: skip
EVENTS = [
    "times", "kinds", "jobs", "machines", "tiers", "part_ends", "part_machines", "part_gpus", "link_times",
    "link_numbers", "link_loads", "slot_times", "slot_free", "slot_fragmentation", "slot_counts",
]  # fmt: skip
DECISIONS = ["times", "kinds", "jobs", "gpus", "groups", "tiers", "values", "others", "timer_ends", "timers_s"]


def tables(simulation: Simulation) -> tuple[object, ...]:
    """All that jobs.csv, events and decisions are made of, to the last bit."""
    log = simulation.state.log
    jobs = [[getattr(job, name) for name in FACTS] for job in simulation.jobs]
    return (jobs, *columns(log, EVENTS), *columns(log.decisions, DECISIONS), log.reasons, simulation.now)


def columns(log: object, names: list[str]) -> list[list[float]]:
    return [list(getattr(log, name)) for name in names]


def stopped(case: Case, policy: Policy, cycles: int) -> Simulation:
    simulation = case.simulation(policy)
    for _ in range(cycles):
        if simulation.state.finished == len(simulation.jobs) or not simulation.step(case.until_s):
            break
    return simulation


def ended(simulation: Simulation, case: Case) -> Simulation:
    simulation.run(case.until_s)
    return simulation


@pytest.mark.parametrize("name", POLICIES)
def test_going_on_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    whole = tables(CASE.run(build(name)))
    for cycles in (0, 7, 45):
        simulation = stopped(CASE, build(name), cycles)
        save(simulation, tmp_path / "run.snapshot")
        assert tables(ended(resume(tmp_path / "run.snapshot"), CASE)) == whole, cycles
        assert tables(ended(fork(simulation), CASE)) == whole, cycles
        assert tables(ended(simulation, CASE)) == whole  # saving and forking touched nothing


@settings(max_examples=many(120))
@given(cases(), st.sampled_from(list(POLICIES)), st.integers(0, 40))
def test_a_snapshot_at_any_cycle_of_any_run(case: Case, name: str, cycles: int) -> None:
    simulation = stopped(case, build(name), cycles)
    with TemporaryDirectory() as folder:
        save(simulation, Path(folder) / "run.snapshot")
        found = resume(Path(folder) / "run.snapshot")
    assert tables(ended(found, case)) == tables(case.run(build(name)))


@settings(max_examples=many(120))
@given(cases(), st.sampled_from(list(POLICIES)), st.sampled_from(list(POLICIES)), st.integers(0, 40))
def test_another_policy_goes_on(case: Case, name: str, other: str, cycles: int) -> None:
    assume(build(name).suspend_s == build(other).suspend_s)  # the record is checked at one price of a restart
    simulation = stopped(case, build(name), cycles)
    done = [job.work_s for job in simulation.jobs]
    simulation.change_policy(build(other))
    assert all(job.work_s >= before for job, before in zip(simulation.jobs, done, strict=True))
    check_record(record_of(ended(simulation, case)))


def test_another_policy_by_hand() -> None:
    # Under fifo the short job waits behind the long one for 8 GPUs; srtf lets it go first at 10 s.
    case = Case([(("r",), 8)], [(0.0, 8, 100.0), (5.0, 8, 10.0)], costs=Costs(0.0, 0.0, 0.0))
    simulation = case.simulation(build("fifo"))
    simulation.go_on(10.0)
    simulation.now = 10.0
    simulation.change_policy(build("srtf"))
    simulation.run()
    assert [job.finish_s for job in simulation.jobs] == [110.0, 20.0]
    kinds = [(event.time_s, event.kind, event.job) for event in record_of(simulation).events]
    assert kinds[3:7] == [(10.0, "adopt", 0), (10.0, "adopt", 1), (10.0, "timer", -1), (10.0, "preempt", 0)]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "run.snapshot"
    save(stopped(CASE, build("fifo"), 5), path, {"scenario": "x"})
    return path


def test_a_note_comes_back(snapshot: Path) -> None:
    assert note_of(snapshot) == {"scenario": "x"}


def header_with(snapshot: Path, **changes: object) -> bytes:
    raw = snapshot.read_bytes().removeprefix(MAGIC)
    header, content = raw.split(b"\n", 1)
    return MAGIC + json.dumps(json.loads(header) | changes).encode() + b"\n" + content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": FORMAT + 1}, "format: 2: this Dally"),
        ({"dally": "9.9"}, "saved by version 9.9"),
        ({"sha256": "0"}, "is damaged"),
    ],
)
def test_other_headers_are_refused(snapshot: Path, change: dict[str, object], words: str) -> None:
    snapshot.write_bytes(header_with(snapshot, **change))
    with pytest.raises(InputError, match=words):
        load(snapshot, Simulation)


def test_the_other_build_is_refused(snapshot: Path) -> None:
    raw = snapshot.read_bytes()
    compiled = b'"compiled": true' in raw
    snapshot.write_bytes(header_with(snapshot, compiled=not compiled))
    with pytest.raises(InputError, match="saved by a Dally that is"):
        load(snapshot, Simulation)


@pytest.mark.parametrize("keep", [0, 5, 20, 300, -1])
def test_cut_files_are_refused(snapshot: Path, keep: int) -> None:
    snapshot.write_bytes(snapshot.read_bytes()[:keep])
    with pytest.raises(InputError, match="snapshot"):
        load(snapshot, Simulation)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load(tmp_path / "none", Simulation)


def test_a_simulation_is_no_state(snapshot: Path) -> None:
    with pytest.raises(InputError, match="holds a Simulation, not a State"):
        load(snapshot, State)


class Command:
    """Runs a command when it is unpickled."""

    def __init__(self, function: object, argument: str) -> None:
        self._call = (function, (argument,))

    def __reduce__(self) -> tuple[object, ...]:
        return self._call


@pytest.mark.parametrize("function", [os.system, eval, InputError])
def test_a_snapshot_calls_nothing(snapshot: Path, function: object, tmp_path: Path) -> None:
    content = pickle.dumps(Command(function, f"touch {tmp_path / 'called'}"))
    raw = header_with(snapshot, sha256=hashlib.sha256(content).hexdigest())
    end = raw.index(b"\n", len(MAGIC)) + 1
    snapshot.write_bytes(raw[:end] + content)
    with pytest.raises(InputError, match="is not admitted"):
        load(snapshot, Simulation)
    assert not (tmp_path / "called").exists()


class Own(Policy):
    """A user's policy, in a module of its own."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        return []


def test_a_users_policy_is_admitted_by_name(tmp_path: Path) -> None:
    save(stopped(CASE, Own(), 5), tmp_path / "own.snapshot")
    with pytest.raises(InputError, match=f"saved under the policy {__name__}:Own"):
        load(tmp_path / "own.snapshot", Simulation)
    found = load(tmp_path / "own.snapshot", Simulation, admit=[__name__])
    assert isinstance(found.state.policy, Own)
