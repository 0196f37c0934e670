"""`dally trial`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dally.cli.commands import examples
from dally.cli.runs.scenario_options import ScenarioOptions, require, takes_scenario
from dally.errors import InputError
from dally.extras import need
from dally.model import FINISHED, Job
from dally.runs.scenario import Scenario

if TYPE_CHECKING:
    from dally.learning.nightly import NightVerdict, TrialRules
    from dally.learning.replaying import Replays
    from dally.learning.trial_record import TrialRecord

OWN_POLICY = "the policy in use is --champion, and the candidates are --policies"


@examples(
    "dally trial --trace week.csv --cluster 8x8x8 --champion fifo-backfill --policies las,dally --out trials",
    "dally trial --trace week.csv --cluster 8x8x8 --policies las,dally --out trials --apply",
    "dally trial --trace week.csv --cluster 8x8x8 --policies las,dally --out trials --veto las",
    "dally trial --trace week.csv --cluster 8x8x8 --out trials --check --apply",
    "dally trial --trace week.csv --cluster 8x8x8 --out trials --back",
)
@takes_scenario(
    without={
        "policy": OWN_POLICY, "settings": OWN_POLICY, "seeds": "a trial has one seed: --seed",
        "scenario": "state the options", "snapshot": "a replay begins with an empty cluster",
        "until_s": "a replay ends with its jobs",
    }
)  # fmt: skip
def trial(
    options: ScenarioOptions,
    out: Path = typer.Option(..., metavar="DIR", help="For trials.json: the champion, and every trial's verdict."),
    champion: str = typer.Option("", metavar="POLICY", help="The policy in use; needed for the first trial alone."),
    policies: str = typer.Option("", metavar="LIST", help="Candidates, as for `dally compare`."),
    days: int = typer.Option(7, metavar="N", help="Days before the last job of the trace that are replayed."),
    held_out: int = typer.Option(2, metavar="N", help="The latest of them, which judge the choice of the others."),
    least_gain: float = typer.Option(0.02, metavar="SHARE", help="Of mean JCT on both parts, to be promoted."),
    most_loss: float = typer.Option(0.01, metavar="SHARE", help="Of mean JCT on any held-out day."),
    nights: int = typer.Option(2, metavar="N", help="Nights in a row that a candidate must win."),
    check: bool = typer.Option(
        False, "--check", help="Only see whether jobs still last as they did when the champion was promoted."
    ),
    apply: bool = typer.Option(False, "--apply", help="Note a promoted candidate as the champion."),
    veto: list[str] = typer.Option([], metavar="POLICY", help="Never promote this candidate, now or later."),
    back: bool = typer.Option(False, "--back", help="Take the latest change back, and veto what was promoted."),
    as_json: bool = typer.Option(False, "--json", help="Print the verdict as JSON."),
) -> None:  # fmt: skip
    """Try candidates against the policy in use on the last days' own jobs."""
    need("numpy", "dally trial")
    from dally.learning.nightly import TrialRules
    from dally.learning.trial_record import read_trials

    rules = TrialRules(days, held_out, least_gain, most_loss, nights=nights)
    rules.check()
    path = out / "trials.json"
    record = read_trials(path, champion)
    if back:
        removed = record.take_back()
        record.write(path)
        typer.echo(f"{record.champion} is the champion again; {removed} is vetoed")
        return
    for label in veto:
        record.veto(label)
    scenario = options.scenario()
    require(scenario, "trial", "trace", "cluster")
    if check:
        typer.echo(_check(scenario, record, path, apply))
        return
    if not policies:
        raise InputError("--policies is missing; see `dally trial --help`")
    now_s, verdict, evidence = _verdict(scenario, record, policies, rules)
    record.add(now_s, verdict, apply, evidence)
    out.mkdir(parents=True, exist_ok=True)
    record.write(path)
    if as_json:
        typer.echo(json.dumps(verdict.values(), indent=2))
        return
    for label, ratio in sorted(verdict.earlier.items(), key=lambda item: item[1]):
        typer.echo(f"{label}: {ratio - 1.0:+.1%} mean JCT against {verdict.champion} on the earlier days")
    if verdict.champion != record.first:
        typer.echo(
            f"{verdict.champion}: {verdict.against_first - 1.0:+.1%} mean JCT against {record.first}, which was in "
            "use before any trial, on these days"
        )
    typer.echo(f"{verdict.challenger or 'no candidate'}: {verdict.why}")
    if verdict.promoted:
        typer.echo(
            f"{record.champion} is the champion" if apply else "not applied: --apply notes it as the champion"
        )


def _recorded(scenario: Scenario) -> tuple[Replays, float, list[Job]]:
    """Replays of the trace, when it ends, and its jobs as they are then."""
    from dally.learning.replaying import Replays

    replays = Replays(scenario)
    now_s = replays.jobs[-1].submit_s + 1.0
    return replays, now_s, [as_recorded(job, now_s) for job in replays.jobs]


def _check(scenario: Scenario, record: TrialRecord, path: Path, apply: bool) -> str:
    """Whether the champion's evidence still holds; noted if it does not."""
    _, now_s, jobs = _recorded(scenario)
    if not record.has_drifted(jobs, now_s):
        return f"{record.champion} stays: no change of the work is seen"
    champion = record.champion
    record.go_home(now_s, apply)
    record.write(path)
    done = f"{record.champion} is the champion again" if apply else "not applied: --apply goes back"
    return f"{champion}: {record.nights[-1]['why']}; {done}"


def _verdict(
    scenario: Scenario, record: TrialRecord, policies: str, rules: TrialRules
) -> tuple[float, NightVerdict, list[float]]:
    """When the trace ends, what a trial then comes to, and on what evidence."""
    from dally.learning.nightly import evidence_of, judge_night
    from dally.sweep.policy_list import read_policies

    candidates = read_policies([policies])
    in_use = read_policies([record.champion])[0]
    first = record.first
    replays, now_s, jobs = _recorded(scenario)
    home = read_policies([first])[0]
    tried = [*candidates, *([home] if first not in [one.label() for one in candidates] else [])]
    verdict = judge_night(jobs, now_s, in_use, tried, replays, rules, record.vetoed, first, record.streak())
    return now_s, verdict, evidence_of(jobs, now_s, rules)


def as_recorded(job: Job, now_s: float) -> Job:
    """A job of a trace as one that ran when it came; one that is not over by then is not over."""
    if job.submit_s + job.duration_s <= now_s:
        job.status = FINISHED
        job.finish_s = job.submit_s + job.duration_s
    else:
        job.work_s = now_s - job.submit_s
    job.start_s = job.submit_s
    return job
