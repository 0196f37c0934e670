"""decisions.parquet: every reason the policy gave, worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.vecs import append, vec
from mypy_extensions import i32

from dally.metrics.simulated import Simulated
from dally.metrics.tables import _runs, decisions_frame
from dally.model import Costs
from dally.policies.registry import build
from dally.testing.strategies import Case

FREE = Costs(0.0, 0.0, 0.0)
RACK: list[tuple[tuple[str, ...], int]] = [(("r",), 8), (("r",), 8)]  # one rack of two machines
COLUMNS = {
    "time_s": pl.Float64,
    "kind": pl.Enum(
        ["wait", "offer", "accept", "lose", "rank", "head", "reserve", "round", "defer", "admit", "move"]
    ),
    "job_id": pl.String,
    "gpus": pl.Int32,
    "group": pl.Int32,
    "tier": pl.String,
    "demand_kind": pl.Int32,
    "rank": pl.Float64,
    "tie": pl.Float64,
    "patience_s": pl.Float64,
    "until_s": pl.Float64,
    "winner": pl.String,
    "timers_s": pl.List(pl.Float64),
    "prices": pl.List(pl.Float64),
}

Row = tuple[object, ...]


def wait(time_s: float, job: str, gpus: int, rank: float) -> Row:
    """Ties are broken by when it began to wait."""
    return (time_s, "wait", job, gpus, 1, None, 0, rank, time_s, None, None, None, [], [])


def offer(time_s: float, gpus: int, tier: str | None, timers_s: list[float]) -> Row:
    return (time_s, "offer", None, gpus, 1, tier, 0, None, None, None, None, None, timers_s, [])


def accept(time_s: float, job: str, gpus: int, tier: str, patience_s: float) -> Row:
    return (time_s, "accept", job, gpus, 1, tier, 0, None, None, patience_s, None, None, [], [])


def lose(time_s: float, job: str, gpus: int, winner: str) -> Row:
    return (time_s, "lose", job, gpus, 1, None, 0, None, None, None, None, winner, [], [])


def rows(jobs: list[tuple[float, int, float]], policy: str, settings: dict[str, str]) -> list[Row]:
    return decisions_frame(Simulated(Case(RACK, jobs, costs=FREE).run(build(policy, settings)))).rows()


def test_fixed_timers_line_by_line() -> None:
    # A lease is 10 s; T_1 = 0.4 leases = 4 s and T_2 = 8 s, whatever the size, as all sizes fit a machine.
    jobs = [(0.0, 5, 12.0), (0.0, 5, 22.0), (3.0, 6, 9.0), (5.0, 8, 5.0)]
    settings = {"tuner": "off", "lease_s": "10", "floors": "0.4,0.8"}
    assert rows(jobs, "dally-paper", settings) == [
        # Both never ran: rank 0. Each finds a machine, for which nobody has to wait.
        wait(0, "j0", 5, 0.0),
        wait(0, "j1", 5, 0.0),
        accept(0, "j0", 5, "machine", 0.0),
        accept(0, "j1", 5, "machine", 0.0),
        # 3 + 3 GPUs are left: 6 are only to be had across the rack, which j2 takes from 3 + 4 on.
        wait(3, "j2", 6, 0.0),
        offer(3, 6, "rack", [4, 8]),
        # 6 GPUs are free and j3 asks for 8: nothing on offer. For 6 nothing changed, so nothing is said.
        wait(5, "j3", 8, 0.0),
        offer(5, 8, None, [4, 8]),
        # j2's timer runs out. For j3 there is still nothing, which is not said again.
        accept(7, "j2", 6, "rack", 4.0),
        # The leases of j0 and j1 end: 5 + 5 in the rack, and j3, rank 0, has waited 5 s >= 4 s. It takes
        # all 5 of m0, which are j0's, and 3 of m1, which are j1's. Both computed all the time they ran: rank 1.
        wait(10, "j0", 5, 1.0),
        wait(10, "j1", 5, 1.0),
        lose(10, "j0", 5, "j3"),
        lose(10, "j1", 5, "j3"),
        accept(10, "j3", 8, "rack", 4.0),
        # 2 GPUs are left.
        offer(10, 5, None, [4, 8]),
        # j3 is done: 5 GPUs on either machine.
        accept(15, "j0", 5, "machine", 0.0),
        accept(15, "j1", 5, "machine", 0.0),
        # j2 is done at 16 and j0 at 17. The lease of j1 on m1 ends: both machines are on offer and fit alike, so
        # that it is placed anew on m0, the lower number.
        wait(25, "j1", 5, 1.0),
        lose(25, "j1", 5, "j1"),
        accept(25, "j1", 5, "machine", 0.0),
    ]


def test_tuned_timers_are_told_when_they_changed() -> None:
    # A lease is 10 s. T_1(4) = 10 · max(1, ⌈stat⌉) with stat = 1 at first, T_2 = 10 · max(5, ⌈stat⌉).
    # 16 GPUs fit nothing closer than the rack: T_1(16) = 0.
    jobs = [(0.0, 16, 10.0), (0.0, 16, 10.0), (0.0, 4, 5.0), (1.0, 16, 10.0), (26.0, 4, 3.0)]
    assert rows(jobs, "dally-paper", {"lease_s": "10", "floors": "1,5"}) == [
        wait(0, "j0", 16, 0.0),
        wait(0, "j1", 16, 0.0),
        wait(0, "j2", 4, 0.0),
        accept(0, "j0", 16, "rack", 0.0),
        offer(0, 4, None, [10, 50]),
        offer(0, 16, None, [0, 50]),
        wait(1, "j3", 16, 0.0),
        # j0 is done with its lease's last second; j1 has waited as long as j2 and was there before it.
        accept(10, "j1", 16, "rack", 0.0),
        # j2 has waited longer than j3. 20 s for a machine are 2 leases: T_1(4) = 20 s from now on.
        # 10 s for a rack were 1 lease: T_2(16) stays at its floor.
        accept(20, "j2", 4, "machine", 0.0),
        accept(25, "j3", 16, "rack", 0.0),
        wait(26, "j4", 4, 0.0),
        offer(26, 4, None, [20, 50]),
        accept(35, "j4", 4, "machine", 0.0),
    ]


@pytest.mark.parametrize("policy", ["fifo", "fifo-backfill", "las", "dally"])
def test_columns_are_the_same_for_all(policy: str) -> None:
    case = Case(RACK, [(0.0, 16, 10.0), (1.0, 16, 10.0)], costs=FREE)
    frame = decisions_frame(Simulated(case.run(build(policy))))
    assert dict(frame.schema) == COLUMNS
    assert frame.filter(pl.col("kind") == "wait")["job_id"].to_list() == ["j0", "j1"]


def told(policy: str, settings: dict[str, str], *kinds: str) -> list[Row]:
    jobs = [(0.0, 5, 12.0), (0.0, 5, 22.0), (3.0, 6, 9.0), (5.0, 8, 5.0)]
    frame = decisions_frame(Simulated(Case(RACK, jobs, costs=FREE).run(build(policy, settings))))
    return frame.filter(pl.col("kind").is_in(kinds)).select("time_s", "kind", "job_id", "until_s").rows()


def test_heads_reservations_and_rounds_are_told_once() -> None:
    # fifo: 6 GPUs are free for j2, none for j3 until j0 ends at 12.
    assert told("fifo", {}, "head") == [(5, "head", "j3", None)]
    # The same under EASY: 8 GPUs are free from 12 on, when j2 ends too.
    assert told("easy-backfill", {}, "reserve") == [(5, "reserve", "j3", 12), (12, "reserve", None, float("inf"))]
    # Rounds of 10 s from 0 on, while somebody waits: j2 and j3 since 3 and 5.
    rounds = told("gavel", {"round_s": "10"}, "round")
    assert rounds[0] == (0, "round", None, 10)
    assert [row[3] for row in rounds] == sorted({float(str(row[3])) for row in rounds})


def test_ranks_that_move_are_told_when_they_moved_by_a_tenth() -> None:
    # One queue limit, 40 GPU-s: j0 falls at 8, and no rank of a waiting job moves.
    assert told("tiresias", {"limits": "40"}, "rank") == []
    # Gavel, rounds of 10 s: at 10 j1 and j2 never ran and come before j0; j1 is placed, and j2 waits on.
    jobs = [(0.0, 16, 100.0), (1.0, 16, 100.0), (2.0, 16, 100.0)]
    frame = decisions_frame(Simulated(Case(RACK, jobs, costs=FREE).run(build("gavel", {"round_s": "10"}))))
    moved = frame.filter(pl.col("kind") == "rank").select("time_s", "job_id", "rank").rows()
    assert moved[0] == (10, "j2", -float("inf"))


def test_virtual_machine_holds_and_admits() -> None:
    held = told("a-srpt", {"predictor": "oracle"}, "defer", "admit")
    assert [row[:3] for row in held[:2]] == [(0, "defer", "j0"), (0, "defer", "j1")]
    assert {row[2] for row in held if row[1] == "admit"} == {"j0", "j1", "j2", "j3"}


@given(st.lists(st.lists(st.floats(0.0, 9.0), max_size=3), max_size=8))
def test_timers_are_the_runs_of_their_rows(rows: list[list[float]]) -> None:
    values = vec[float]()
    ends = vec[i32]()
    for row in rows:
        for value in row:
            values = append(values, value)
        ends = append(ends, i32(len(values)))
    assert _runs(ends, values).to_list() == rows
    assert _runs(ends, values).dtype == pl.List(pl.Float64)
