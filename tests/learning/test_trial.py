"""The nightly trial: what it promotes, what it does not, the way back, and a month of drifting work."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from benchmarks.nights import BAD, FIRST, month, problems

from dally.cli.main import app_of
from dally.errors import InputError
from dally.learning.nightly import DAY_S, ReplayedJob, TrialRules, evidence_of, judge_night, recorded
from dally.learning.trial_record import TrialRecord, read_trials
from dally.model import FINISHED, Job
from dally.sweep.policy_list import Chosen

CHAMPION, OTHER = Chosen("champion", {}), Chosen("other", {})
RULES = TrialRules(days=4, held_out=2, nights=1)


def jobs(a_day: int = 50, days: int = 4) -> list[Job]:
    result = []
    for place in range(a_day * days):
        job = Job(place, f"j{place}", place * DAY_S / a_day, 1, 100.0 + 7 * (place % 13))
        job.status, job.start_s, job.finish_s = FINISHED, job.submit_s, job.submit_s + job.duration_s
        result.append(job)
    return result


def replay(ratio: Callable[[int, int], float]) -> Callable[[Chosen, Sequence[ReplayedJob]], list[float]]:
    """The champion takes a job's duration, the other that times `ratio(place of the job, day)`."""

    def times(chosen: Chosen, rows: Sequence[ReplayedJob]) -> list[float]:
        return [
            row.duration_s * (1.0 if chosen is CHAMPION else ratio(place, int(row.submit_s / DAY_S)))
            for place, row in enumerate(rows)
        ]

    return times


@pytest.mark.parametrize(
    ("ratio", "promoted", "why"),
    [
        (lambda place, day: 0.9, True, "wins on the held-out days"),
        (lambda place, day: 0.99, False, "no candidate is 2% better"),
        (lambda place, day: 0.7 if day < 2 else 1.2, False, "other is not 2% better on the held-out days"),
        (lambda place, day: 0.8 if day < 3 else 1.02, False, "2.0% worse on one of the held-out days"),
        (lambda place, day: 0.8 if day < 2 else (0.0 if place % 25 == 1 else 1.02), False, "may be chance"),
    ],
)
def test_a_candidate_must_win_on_held_out_days_by_more_than_chance(
    ratio: Callable[[int, int], float], promoted: bool, why: str
) -> None:
    verdict = judge_night(jobs(), 4 * DAY_S, CHAMPION, [CHAMPION, OTHER], replay(ratio), RULES)
    assert verdict.promoted == promoted
    assert why in verdict.why
    assert not judge_night(jobs(), 4 * DAY_S, CHAMPION, [OTHER], replay(ratio), RULES, ["other"]).promoted


def test_a_candidate_must_win_several_nights_in_a_row() -> None:
    ratio = replay(lambda place, day: 0.9)
    rules = TrialRules(days=4, held_out=2, nights=2)
    record = TrialRecord("champion")
    for night in range(2):
        verdict = judge_night(jobs(), 4 * DAY_S, CHAMPION, [OTHER], ratio, rules, before=record.streak())
        record.add((4 + night) * DAY_S, verdict, True, [])
        assert verdict.promoted == (night == 1)
    assert "has won 1 of the 2 nights" in record.nights[0]["why"]
    assert record.champion == "other"


def test_earlier_days_of_other_jobs_are_no_evidence() -> None:
    come = jobs()
    for job in come[100:]:
        job.duration_s *= 10.0
        job.finish_s = job.submit_s + job.duration_s
    verdict = judge_night(come, 4 * DAY_S, CHAMPION, [OTHER], replay(lambda place, day: 0.9), RULES)
    assert not verdict.promoted
    assert "last otherwise" in verdict.why


def test_the_first_policy_is_in_use_again_once_the_work_has_changed() -> None:
    come = jobs(days=6)
    record = TrialRecord("champion")
    verdict = judge_night(
        come[:200], 4 * DAY_S, CHAMPION, [OTHER], replay(lambda place, day: 0.9), RULES, home="champion"
    )
    record.add(4 * DAY_S, verdict, True, evidence_of(come, 4 * DAY_S, RULES))
    assert not record.has_drifted(come, 6 * DAY_S), "the same work"
    for job in come[200:]:
        job.duration_s *= 2.0
    assert not record.has_drifted(come, 4.2 * DAY_S), "ten jobs are too few to tell"
    assert record.has_drifted(come, 6 * DAY_S)
    record.go_home(6 * DAY_S, True)
    assert (record.champion, record.nights[-1]["challenger"]) == ("champion", "champion")
    assert not record.has_drifted(come, 6 * DAY_S)
    assert not record.vetoed


def test_to_go_back_to_the_first_policy_takes_less() -> None:
    ratio = replay(lambda place, day: 1.0 if day < 2 else 0.98)
    assert not judge_night(jobs(), 4 * DAY_S, CHAMPION, [OTHER], ratio, RULES).promoted
    assert judge_night(jobs(), 4 * DAY_S, CHAMPION, [OTHER], ratio, RULES, home="other").promoted


def test_jobs_that_have_not_ended_and_those_before_the_days_are_replayed_too() -> None:
    come = jobs(days=2)
    come[-1].status, come[-1].finish_s = 1, -1.0
    come[40].finish_s = 1.5 * DAY_S  # it waited, and was there when the second day began
    rows = recorded(come, DAY_S, 2 * DAY_S)
    assert [row.job.job_id for row in rows[:2]] == ["j40", "j50"]
    assert not rows[0].judged
    assert rows[-1].duration_s in {job.duration_s for job in come[50:-1]}, "as one of those that came in the time"
    assert len(rows) == 51


def test_a_change_can_be_taken_back_and_is_then_vetoed(tmp_path: Path) -> None:
    record = TrialRecord("champion")
    verdict = judge_night(jobs(), 4 * DAY_S, CHAMPION, [OTHER], replay(lambda place, day: 0.9), RULES)
    record.add(4 * DAY_S, verdict, False, [1.0])
    assert record.champion == "champion"
    record.add(4 * DAY_S, verdict, True, [1.0])
    record.write(tmp_path / "trials.json")
    again = read_trials(tmp_path / "trials.json", "")
    assert (again.champion, again.before, len(again.nights)) == ("other", ["champion"], 2)
    assert again.take_back() == "other"
    assert (again.champion, again.vetoed) == ("champion", ["other"])
    with pytest.raises(InputError, match="no champion was replaced"):
        again.take_back()
    with pytest.raises(InputError, match="is 'other', not the 'las'"):
        read_trials(tmp_path / "trials.json", "las")
    (tmp_path / "trials.json").write_text('{"champion": "a", "before": 3}')
    with pytest.raises(InputError, match=r"trials.json: before: must be a list"):
        read_trials(tmp_path / "trials.json", "")


def test_a_month_of_drifting_work() -> None:
    result = month(30, 1)
    assert not problems(result)
    assert len(set(result.champions)) == 2
    assert BAD not in result.champions
    assert result.champions[-1] == FIRST


def test_the_commands(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    lines = [f"j{place},{place * 500},1,{30 + 2000 * (place % 5 == 0)}" for place in range(700)]
    (tmp_path / "week.csv").write_text("job_id,submit_s,gpus,duration_s\n" + "\n".join(lines))
    common = ["--trace", str(tmp_path / "week.csv"), "--cluster", "1x1x1"]

    def run(*argv: str) -> str:
        done = CliRunner().invoke(app_of([argv[0]]), [*argv, *common])
        assert done.exit_code == 0, done.output
        return done.output

    out = ["--out", str(tmp_path / "trials"), "--days", "4"]
    shown = json.loads(
        run("trial", "--champion", "fifo", "--policies", "srtf,fifo", "--nights", "1", "--json", "--apply", *out)
    )
    assert shown["promoted"]
    assert "srtf stays: no change of the work is seen" in run("trial", "--check", *out)
    assert "fifo is the champion again; srtf is vetoed" in run("trial", "--back", *out)
    assert "there is no other candidate" in run("trial", "--policies", "srtf", *out)
    scores = json.loads(run("evaluate", "fifo", "srtf", "--window-jobs", "70", "--baseline", "fifo", "--json"))
    assert scores[0]["gain"] == 0.0 < scores[1]["gain"]


def test_a_policy_beyond_its_budget_has_no_score(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    path = tmp_path / "slow.py"
    path.write_text(
        "import dally\n\n\nclass Slow(dally.Policy):\n    def schedule(self, now, queue, cluster):\n"
        "        while True:\n            pass\n"
    )
    (tmp_path / "j.csv").write_text(
        "job_id,submit_s,gpus,duration_s\n" + "\n".join(f"{n},{n},1,9" for n in range(9))
    )
    argv = ["evaluate", f"{path}:Slow", "--trace", str(tmp_path / "j.csv"), "--cluster", "1x1x1", "--split", "all"]
    argv += ["--window-jobs", "9", "--most-cpu-s", "1", "--json"]
    done = CliRunner().invoke(app_of(argv[:1]), argv)
    assert done.exit_code == 1
    assert json.loads(done.stdout)[0]["gain"] is None
