"""Which policy and network replay a record best: three quarters of its time choose, the last one checks.

Waits cannot tell networks apart: with recorded places taken out, every network replays them alike. But jobs of one
user, name, size and model do the same thing again and again. Where they ran at different places, the network shows
in their running times: taken out as the right network has it, the work of such jobs lies closest together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from dally.metrics.summary import Row
from dally.metrics.wait_fit import Wait, WaitFit, wait_fit
from dally.perf.recorded_work import recorded_work
from dally.report.whatif_text import STATED
from dally.runs.assemble import assemble, places_of
from dally.runs.folder import FolderRecord, prepare_folder
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run, make_run
from dally.traces import History
from dally.traces.reading import start_s
from dally.traces.rows import NOT_KNOWN, TraceRow
from dally.traces.writing import text_of
from dally.whole_file import write_whole

if TYPE_CHECKING:
    import polars as pl


RULED_OUT = 3.0  # the record is e³ ≈ 20 times likelier under the best network
SHOWS = 0.01  # a group tells something if places cost its jobs differently by more than that
USUAL_DEVIATION = 0.05  # one more job in each group lies that far off: two that happen to agree prove little
FEWEST_JOBS = 10
SECOND = 1.0  # shorter runs count as that

Works = list[float]  # log of seconds, job by job


@dataclass(frozen=True)
class NetworkEvidence:
    """How much less likely the record is under each network than under the best: differences of log-likelihood."""

    jobs: int  # in groups that tell something
    groups: int
    against: dict[str, float]  # by network; 0 for the best; {}: the record tells nothing

    def possible(self) -> list[str]:
        """Networks that are not ruled out, the best first."""
        remaining = [name for name in self.against if self.against[name] <= RULED_OUT]
        return sorted(remaining, key=lambda name: self.against[name])


def network_evidence(base: Scenario, history: History, networks: Sequence[str]) -> NetworkEvidence:
    """What running times say about these networks; '' stands for none."""
    rows = [row for row in history.rows if row.nodes and row.spec.model and row.spec.name and row.stated >= SECOND]
    if len(rows) < FEWEST_JOBS:
        return NetworkEvidence(0, 0, {})
    works: dict[str, dict[str, float]] = {}
    for network in networks:
        simulation, _ = assemble(replace(base, network=network, durations="closest"))
        placed = places_of(simulation.jobs, history.rows, simulation.state.cluster.topology)
        result = recorded_work(simulation.state.speed, placed.ran)
        works[network] = {
            record.job.job_id: math.log(max(work_s, SECOND))
            for record, work_s in zip(placed.ran, result, strict=True)
        }
    return likelihoods(groups_of(rows, works), works)


def groups_of(rows: Sequence[TraceRow], works: dict[str, dict[str, float]]) -> list[list[str]]:
    """Ids of jobs that do the same thing and whose places cost them differently under one of the networks."""
    alike: dict[tuple[str, str, int, str], list[TraceRow]] = {}
    placed = next(iter(works.values()))
    for row in rows:
        if row.job_id in placed:
            alike.setdefault((row.spec.user, row.spec.name, row.spec.gpus, row.spec.model), []).append(row)
    result: list[list[str]] = []
    for group in alike.values():
        costs = [[math.log(row.stated) - works[name][row.job_id] for row in group] for name in works]
        if len(group) > 1 and max(max(one) - min(one) for one in costs) > SHOWS:
            result.append([row.job_id for row in group])
    return result


def likelihoods(groups: Sequence[Sequence[str]], works: dict[str, dict[str, float]]) -> NetworkEvidence:
    """The networks by how close together the works of each group lie: Laplace's law, a scale for each group."""
    jobs = sum(map(len, groups))
    if jobs < FEWEST_JOBS:
        return NetworkEvidence(jobs, len(groups), {})
    scores = {
        name: sum(_spread([result[job_id] for job_id in group]) for group in groups)
        for name, result in works.items()
    }
    best = min(scores.values())
    return NetworkEvidence(jobs, len(groups), {name: score - best for name, score in scores.items()})


def _spread(works: Works) -> float:
    middle = median(works)
    deviation = (sum(abs(work - middle) for work in works) + USUAL_DEVIATION) / len(works)
    return (len(works) - 1) * math.log(deviation)


# What clusters run, likeliest first: of two that fit alike the earlier one is taken.
POLICIES = ("slurm-backfill", "fifo-backfill", "slurm-switches", "easy-backfill", "kueue-preferred", "fifo")
# Settings of these that sites use, tried for the best of them: gangs insist on their closest tier, or Slurm runs
# with priority/basic.
VARIANTS: dict[str, tuple[dict[str, str], ...]] = {
    "slurm-backfill": ({"fair_share": "0", "size": "0"},),
    **{name: ({"tier": "closest"},) for name in ("fifo", "fifo-backfill", "easy-backfill")},
}
VARIED = 3  # policies, the best so far: they are tried under another network and with other settings, too
NETWORKS = ("normal", "slow", "congested", "fast", "")  # '' is none: places do not matter
USUAL = "fifo-backfill"  # where the record is too short to tell: it needs no time limits
FIRST_PART = 0.75  # of the time, to choose by; the rest is held out
SAMPLE = 2400  # jobs to choose by, where there are more: the time of a replay grows faster than its jobs
SAMPLE_FILL = 600  # jobs before these, which do not count
FEWEST = 20  # jobs with a recorded wait; fewer prove nothing
CLOSE_OFF = 0.1  # in log: fits that are no farther apart are distinguished by single jobs
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
    limits: bool = False  # with those that the record shows
    waiting: bool = False  # with the jobs that waited at its end


@dataclass(frozen=True)
class Calibration:
    """What was chosen, from what, and why."""

    policy: Chosen
    network: str
    tried: list[Tried]
    evidence: NetworkEvidence | None  # None: the network was not searched for, or the record does not tell
    skipped: str  # why nothing was searched; empty: something was
    queues: str = ""  # a file with limits that the record shows, if the replay fits better with them
    waiting: bool = False  # whether it fits better with the jobs that waited at its end

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
        for job_id, gpus, submit_s, begin_s in table.select("job_id", "gpus", "submit_s", "start_s").iter_rows():
            if begin_s is not None and job_id in recorded_s:
                waits.append(Wait(job_id, gpus, submit_s, recorded_s[job_id], begin_s - submit_s))
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
    limits: str = "",
    waiting: RecordTrace | None = None,
) -> Calibration:
    """The best of these policies and networks; the first of each where the record cannot tell.

    `limits` is a file of queues to try too, `waiting` the record with jobs that waited at its end. Coarse first:
    policies with and without limits, then networks, then the settings of the policies that fit best, then the jobs
    that waited. These are left out only where the record fits better without them: nothing tells which were held.
    """
    recorded_s = recorded_waits(history)
    if len(policies) == len(networks) == 1:
        return Calibration(policies[0], networks[0], [], None, STATED)
    if len(recorded_s) < FEWEST:
        why = f"the trace records {len(recorded_s)} waits, and {FEWEST} are needed"
        return Calibration(usual_of(policies), networks[0], [], None, why)
    sample, sampled_s = busiest(base, history, folder)
    search = _Search(sample, sampled_s or recorded_s, folder, carry)
    evidence = network_evidence(base, history, networks) if len(networks) > 1 else None
    likely = (evidence.possible() if evidence else []) or list(networks)
    candidates = [
        ReplaySetting(one, likely[0], queues) for queues in dict.fromkeys(("", limits)) for one in policies
    ]
    best = search.best(candidates)
    if len(likely) > 1:
        best = search.best([best._replace(network=name) for name in likely])
        if best.network != likely[0]:
            near = search.ordered(candidates)[:VARIED]
            candidates = [one._replace(network=best.network) for one in candidates if one in near]
            best = search.best(candidates)
    if len(policies) > 1:
        near = [one for one in search.ordered(candidates) if one.queues == best.queues][:VARIED]
        finer = [one._replace(policy=policy) for one in near for policy in variants(one.policy)]
        best = search.best([best, *finer])
    if waiting is not None:
        traced = replace(base, trace=str(waiting.path), trace_format="sacct", zone="UTC")
        traced, _ = busiest(traced, waiting.history, folder, "busiest-waiting.csv")
        best = search.best([best._replace(trace=traced.trace), best])
    record = evidence if evidence and evidence.against else None
    return Calibration(best.policy, best.network, search.tried(), record, "", best.queues, bool(best.trace))


def busiest(
    base: Scenario, history: History, folder: Path, name: str = "busiest.csv"
) -> tuple[Scenario, dict[str, float]]:
    """The jobs of the longest waits in a row, to choose by, and their waits; of few jobs all, and no waits.

    They are of the first part of the time, so that the last one checks the choice. Jobs that ran or waited as the
    first of them came are there too; neither these nor the first count.
    """
    rows = sorted(history.rows, key=lambda row: row.submit_s)
    if len(rows) <= SAMPLE + SAMPLE_FILL:
        return base, {}
    first_s, last_s = rows[0].submit_s, rows[-1].submit_s
    early = sum(row.submit_s <= first_s + FIRST_PART * (last_s - first_s) for row in rows)
    waits_s = [max(row.wait_s, 0.0) for row in rows]
    length = SAMPLE + SAMPLE_FILL
    starts = range(0, max(early - length, 0) + 1, SAMPLE_FILL)
    start = max(starts, key=lambda place: sum(waits_s[place + SAMPLE_FILL : place + length]))
    chosen = rows[start : start + length]
    earlier = still_there(rows[:start], chosen[0].submit_s)
    prepare_folder(folder / "calibration")
    trace = folder / "calibration" / name
    write_whole(trace, "".join(text_of(history._replace(rows=earlier + chosen), "csv")).encode())
    counted = {row.job_id: row.wait_s for row in chosen[SAMPLE_FILL:] if row.wait_s != NOT_KNOWN}
    if len(counted) < FEWEST:
        return base, {}
    return replace(base, trace=str(trace), trace_format="csv", zone="UTC"), counted


def still_there(rows: Sequence[TraceRow], at_s: float) -> list[TraceRow]:
    """Of earlier jobs, those that ran at that moment, from their starts on, and those that waited, from then on."""
    known = [row for row in rows if row.wait_s != NOT_KNOWN and start_s(row) + row.stated > at_s]
    ran = [row._replace(submit_s=start_s(row), wait_s=0.0) for row in known if start_s(row) <= at_s]
    waited = [
        row._replace(submit_s=at_s, wait_s=start_s(row) - at_s)
        for row in sorted(known, key=lambda row: row.submit_s)
        if start_s(row) > at_s
    ]
    return [*sorted(ran, key=lambda row: row.submit_s), *waited]


def variants(policy: Chosen) -> list[Chosen]:
    """The policy with other settings that sites use: tried once the policy itself is chosen."""
    return [Chosen(policy.name, dict(settings)) for settings in VARIANTS.get(policy.name, ())]


def usual_of(policies: Sequence[Chosen]) -> Chosen:
    """The policy in use where nobody can tell: the one that is given, or the usual one."""
    return policies[0] if len(policies) == 1 else Chosen(USUAL, {})


SettingKey = tuple[str, str, str, str]


class RecordTrace(NamedTuple):
    """A record and its file."""

    history: History
    path: Path


class ReplaySetting(NamedTuple):
    """What a replay runs under."""

    policy: Chosen
    network: str
    queues: str = ""
    trace: str = ""  # with the jobs that waited at its end; empty: the record as it is

    def key(self) -> SettingKey:
        """The same, to look it up by."""
        return self.policy.label(), self.network, self.queues, self.trace


class _Search:
    """Replays as they are asked for, each once."""

    def __init__(self, base: Scenario, recorded_s: dict[str, float], folder: Path, carry: Carry) -> None:
        self._base = base
        self._recorded_s = recorded_s
        self._folder = folder
        self._carry = carry
        self._fitted: dict[SettingKey, Tried] = {}
        self._digests: dict[str, str] = {}

    def best(self, settings: Sequence[ReplaySetting]) -> ReplaySetting:
        """The one whose waits fit best; where these are alike, the one whose single jobs do, then the first."""
        self._try([setting for setting in settings if setting.key() not in self._fitted])
        fitted = [self._fitted[setting.key()] for setting in settings]
        limit = math.log1p(min(one.off for one in fitted)) + CLOSE_OFF
        close = [one for one in fitted if math.log1p(one.off) <= limit]
        least = min(one.misfit for one in close)
        chosen = next(one for one in close if one.misfit <= least + ALIKE)
        return settings[fitted.index(chosen)]

    def ordered(self, settings: Sequence[ReplaySetting]) -> list[ReplaySetting]:
        """These, the best fit first; all were tried."""
        return sorted(settings, key=lambda setting: self._fitted[setting.key()].off)

    def tried(self) -> list[Tried]:
        """All of them, the best fit first."""
        return sorted(self._fitted.values(), key=lambda one: one.off)

    def _try(self, settings: Sequence[ReplaySetting]) -> None:
        runs = [self._run(setting) for setting in settings]
        if not runs:
            return
        runs = with_folders(runs, self._folder / "calibration")
        self._carry(runs)
        for setting, run in zip(settings, runs, strict=True):
            assert run.folder is not None
            first = fits_of([FolderRecord(run.folder).jobs], self._recorded_s).first
            policy = setting.policy.label()
            self._fitted[setting.key()] = Tried(
                policy, setting.network, first.misfit, first.off, bool(setting.queues), bool(setting.trace)
            )

    def _run(self, setting: ReplaySetting) -> Run:
        policy = setting.policy
        scenario = replace(self._base, policy=policy.name, settings=policy.settings, network=setting.network)
        labels = {"calibration": "replay", "policy": policy.label(), "network": setting.network or "none"}
        if setting.queues:
            scenario = replace(scenario, queues=setting.queues)
            labels |= {"limits": "as recorded"}
        if setting.trace:
            of_csv = setting.trace.endswith(".csv")
            scenario = replace(scenario, trace=setting.trace, trace_format="csv" if of_csv else "sacct", zone="UTC")
            labels |= {"jobs": "with waiting"}
        return make_run(scenario, labels, self._digests)
