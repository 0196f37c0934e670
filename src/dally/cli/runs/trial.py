"""`dally trial`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.runs.scenario_options import ScenarioOptions, require, takes_scenario
from dally.errors import InputError
from dally.extras import need
from dally.model import FINISHED, Job
from dally.runs.scenario import Scenario

OWN_POLICY = "the policy in use is --champion, and the candidates are --policies"


@examples(
    "dally trial --trace week.csv --cluster 8x8x8 --champion fifo-backfill --policies las,dally --out trials",
    "dally trial --trace week.csv --cluster 8x8x8 --policies las,dally --out trials --apply",
    "dally trial --trace week.csv --cluster 8x8x8 --policies las,dally --out trials --veto las",
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
    apply: bool = typer.Option(False, "--apply", help="Note a promoted candidate as the champion."),
    veto: list[str] = typer.Option([], metavar="POLICY", help="Never promote this candidate, now or later."),
    back: bool = typer.Option(False, "--back", help="Take the latest change back, and veto what was promoted."),
    as_json: bool = typer.Option(False, "--json", help="Print the verdict as JSON."),
) -> None:  # fmt: skip
    """Try candidates against the policy in use on the last days' own jobs."""
    need("numpy", "dally trial")
    from dally.learning.nightly import TrialRules
    from dally.learning.trial_record import read_trials

    rules = TrialRules(days, held_out, least_gain, most_loss)
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
    if not policies:
        raise InputError("--policies is missing; see `dally trial --help`")
    now_s, verdict = _verdict(scenario, record, policies, rules)
    record.add(now_s, verdict, apply)
    out.mkdir(parents=True, exist_ok=True)
    record.write(path)
    if as_json:
        typer.echo(json.dumps(verdict.values(), indent=2))
        return
    for label, ratio in sorted(verdict.earlier.items(), key=lambda item: item[1]):
        typer.echo(f"{label}: {ratio - 1.0:+.1%} mean JCT against {verdict.champion} on the earlier days")
    typer.echo(f"{verdict.challenger or 'no candidate'}: {verdict.why}")
    if verdict.promoted:
        typer.echo(
            f"{record.champion} is the champion" if apply else "not applied: --apply notes it as the champion"
        )


def _verdict(scenario: Scenario, record: Any, policies: str, rules: Any) -> tuple[float, Any]:
    """When the trace ends, and what a trial then comes to."""
    from dally.learning.nightly import judge_night
    from dally.learning.replaying import Replays
    from dally.sweep.policy_list import read_policies

    candidates = read_policies([policies])
    in_use = read_policies([record.champion])[0]
    first = (record.before or [record.champion])[0]
    replays = Replays(scenario)
    now_s = replays.jobs[-1].submit_s + 1.0
    jobs = [as_recorded(job, now_s) for job in replays.jobs]
    home = read_policies([first])[0]
    tried = [*candidates, *([home] if first not in [one.label() for one in candidates] else [])]
    return now_s, judge_night(jobs, now_s, in_use, tried, replays, rules, record.vetoed, first)


def as_recorded(job: Job, now_s: float) -> Job:
    """A job of a trace as one that ran when it came; one that is not over by then is not over."""
    if job.submit_s + job.duration_s <= now_s:
        job.status = FINISHED
        job.finish_s = job.submit_s + job.duration_s
    else:
        job.work_s = now_s - job.submit_s
    job.start_s = job.submit_s
    return job
