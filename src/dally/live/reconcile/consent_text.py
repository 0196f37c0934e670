"""Why running jobs are not preempted, for people: whose choice that is, and what their lost work would cost."""

from __future__ import annotations

from dally.engine.consent import Consent, cost_gpu_s
from dally.engine.consent_rules import NO
from dally.engine.state import State
from dally.live.reconcile.roster import Roster
from dally.model import RUNNING, Job
from dally.report.time_text import duration


def note_consent(state: State, roster: Roster, now: float) -> None:
    """Add the reasons of jobs that are not preempted by choice to those that the backend would not stop."""
    consent = state.consent
    if consent is None:
        return
    for job in roster:
        if job.status == RUNNING and job.non_preemptible and job.job_id not in roster.non_preemptible:
            roster.non_preemptible[job.job_id] = _why(job, consent, state, now)


def _why(job: Job, consent: Consent, state: State, now: float) -> str:
    rule = consent.rule(job)
    if rule.choice == NO:
        return {
            "": "jobs here are not preempted (preempt: usual=no)",
            "the job": "it asks for that (preempt=no)",
        }.get(rule.chosen_by, f"jobs of {rule.chosen_by} are not preempted (preempt=no)")
    lost = f"it states no checkpoint, and {duration(cost_gpu_s(job, now, state.view))} of GPU time would be lost"
    payers = consent.payers(job, state.cluster)
    if not payers:
        return f"{lost}; no job waits that could use its machines"
    waited_gpu_s = max(payer.waited_gpu_s for payer in payers)
    return f"{lost}; that is not paid for before one job has waited for twice that (now {duration(waited_gpu_s)})"
