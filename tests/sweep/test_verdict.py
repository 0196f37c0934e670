"""Whether figures can be quoted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dally.metrics.wait_fit import Evidence, Wait, wait_fit
from dally.sweep.whatif.calibration import Fits
from dally.sweep.whatif.verdict import Misplaced, Verdict, judge

SOUND = Evidence(400, 64, 64, 100, 5, 0, {"gpu": 400}, {})
AT_HOME = Misplaced(400, 0, [], 0, 16)


def fits(times: float, jobs: int = 50, held_out: float | None = None) -> Fits:
    def part(factor: float, name: str = "") -> list[Wait]:
        return [Wait(f"{name}{n}", 1, 0.0, 36000.0, 36000.0 * factor) for n in range(jobs)]

    later = times if held_out is None else held_out
    return Fits(wait_fit(part(times)), wait_fit(part(later)), wait_fit(part(times) + part(later, "later")))


def told(found: Fits, **changes: object) -> Verdict:
    return judge(found, replace(SOUND, **changes), AT_HOME, "slurm-backfill")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "level", "words"),
    [
        (1.0, "use", "within 1 % of what happened: the figures below can be used"),
        (1.12, "use", "within 12 % of what happened"),
        (0.9, "use", "within 11 % of what happened"),
        (1.4, "rough", "off by 40 %: the figures below tell which way things go, not how far"),
        (1.7, "do not quote", "off by 70 %: do not quote the figures below"),
        (4.0, "do not quote", "4.0 times off: do not quote the figures below"),
        (0.25, "do not quote", "4.0 times off: do not quote"),
    ],
)
def test_words(times: float, level: str, words: str) -> None:
    found = told(fits(times))
    assert found.level == level
    assert words in found.text


def test_what_was_held_out_counts() -> None:
    assert told(fits(1.0, held_out=3.0)).level == "do not quote"
    assert told(fits(1.0, jobs=15, held_out=3.0)).level == "do not quote", "together they are enough"
    assert told(fits(1.0, jobs=9)).level == "unchecked"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"waited_beside_free": 60}, "60 % of the jobs that waited did so while enough of its GPUs were free"),
        ({"partitions": {"a": 300, "b": 100}}, "jobs ran in 2 partitions (300 a, 100 b)"),
        ({"gpu_types": {"a100": 300, "h100": 100}}, "jobs ran in 2 types of GPU (300 a100, 100 h100)"),
        ({"without_limit": 400}, "400 jobs state no time limit"),
    ],
)
def test_reasons(changes: dict[str, object], reason: str) -> None:
    assert any(reason in one for one in told(fits(0.25), **changes).reasons)
    assert told(fits(1.0), **changes).reasons == []


@pytest.mark.parametrize(
    ("evidence", "places", "reason"),
    [
        ({"peak_gpus": 80}, AT_HOME, "the record has 80 GPUs in use at once, and the cluster given has 64"),
        ({}, Misplaced(300, 100, ["n1", "n2", "n3", "n4"], 0, 16),
         "100 jobs ran on machines that the cluster given does not have (n1, n2, n3, …)"),
        ({}, Misplaced(400, 0, [], 4, 20),
         "no job ran on 4 of the 20 machines of the cluster given, while 100 jobs waited"),
    ],
)  # fmt: skip
def test_another_cluster_is_never_quoted(evidence: dict[str, Any], places: Misplaced, reason: str) -> None:
    found = judge(fits(1.0), replace(SOUND, **evidence), places, "fifo")
    assert found.level == "do not quote"
    assert reason in found.reasons[0]
    assert "the record is of another cluster: do not quote" in found.text


def test_a_guessed_network_is_said() -> None:
    found = judge(fits(1.0), SOUND, AT_HOME, "fifo", network_known=False)
    assert found.text.endswith("waits below can be used, what the network costs is a guess.")


def test_partitions_that_the_replay_keeps_are_no_reason() -> None:
    apart = replace(SOUND, partitions={"a100": 60, "v100": 40})
    free = judge(fits(3.0), apart, AT_HOME, "fifo")
    assert any(
        "lets each run anywhere: state the machines of each by [[partitions]]" in one for one in free.reasons
    )
    kept = judge(fits(3.0), apart, AT_HOME, "fifo", held={"a100", "v100"})
    assert not any("anywhere" in one for one in kept.reasons)


def test_a_mean_that_agrees_is_no_sign_of_another_cluster() -> None:
    """Large jobs wait a tenth as long in the replay, and small ones ten times as long."""
    sides = ((1, 3600.0, 36000.0), (16, 36000.0, 3600.0))
    waits = [
        Wait(f"{gpus}-{number}", gpus, 0.0, recorded_s, replayed_s)
        for gpus, recorded_s, replayed_s in sides
        for number in range(50)
    ]
    fit = wait_fit(waits)
    for found in (Fits(fit, fit, fit), Fits(fit, wait_fit([]), fit)):
        [reason] = told(found).reasons
        assert "mean waits agree over the whole record, but not by size in the first three quarters" in reason
        assert "10 h" in reason


def test_jobs_that_still_ran_at_the_end() -> None:
    def reasons(times: float, unended: int) -> list[str]:
        return judge(fits(times), SOUND, AT_HOME, "fifo", unended=unended).reasons

    [reason] = reasons(0.25, 60)
    assert reason == "60 jobs still ran at the end of the record: in the replay their GPUs are free"
    assert reasons(0.25, 6) == []
    assert not any("still ran" in one for one in reasons(4.0, 60)), "their GPUs would make waits shorter"
