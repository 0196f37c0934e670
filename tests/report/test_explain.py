"""The history of a job and which jobs wait for what, worked out by hand, and held against the run's own tables."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from dally.errors import InputError
from dally.report.explanation.job_timeline import Explainer, TimelineEntry, WaitingJob
from dally.report.html.run_page import run_page
from dally.report.time_text import duration
from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from tests.demo_workload import write_demo

# A lease is 10 s; fixed timers T_1 = 4 s, T_2 = 8 s; one rack of two machines of 8 GPUs.
TIMED = {"tuner": "off", "lease_s": "10", "floors": "0.4,0.8"}

# a and b take a machine each, 5 of 8 GPUs. c finds 3 + 3 in the rack at 3 and takes them at 7, until 16.
# d finds no 8 GPUs at 5; at 10, when the leases of a and b end, it takes theirs, until 15. Both go on at 15.
BUSY = [("a", 0, 5, 12), ("b", 0, 5, 22), ("c", 3, 6, 9), ("d", 5, 8, 5)]
CLOSER = "waits for a closer placement than one rack, which it accepts at"


def simulate(folder: Path, scenario: Scenario) -> Explainer:
    execute(scenario, out=folder)
    return Explainer(FolderRecord(folder))


def trace_of(folder: Path, jobs: list[tuple[str, float, int, float]]) -> str:
    rows = [f"{name},{submit_s},{gpus},{duration_s}\n" for name, submit_s, gpus, duration_s in jobs]
    path = folder / "t.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\n" + "".join(rows))
    return str(path)


def timed(
    folder: Path,
    jobs: list[tuple[str, float, int, float]],
    restart_per_gpu_s: float = 0.0,
    until_s: float = float("inf"),
) -> Explainer:
    """A run under `dally` with the timers above."""
    scenario = Scenario(trace_of(folder, jobs), "1x2x8", "dally-paper", dict(TIMED))
    scenario.restart_per_gpu_s = restart_per_gpu_s
    scenario.until_s = until_s
    return simulate(folder / "run", scenario)


def bare(waits: list[WaitingJob]) -> list[WaitingJob]:
    """The same without sentences."""
    return [replace(wait, why="") for wait in waits]


# The story.


def test_a_long_history_is_cut_in_its_middle(tmp_path: Path) -> None:
    """Two jobs that take turns on one machine: hundreds of events of each, the first and last of which are told."""
    trace = trace_of(tmp_path, [("a", 0, 8, 3000), ("b", 1, 8, 3000)])
    explainer = simulate(tmp_path / "run", Scenario(trace, "1x1x8", "gandiva", {"slice_s": "10"}))
    whole = explainer.history("b")
    events = explainer.events.filter(pl.col("job_id") == "b").height
    assert events > 100
    short = explainer.history("b", most=40)
    [gap] = [place for place, entry in enumerate(short) if entry.kind == "skipped"]
    assert short[gap].text == f"… {events - 40:,} more events …"
    assert short[:gap] == whole[:gap]
    assert short[gap + 1 :] == whole[gap + 1 - len(short) :]
    page = run_page(explainer.run).to_html()
    assert page.count("more events …") == 2
    assert "prints too, whole." in page


def test_communication_at_the_closest_place_is_no_loss(tmp_path: Path) -> None:
    """The history and the bar of a job's page agree: lost is what its place costs beyond the closest."""
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s,model\na,0,8,3600,vgg16\n")
    scenario = Scenario(str(tmp_path / "t.csv"), "1x2x8", "fifo", network="slow")
    explainer = simulate(tmp_path / "run", scenario)
    job = explainer.job("a")
    assert job["comm_s"] > 0.0
    assert job["slowdown"] == pytest.approx(1.0)
    text = explainer.history("a")[-1].text
    assert "lost" not in text
    assert text.endswith("of it communicating, as at its closest place")


def test_a_story_line_by_line(tmp_path: Path) -> None:
    # c finds 3 + 3 at 3 and takes the rack at 3 + 4. Its lease ends at 17, when both machines are free: it moves to
    # one, restarts for 6 s, and works from 23 to 33. Then its lease ends, and d, which never ran, needs all 16 GPUs
    # until 38. c restarts again and works for its last 10 s. Of its 26 s with GPUs until 33 it worked for 20.
    jobs = [("a", 0.0, 5, 9.0), ("b", 0.0, 5, 9.0), ("c", 3.0, 6, 30.0), ("d", 20.0, 16, 5.0)]
    records = timed(tmp_path, jobs, restart_per_gpu_s=1.0)
    lines = records.history("c")
    assert lines[:-1] == [
        TimelineEntry(3, "submit", "submitted: 6 GPUs"),
        TimelineEntry(3, "wait", f"first in the queue; {CLOSER} day 0 00:00:07"),
        TimelineEntry(
            7,
            "start",
            "started on one rack after waiting 4 s, its delay of 4 s for that had passed: "
            "rack0-m[0-1] (3 GPUs each)",
        ),
        TimelineEntry(
            17,
            "preempt",
            "lease ended; released GPUs that are farther apart than it accepts before its delay; waits again",
        ),
        TimelineEntry(
            17, "start", "started on one machine after waiting 0 s, as close as it can be: rack0-m0 (6 GPUs)"
        ),
        TimelineEntry(33, "preempt", "preempted for d; waits again"),
        TimelineEntry(33, "wait", "first in the queue; it needs 6 GPUs and none is free (in use by d (16))"),
        TimelineEntry(
            38, "start", "started on one machine after waiting 5 s, as close as it can be: rack0-m0 (6 GPUs)"
        ),
    ]
    # It waited 4 + 5 s and held GPUs from 7 to 33 and from 38 to 54.
    assert (lines[-1].time_s, lines[-1].kind) == (54, "finish")
    outcome = "finished 51 s after submission: waited 9 s, ran 42 s, preempted 2 times"
    assert lines[-1].text.startswith(outcome)
    # d finds its GPUs as close as 16 can be, across the rack, without a timer.
    assert records.history("d") == [
        TimelineEntry(20, "submit", "submitted: 16 GPUs"),
        TimelineEntry(20, "wait", "first in the queue; it needs 16 GPUs and 10 are free (in use by c (6))"),
        TimelineEntry(
            33, "start", "started on one rack after waiting 13 s, as close as it can be: rack0-m[0-1] (8 GPUs each)"
        ),
        TimelineEntry(38, "finish", "finished 18 s after submission: waited 13 s, ran 5 s"),
    ]


def test_renewals_in_a_row_are_told_together(tmp_path: Path) -> None:
    # Leases end at 10, 20 and 30; at 35 it is done.
    story = timed(tmp_path, [("a", 0.0, 5, 35.0)]).history("a")
    assert [(line.time_s, line.kind) for line in story] == [
        (0, "submit"),
        (0, "start"),
        (10, "renew"),
        (35, "finish"),
    ]
    assert story[2].text.endswith("renewed 3 times, last at day 0 00:00:30")


@pytest.mark.parametrize(
    ("until_s", "kinds"),
    [
        (2.9, ["pending"]),
        (6.9, ["submit", "wait"]),
        (7.0, ["submit", "wait", "start"]),
        (15.9, ["submit", "wait", "start"]),
        (16.0, ["submit", "wait", "start", "finish"]),
    ],
)
def test_a_story_up_to_an_instant(tmp_path: Path, until_s: float, kinds: list[str]) -> None:
    assert [line.kind for line in timed(tmp_path, list(BUSY)).history("c", until_s)] == kinds


def test_a_job_that_is_yet_to_be_submitted(tmp_path: Path) -> None:
    records = timed(tmp_path, list(BUSY))
    assert records.history("c", 2.0) == [TimelineEntry(3, "pending", "not submitted yet")]
    assert [wait.job_id for wait in records.waiting(2.0)] == []


def test_a_job_that_still_waits_when_the_clock_stops(tmp_path: Path) -> None:
    # At 14.5 a and b wait for the GPUs that d took at 10.
    records = timed(tmp_path, [*BUSY, ("e", 11, 16, 1)], until_s=14.5)
    assert [(line.time_s, line.kind) for line in records.history("a")] == [
        (0, "submit"),
        (0, "start"),
        (10, "preempt"),
        (10, "wait"),
    ]
    row = records.job("a")
    assert (row["status"], row["finish_s"], row["queue_s"], row["run_s"]) == ("waiting", None, 4.5, 10.0)


def test_offers_that_nobody_of_that_size_would_ever_take(tmp_path: Path) -> None:
    # Endless timers: c delays for a machine, which b leaves at 22.
    settings = {"tuner": "off", "lease_s": "1000", "floors": "inf"}
    scenario = Scenario(
        trace_of(tmp_path, [("a", 0, 5, 50), ("b", 0, 5, 22), ("c", 3, 6, 9)]), "1x2x8", "dally-paper"
    )
    scenario.settings = settings
    story = simulate(tmp_path / "run", scenario).history("c")
    assert [(line.time_s, line.text) for line in story[1:3]] == [
        (3, "first in the queue; the closest free placement is one rack, which it never accepts"),
        (22, "started on one machine after waiting 19 s, as close as it can be: rack0-m1 (6 GPUs)"),
    ]


def test_offers_that_change_often_are_told_in_part(tmp_path: Path) -> None:
    # A 1-GPU job comes every 2 s for 1 s and takes one of the 3 + 3 GPUs that w waits for: 11 offers, of which
    # the first and the last three are told.
    blocks = [("x", 0.0, 5, 100.0), ("y", 0.0, 5, 100.0)]
    blips = [(f"z{i}", 2.0 + 2 * i, 1, 1.0) for i in range(5)]
    scenario = Scenario(trace_of(tmp_path, [*blocks, ("w", 1.0, 6, 5.0), *blips]), "1x2x8", "dally-paper")
    scenario.settings = {"tuner": "off", "lease_s": "1000", "floors": "0.05,1"}
    story = simulate(tmp_path / "run", scenario).history("w")
    # 6 GPUs from 1, 5 from 2, 6 from 3, …, 5 from 10, 6 from 11; T_1 = 50 s.
    rack = f"first in the queue; {CLOSER} day 0 00:00:51"
    none = "first in the queue; it needs 6 GPUs and 5 are free (in use by x (5), y (5), z0 (1))"
    assert [(line.time_s, line.text) for line in story if line.kind == "wait"] == [
        (1, rack),
        (2, none),
        (3, rack),
        (4, "… 5 more decisions about it …"),
        (9, rack),
        (10, none.replace("z0", "z4")),
        (11, rack),
    ]
    assert story[-2].time_s == 51


def test_lost_to_a_failure(tmp_path: Path) -> None:
    (tmp_path / "down.csv").write_text("machine,fail_s,repair_s\nrack0-m0,5,8\n")
    scenario = Scenario(trace_of(tmp_path, [("a", 0.0, 8, 20.0)]), "1x1x8", "dally-paper")
    scenario.failures = str(tmp_path / "down.csv")
    scenario.restart_per_gpu_s = 0.0
    assert simulate(tmp_path / "run", scenario).history("a") == [
        TimelineEntry(0, "submit", "submitted: 8 GPUs"),
        TimelineEntry(
            0, "start", "started on one machine after waiting 0 s, as close as it can be: rack0-m0 (8 GPUs)"
        ),
        TimelineEntry(5, "evict", "one of its machines failed; waits again"),
        TimelineEntry(5, "wait", "first in the queue; it needs 8 GPUs and none is free (machines are down)"),
        TimelineEntry(
            8, "start", "started on one machine after waiting 3 s, as close as it can be: rack0-m0 (8 GPUs)"
        ),
        TimelineEntry(23, "finish", "finished 23 s after submission: waited 3 s, ran 20 s"),
    ]


def test_a_policy_without_timers(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [("a", 0, 4, 10), ("b", 1, 8, 5), ("c", 2, 4, 3), ("d", 3, 8, 1)])
    records = simulate(tmp_path / "run", Scenario(trace, "1x1x8", "fifo-backfill"))
    # a 0 to 10, c backfilled 2 to 5, b 10 to 15, d 15 to 16.
    assert records.history("b") == [
        TimelineEntry(1, "submit", "submitted: 8 GPUs"),
        TimelineEntry(1, "wait", "first in the queue; it needs 8 GPUs and 4 are free (in use by a (4))"),
        TimelineEntry(
            10, "start", "started on one machine after waiting 9 s, as close as it can be: rack0-m0 (8 GPUs)"
        ),
        TimelineEntry(15, "finish", "finished 14 s after submission: waited 9 s, ran 5 s"),
    ]
    none = "it needs 8 GPUs and none is free (in use by a (4), c (4))"
    assert records.waiting(4.0) == [
        WaitingJob("b", 8, 1.0, 1, f"first in the queue; {none}", "gpus", None),
        WaitingJob("d", 8, 3.0, 2, f"1 job ahead of it: b; {none}", "gpus", None),
    ]
    assert records.busiest_s() == 3.0


def test_preempted_by_rank(tmp_path: Path) -> None:
    # las, lease 5: at 5 a has 40 GPU-s, b none.
    scenario = Scenario(trace_of(tmp_path, [("a", 0, 8, 10), ("b", 1, 8, 3)]), "1x1x8", "las", {"lease_s": "5"})
    story = simulate(tmp_path / "run", scenario).history("a")
    assert (story[2].time_s, story[2].text) == (5, "preempted for b; waits again")


# Who waits.


def test_waiting_by_hand(tmp_path: Path) -> None:
    # e asks for 16 at 11: it never ran and is ahead of a and b, which lost their GPUs at 10.
    records = timed(tmp_path, [*BUSY, ("e", 11, 16, 1)])
    waits = {at_s: bare(records.waiting(at_s)) for at_s in (0.0, 4.0, 5.0, 7.0, 8.9, 9.0, 10.0, 11.0, 14.0)}
    assert waits == {
        0.0: [],
        4.0: [WaitingJob("c", 6, 3, 1, "", "delay", 7)],
        # Both rank 0: c waits longer. 6 GPUs are not enough for d.
        5.0: [WaitingJob("c", 6, 3, 1, "", "delay", 7), WaitingJob("d", 8, 5, 2, "", "gpus", None)],
        7.0: [WaitingJob("d", 8, 5, 1, "", "gpus", None)],
        8.9: [WaitingJob("d", 8, 5, 1, "", "gpus", None)],
        9.0: [WaitingJob("d", 8, 5, 1, "", "gpus", None)],
        # a and b lost their GPUs at the same instant: by order of submission.
        10.0: [WaitingJob("a", 5, 10, 1, "", "gpus", None), WaitingJob("b", 5, 10, 2, "", "gpus", None)],
        11.0: [
            WaitingJob("e", 16, 11, 1, "", "gpus", None),
            WaitingJob("a", 5, 10, 2, "", "gpus", None),
            WaitingJob("b", 5, 10, 3, "", "gpus", None),
        ],
        14.0: [
            WaitingJob("e", 16, 11, 1, "", "gpus", None),
            WaitingJob("a", 5, 10, 2, "", "gpus", None),
            WaitingJob("b", 5, 10, 3, "", "gpus", None),
        ],
    }
    assert bare(records.waiting(19.0)) == [WaitingJob("e", 16, 11, 1, "", "gpus", None)]
    assert records.waiting(30.0) == []


def test_the_busiest_instant(tmp_path: Path) -> None:
    # 1 waits from 3, 2 from 5, 1 from 7, 2 from 10; e makes it 3 at 11.
    assert timed(tmp_path, list(BUSY)).busiest_s() == 5.0
    assert timed(tmp_path, [*BUSY, ("e", 11, 16, 1)]).busiest_s() == 11.0


# What is refused.


def test_an_unknown_job_and_a_folder_without_a_run(tmp_path: Path) -> None:
    records = timed(tmp_path, [("train-1", 0, 1, 1), ("other", 0, 1, 1)])
    with pytest.raises(InputError, match=r"job 'train-2': not in .*jobs\.csv; did you mean 'train-1'\?"):
        records.history("train-2")
    with pytest.raises(InputError, match=r"job 'zzzz': not in .*jobs\.csv$"):
        records.history("zzzz")
    (tmp_path / "run" / "decisions.parquet").unlink()
    with pytest.raises(InputError, match=r"run: holds no decisions\.parquet; give the folder that `dally simul"):
        FolderRecord(tmp_path / "run")
    with pytest.raises(InputError, match=r"nowhere: holds no jobs\.csv"):
        FolderRecord(tmp_path / "nowhere")


# Agreement with the run's own tables.

STARTED = re.compile(r"started on (?:one (\S+)|GPUs across the (\S+)) after waiting")
PREEMPTED = re.compile(
    r"preempted for j\d+;|lease ended; released (?:GPUs that are farther apart|its GPUs for a better)"
)
PROMISED = re.compile(r"than (?:one (\S+)|GPUs across the (\S+)), which it accepts at day (\d+) (\d+):(\d+):(\d+)$")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Explainer:
    folder = tmp_path_factory.mktemp("demo")
    scenario = Scenario(str(write_demo(folder)), "3x6x8", "dally-paper")
    scenario.network = "slow"
    scenario.settings = {"floors": "2,4"}  # short delays: some end while GPUs are on offer
    return simulate(folder / "run", scenario)


def some_jobs(records: Explainer) -> list[str]:
    """Ten random jobs, half of them among those that were preempted."""
    everyone = records.jobs["job_id"].to_list()
    preempted = records.jobs.filter(pl.col("preemptions") > 0)["job_id"].to_list()
    draw = random.Random(4)
    return draw.sample(everyone, 5) + draw.sample(preempted, 5)


def test_stories_agree_with_jobs_and_events(demo: Explainer) -> None:
    preemptions = 0
    for job_id in some_jobs(demo):
        row = demo.job(job_id)
        story = demo.history(job_id)
        times = {kind: [line.time_s for line in story if line.kind == kind] for kind in ("submit", "finish")}
        assert times == {
            "submit": [pytest.approx(row["submit_s"], abs=1e-6)],
            "finish": [pytest.approx(row["finish_s"], abs=1e-6)],
        }
        told = [(line.time_s, line.kind) for line in story if line.kind not in ("wait", "renew")]
        mine = demo.events.filter(pl.col("job_id") == job_id, pl.col("kind") != "renew")
        assert told == mine.select("time_s", "kind").rows()
        starts = [line.time_s for line in story if line.kind == "start"]
        assert starts[0] == pytest.approx(row["start_s"], abs=1e-6)
        begins = [line.time_s for line in story if line.kind in ("submit", "preempt", "evict")]
        waited_s = sum(start_s - begin_s for begin_s, start_s in zip(begins, starts, strict=True))
        assert waited_s == pytest.approx(row["queue_s"], abs=1e-5)
        assert sum(line.kind == "preempt" for line in story) == row["preemptions"]
        assert all(PREEMPTED.match(line.text) for line in story if line.kind == "preempt")
        said = "lost to the network" if (row["slowdown"] or 0.0) >= 1.005 else "as at its closest place"
        assert row["comm_s"] == 0.0 or said in story[-1].text
        preemptions += row["preemptions"]
    assert preemptions >= 5


def test_starts_are_told_with_their_tier(demo: Explainer) -> None:
    for job_id in some_jobs(demo):
        told = []
        for line in demo.history(job_id):
            if line.kind == "start":
                found = STARTED.match(line.text)
                assert found is not None
                told.append(found[1] or found[2])
        mine = demo.events.filter(pl.col("job_id") == job_id, pl.col("kind") == "start")
        assert told == mine["tier"].to_list()


def seconds(found: re.Match[str]) -> float:
    """The moment that a sentence ends with."""
    days, hours, minutes, rest = (int(found[place]) for place in (3, 4, 5, 6))
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def patient_jobs(records: Explainer) -> list[str]:
    """Those that once took a tier because its timer had run out."""
    ripe = records.decisions.filter(pl.col("kind") == "accept", pl.col("patience_s") > 0.0)
    return sorted(set(ripe["job_id"].to_list()))


def test_promises_hold(demo: Explainer) -> None:
    """Nobody takes a tier that it declined until later, unless the story says that the timers changed."""
    promises = 0
    for job_id in [*some_jobs(demo), *patient_jobs(demo)]:
        promised: tuple[int, float] | None = None  # tier, until when declined
        for line in demo.history(job_id):
            if line.kind == "wait":
                found = PROMISED.search(line.text)
                promised = (demo.tiers.index(found[1] or found[2]), seconds(found)) if found else None
            elif line.kind == "start":
                taken = STARTED.match(line.text)
                assert taken is not None
                if promised is not None and demo.tiers.index(taken[1] or taken[2]) >= promised[0]:
                    assert line.time_s >= promised[1] - 0.5, f"{job_id}: {line.text}"
                    promises += 1
                promised = None
    assert promises > 0


def test_timers_that_ran_out_had(demo: Explainer) -> None:
    """Every start says how long the job waited, at least as long as the timer that it names."""
    ripe = demo.decisions.filter(pl.col("kind") == "accept", pl.col("patience_s") > 0.0)
    assert len(ripe) > 10
    for job_id, time_s, patience_s in ripe.select("job_id", "time_s", "patience_s").rows():
        story = demo.history(job_id, time_s)
        assert (story[-1].kind, story[-1].time_s) == ("start", time_s)
        begun_s = max(line.time_s for line in story if line.kind in ("submit", "preempt", "evict"))
        assert time_s - begun_s >= patience_s
        expected = (
            f"after waiting {duration(time_s - begun_s)}, its delay of {duration(patience_s)} for that had passed"
        )
        assert expected in story[-1].text


def test_lengths_that_turn_fractional_late_and_runs_in_which_nothing_happened(tmp_path: Path) -> None:
    rows = [(f"j{number}", float(number), 1, 1.0) for number in range(150)] + [("late", 200.0, 1, 2.5)]
    records = simulate(tmp_path / "run", Scenario(trace_of(tmp_path, rows), "1x1x8", "fifo"))
    assert records.history("late")[-1].time_s == 202.5
    idle = simulate(
        tmp_path / "idle", Scenario(trace_of(tmp_path, [("a", 10, 1, 1)]), "1x1x8", "fifo", until_s=5.0)
    )
    assert idle.history("a") == [TimelineEntry(10, "pending", "not submitted yet")]
    with pytest.raises(InputError, match="nothing happened"):
        idle.busiest_s()


def test_a_job_that_still_waits_when_the_clock_stops_is_told_until_when(tmp_path: Path) -> None:
    # Two machines of 8 with 3 free GPUs each: a gang of 6 is offered the rack, which it takes after 4 s.
    trace = trace_of(tmp_path, [("a", 0, 5, 100), ("b", 0, 5, 100), ("c", 3, 6, 9)])
    settings = {"lease_s": "1000", "floors": "0.004", "tuner": "off"}
    records = simulate(tmp_path / "run", Scenario(trace, "1x2x8", "dally-paper", settings, until_s=5.0))
    told = [line.text for line in records.history("c")]
    assert told[-1] == f"first in the queue; {CLOSER} day 0 00:00:07"


def test_one_who_waits_for_nothing_says_so(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [("a", 0, 5, 100), ("b", 0, 5, 100), ("c", 3, 6, 9)])
    records = simulate(tmp_path / "run", Scenario(trace, "1x2x8", "dally-paper-nowait"))
    started = next(line.text for line in records.history("c") if line.kind == "start")
    assert started.startswith("started on one rack after waiting 0 s, it does not wait for closer:")


def test_a_drained_job_says_how_much_stood_idle_beside_the_gang(tmp_path: Path) -> None:
    # As in tests/policies/dally/test_drain.py: the price is 0.1 × (1 s + 113 s).
    trace = trace_of(tmp_path, [("a", 90, 1, 2000), ("b", 100, 4, 50)])
    scenario = Scenario(trace=trace, cluster="1x1x4", policy="dally", restart_per_gpu_s=1.0)
    texts = [entry.text for entry in simulate(tmp_path / "run", scenario).history("a")]
    cost = "at the cost of a restart of 1 s; 11 s of GPU time stood idle beside that gang"
    assert f"drained for b, {cost}; waits again" in texts
