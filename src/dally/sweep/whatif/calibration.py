"""Which policy and network replay a record best: three quarters of its time choose, the last one checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dally.metrics.summary import Row
from dally.metrics.wait_fit import Wait, WaitFit, wait_fit
from dally.report.whatif_text import STATED
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run, make_run
from dally.sweep.whatif.network_evidence import NetworkEvidence, network_evidence
from dally.traces import History
from dally.traces.rows import NOT_KNOWN

if TYPE_CHECKING:
    import polars as pl

# What clusters run, likeliest first: of two that fit alike the earlier one is taken.
POLICIES = ("slurm-backfill", "fifo-backfill", "slurm-switches", "easy-backfill", "kueue-preferred", "fifo")
NETWORKS = ("normal", "slow", "congested", "fast", "")  # '' is none: places do not matter
USUAL = "fifo-backfill"  # where the record is too short to tell: it needs no time limits
FIRST_PART = 0.75  # of the time, to choose by; the rest is held out
FEWEST = 20  # jobs with a recorded wait; fewer prove nothing
ALIKE = 0.01  # misfits that are no farther apart say nothing

Carry = Callable[[list[Run]], Sequence[Row]]  # carries runs out, folders included


class Fits(NamedTuple):
    """How well a replay fits the record: in the first part of the time, in the last, and in all of it."""

    first: WaitFit
    held_out: WaitFit
    whole: WaitFit

    def off(self) -> float:
        """The figure to judge by: the worse of both parts, or all of it where one part has too few jobs."""
        enough = min(self.first.jobs, self.held_out.jobs) >= FEWEST
        return max(self.first.off, self.held_out.off) if enough else self.whole.off


@dataclass(frozen=True)
class Tried:
    """One setting and how far its replay is from the record."""

    policy: str
    network: str
    misfit: float  # in the first part
    off: float  # the same as a share


@dataclass(frozen=True)
class Calibration:
    """What was chosen, from what, and why."""

    policy: Chosen
    network: str
    tried: list[Tried]
    evidence: NetworkEvidence | None  # None: the network was not searched for, or the record does not tell
    skipped: str  # why nothing was searched; empty: something was

    def other_networks(self) -> list[str]:
        """Networks that running times do not rule out, the chosen one aside."""
        return [name for name in self.evidence.possible() if name != self.network] if self.evidence else []


def recorded_waits(history: History) -> dict[str, float]:
    """Seconds that each job waited, as far as that is known."""
    return {row.job_id: row.wait_s for row in history.rows if row.wait_s != NOT_KNOWN}


def fits_of(tables: Iterable[pl.DataFrame], recorded_s: dict[str, float]) -> Fits:
    """How well the waits of some jobs.csv, replays of the same record, fit it."""
    waits: list[Wait] = []
    for table in tables:
        for job_id, gpus, submit_s, start_s in table.select("job_id", "gpus", "submit_s", "start_s").iter_rows():
            if start_s is not None and job_id in recorded_s:
                waits.append(Wait(job_id, gpus, submit_s, recorded_s[job_id], start_s - submit_s))
    times = [wait.submit_s for wait in waits]
    split_s = min(times) + FIRST_PART * (max(times) - min(times)) if times else 0.0
    parts = [[wait for wait in waits if (wait.submit_s > split_s) == late] for late in (False, True)]
    return Fits(wait_fit(parts[0]), wait_fit(parts[1]), wait_fit(waits))


def calibrate(
    base: Scenario,
    history: History,
    policies: Sequence[Chosen],
    networks: Sequence[str],
    folder: Path,
    carry: Carry,
) -> Calibration:
    """The best of these policies and networks; the first of each where the record cannot tell."""
    recorded_s = recorded_waits(history)
    if len(policies) == len(networks) == 1:
        return Calibration(policies[0], networks[0], [], None, STATED)
    if len(recorded_s) < FEWEST:
        why = f"the trace records {len(recorded_s)} waits, and {FEWEST} are needed"
        return Calibration(usual_of(policies), networks[0], [], None, why)
    search = _Search(base, recorded_s, folder, carry)
    evidence = network_evidence(base, history, networks) if len(networks) > 1 else None
    likely = (evidence.possible() if evidence else []) or list(networks)
    policy = search.best([(policy, likely[0]) for policy in policies])[0]
    network = likely[0]
    if len(likely) > 1:
        network = search.best([(policy, name) for name in likely])[1]
        if network != likely[0]:
            policy = search.best([(one, network) for one in policies])[0]
    record = evidence if evidence and evidence.against else None
    return Calibration(policy, network, search.tried(), record, "")


def usual_of(policies: Sequence[Chosen]) -> Chosen:
    """The policy in use where nobody can tell: the one that is given, or the usual one."""
    return policies[0] if len(policies) == 1 else Chosen(USUAL, {})


class _Search:
    """Replays as they are asked for, each once."""

    def __init__(self, base: Scenario, recorded_s: dict[str, float], folder: Path, carry: Carry) -> None:
        self._base = base
        self._recorded_s = recorded_s
        self._folder = folder
        self._carry = carry
        self._fitted: dict[tuple[str, str], Tried] = {}
        self._digests: dict[str, str] = {}

    def best(self, pairs: Sequence[tuple[Chosen, str]]) -> tuple[Chosen, str]:
        """The pair that fits best; of those that fit alike the first."""
        self._try([pair for pair in pairs if (pair[0].label(), pair[1]) not in self._fitted])
        misfits = [self._fitted[policy.label(), network].misfit for policy, network in pairs]
        least = min(misfits)
        return next(pair for pair, misfit in zip(pairs, misfits, strict=True) if misfit <= least + ALIKE)

    def tried(self) -> list[Tried]:
        """All of them, the best fit first."""
        return sorted(self._fitted.values(), key=lambda one: one.misfit)

    def _try(self, pairs: Sequence[tuple[Chosen, str]]) -> None:
        runs = [self._run(policy, network) for policy, network in pairs]
        if not runs:
            return
        runs = with_folders(runs, self._folder / "calibration")
        self._carry(runs)
        for (policy, network), run in zip(pairs, runs, strict=True):
            assert run.folder is not None
            first = fits_of([FolderRecord(run.folder).jobs], self._recorded_s).first
            self._fitted[policy.label(), network] = Tried(policy.label(), network, first.misfit, first.off)

    def _run(self, policy: Chosen, network: str) -> Run:
        scenario = replace(self._base, policy=policy.name, settings=policy.settings, network=network)
        labels = {"calibration": "replay", "policy": policy.label(), "network": network or "none"}
        return make_run(scenario, labels, self._digests)
