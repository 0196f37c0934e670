"""A what-if from history: recorded jobs replayed as they run today and with a change, and both compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dally.cluster.formats.writers import to_toml
from dally.cluster.links import has_links
from dally.cluster.presets import NO_NETWORK, find_preset
from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.metrics.before_after import (
    HOUR_S,
    OWNERS,
    Group,
    by_owner,
    by_size,
    judged,
    losing_jobs,
    losing_users,
    paired,
    total,
)
from dally.metrics.summary import Row, mean
from dally.metrics.wait_fit import RecordedJob, evidence_of
from dally.policies.registry import USUAL_POLICY
from dally.report.whatif_text import in_a_sentence
from dally.runs.assemble import assemble, places_of
from dally.runs.folder import FolderRecord, prepare_folder
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Prepared, Run, comparison_runs, trace_loads
from dally.sweep.whatif.calibration import (
    FEWEST,
    NETWORKS,
    POLICIES,
    Calibration,
    Carry,
    RecordTrace,
    calibrate,
    fits_of,
    recorded_waits,
    usual_of,
)
from dally.sweep.whatif.change import (
    SECONDS,
    Change,
    Figure,
    JobChange,
    Replay,
    WhatIfAnswer,
    WhatIfSide,
    changed,
    check_sizes,
    today,
)
from dally.sweep.whatif.record_notes import record_notes, unended
from dally.sweep.whatif.recorded_limits import RecordedLimits, queues_text, recorded_limits
from dally.sweep.whatif.recorded_partitions import recorded_partitions
from dally.sweep.whatif.unended_jobs import still_running, with_running, with_waiting
from dally.sweep.whatif.verdict import Misplaced, judge
from dally.traces import History
from dally.traces.reading import start_s
from dally.traces.rows import NOT_KNOWN, TraceRow
from dally.traces.writing import text_of
from dally.whole_file import write_whole

if TYPE_CHECKING:
    import polars as pl

ASSUMED_NETWORK = "normal"
LIMITS_SEEN = (
    "are replayed with limits of GPUs that no file states: the record fits better if each {} holds no more than "
    "it ever did: {}"
)
PARTITIONS_SEEN = "are kept in the partition that the record names, on the machines that it shows of each: {}"
NAMED = 8  # jobs that an answer names among those that lose; its replay has all
FIGURES = {
    "wait_mean_s": ("waiting, mean", SECONDS),
    "wait_p50_s": ("waiting, median", SECONDS),
    "wait_p95_s": ("waiting, 95 %", SECONDS),
    "jct_mean_s": ("mean JCT", SECONDS),
    "gpu_h": ("GPU-hours held by jobs", "GPU-hours"),
    "comm_gpu_h": ("lost to communication", "GPU-hours"),
    "restart_gpu_h": ("lost to restarts", "GPU-hours"),
}


@dataclass(frozen=True)
class HistoryQuestion:
    """How the recorded jobs run today, as far as that is known, and what would be different."""

    base: Scenario  # its policy counts if it is given
    change: Change
    seeds: Sequence[int]
    policy_stated: bool = False
    network: str = ""  # '' is not given, none is none
    search: bool = True  # for the policy in use and its network, where they are not given

    def requested_change(self) -> Change:
        """The change with its policy: dally, unless it is about settings or queues of the one in use."""
        change = self.change
        of_policy_in_use = self.policy_stated if change.settings else change.changes_queues()
        return change if change.policy or of_policy_in_use else replace(change, policy=USUAL_POLICY)


class HistoryWhatIf:
    """One question about recorded jobs; what is wrong with the input is said as it is made."""

    def __init__(self, question: HistoryQuestion, history: History) -> None:
        base = question.base
        self._question = question
        self._history = history
        self._change = question.requested_change()
        self._topology = read_topology(base.cluster)
        preset, self._network_assumed = known_network(self._topology, question.network or base.network)
        if question.network == NO_NETWORK and base.network_settings:
            raise InputError("--network none and --set-network: give one of them")
        self._policies = [Chosen(base.policy, base.settings)]
        if not question.policy_stated:
            self._policies = [Chosen(name, {}) for name in POLICIES] if question.search else [usual_of([])]
        stated = base.network_settings or base.congestion or base.network_at
        search = self._network_assumed and question.search and not stated
        self._networks = list(NETWORKS) if search else [preset]
        self._before = self._today(usual_of(self._policies), preset)
        simulation, trace = assemble(self._before.config)
        self._notes = trace.notes | record_notes(history, self._topology)
        placed = places_of(simulation.jobs, history.rows, self._topology)
        self._places = Misplaced(
            len(placed.ran), placed.elsewhere, placed.missing, len(placed.unused), self._topology.machine_count()
        )
        self._unused = placed.unused
        self.runs: list[Run] = []  # of the answer: today's side first
        self._check()

    def today(self) -> WhatIfSide[Scenario]:
        """How the jobs run today; the policy and the network are found once there is an answer."""
        return self._before

    def _today(self, policy: Chosen, network: str) -> WhatIfSide[Scenario]:
        base = replace(self._question.base, policy=policy.name, settings=policy.settings, network=network)
        return today(base, self._topology)

    def _check(self) -> None:
        """InputError for what cannot be asked, before anything is run."""
        change, before = self._change, self._before
        after = changed(change, before)
        if change.changes_cluster() and not before.config.skip_impossible:
            sizes = ((row.job_id, row.spec.gpus) for row in self._history.rows)
            check_sizes(sizes, after, "; --skip-impossible leaves such jobs out")
        certain = len(self._policies) == 1 or len(recorded_waits(self._history)) < FEWEST
        if certain and after.label == before.label:
            raise no_difference(before.config.policy)

    def answer(self, folder: Path, carry: Carry, top: int, report: bool = False) -> WhatIfAnswer:
        """The answer; what the runs leave goes into the folder. `carry` carries runs out."""
        history, seeds = with_running(self._history), self._question.seeds
        if history is not self._history:
            self._replay(RecordTrace(history, recorded_trace(history, folder, "with-running.txt")))
        self._keep_partitions(folder)
        base = self._before.config
        limits, queues = self._limits_shown(folder)
        waiting = self._with_waiting(folder)
        chosen = calibrate(base, history, self._policies, self._networks, folder, carry, queues, waiting)
        if waiting is not None and chosen.waiting:
            history = self._replay(waiting)
        if chosen.queues and limits:
            self._question = replace(self._question, base=replace(self._question.base, queues=chosen.queues))
            self._notes = self._notes | {LIMITS_SEEN.format(limits.kind, limits.text()): len(history.rows)}
        before = self._before = self._today(chosen.policy, chosen.network)
        after = changed(self._change, before, folder)
        runs = both_sides(before, after, self._change, seeds, folder)
        runs = self.runs = with_folders(runs, folder / "runs", report=report)
        rows = list(carry(runs))
        tables = [FolderRecord(run.folder).jobs for run in runs if run.folder]
        compared, top_users = compare(history, tables, rows, seeds, top)
        fits = fits_of(tables[: len(seeds)], recorded_waits(history))
        evidence = evidence_of(recorded_jobs(history), self._topology.total_gpus())
        known = not self._network_assumed or bool(chosen.evidence)
        # A machine that stays idle in the replay too, on this very cluster, says nothing of another one.
        self._places = self._places._replace(unused=len(self._unused & machines_used(runs[0])))
        held = {partition.name for partition in self._topology.partitions} | set(self._topology.gpu_types)
        beside = replayed_beside_free(runs[0], self._topology.total_gpus())
        free = unended(history) - still_running(history)  # GPUs of jobs that the record has to its end
        verdict = judge(fits, evidence, self._places, before.label, rows[0]["skipped"], known, held, beside, free)
        values = self._inputs(before, after, rows) | compared
        values |= {
            "verdict": asdict(verdict),
            "answer": in_a_sentence(values["total"], after.label, verdict.rough_by()),
            "fit": {name: asdict(part) for name, part in fits._asdict().items()},
            "calibration": self._calibration(chosen),
            "evidence": asdict(evidence),
            "places": self._places._asdict(),
            "notes": self._notes,
        }
        return answer_of(Replay(values, top_users, rows))

    def _keep_partitions(self, folder: Path) -> None:
        """Keep jobs in their partitions, where the record shows them and the cluster's file does not."""
        partitions = recorded_partitions(self._topology, self._history.rows)
        if not partitions:
            return
        cluster = folder / "partitions.toml"
        prepare_folder(folder)
        self._topology.partitions = partitions
        write_whole(cluster, to_toml(self._topology).encode())
        self._question = replace(self._question, base=replace(self._question.base, cluster=str(cluster)))
        self._before = self._today(usual_of(self._policies), self._before.config.network)
        names = ", ".join(partition.name for partition in partitions)
        self._notes = self._notes | {PARTITIONS_SEEN.format(names): len(self._history.rows)}

    def _limits_shown(self, folder: Path) -> tuple[RecordedLimits | None, str]:
        """Limits that the record may show, and a file of queues that have them, unless the site's are given."""
        if self._question.base.queues or len(self._policies) == 1:
            return None, ""
        limits = recorded_limits(recorded_jobs(self._history), self._topology.total_gpus())
        if limits is None:
            return None, ""
        prepare_folder(folder)
        write_whole(folder / "limits.toml", queues_text(limits).encode())
        return limits, str(folder / "limits.toml")

    def _with_waiting(self, folder: Path) -> RecordTrace | None:
        """The record with jobs that waited at its end, as a file in the folder, if there are any that could run."""
        history = with_waiting(self._history)
        if history is self._history:
            return None
        return RecordTrace(history, recorded_trace(history, folder, "with-waiting.txt"))

    def _replay(self, record: RecordTrace) -> History:
        """Replay these jobs instead, and say so; the record with them."""
        base = replace(self._question.base, trace=str(record.path), trace_format="sacct", zone="UTC")
        self._question = replace(self._question, base=base)
        before, now = (record_notes(history, self._topology) for history in (self._history, record.history))
        self._notes = {what: count for what, count in self._notes.items() if what not in before} | now
        self._history = record.history
        self._before = self._today(usual_of(self._policies), self._before.config.network)
        return record.history

    def _calibration(self, chosen: Calibration) -> dict[str, Any]:
        """What was chosen, and how that came about."""
        return {
            "policy": chosen.policy.label(),
            "network": chosen.network,
            "limits": bool(chosen.queues),
            "waiting": chosen.waiting,
            "searched": bool(chosen.tried),
            "skipped": chosen.skipped if self._question.search else "as --no-calibrate says",
            "policies": [policy.label() for policy in self._policies],
            "networks": list(self._networks),
            "tried": [asdict(one) for one in chosen.tried],
            "network_evidence": asdict(chosen.evidence) if chosen.evidence else None,
            "other_networks": chosen.other_networks(),
        }

    def _inputs(
        self, before: WhatIfSide[Scenario], after: WhatIfSide[Scenario], rows: Sequence[Row]
    ) -> dict[str, Any]:
        """What the answer stands on."""
        network, stated = before.config.network, has_links(self._topology)
        return {
            "current": before.label,
            "new": after.label,
            "network": network,
            "network_assumed": self._network_assumed,
            "links_stated": stated,
            "mix": before.config.mix,
            "seeds": self._question.seeds,
            "models_assumed": sum(not row.spec.model for row in self._history.rows) if network or stated else 0,
            "gpus": [side.topology.total_gpus() for side in (before, after)],
            "skipped": rows[0]["skipped"],
            "no_longer_fit": rows[-1]["skipped"] if self._change.changes_cluster() else 0,
        }


def recorded_trace(history: History, folder: Path, name: str) -> Path:
    """The record as a file in the folder."""
    prepare_folder(folder)
    write_whole(folder / name, "".join(text_of(history, "sacct")).encode())
    return folder / name


def replayed_beside_free(run: Run, gpus: int) -> float:
    """Of the jobs that waited in the replay, the share that did so while as many GPUs as they ask for were free."""
    assert run.folder is not None
    table = FolderRecord(run.folder).jobs.select("submit_s", "start_s", "finish_s", "gpus").drop_nulls()
    jobs = [
        RecordedJob(submit_s, begin_s, end_s, JobSpec(size)) for submit_s, begin_s, end_s, size in table.iter_rows()
    ]
    evidence = evidence_of(jobs, gpus)
    return evidence.waited_beside_free / max(evidence.waited, 1)


def machines_used(run: Run) -> set[str]:
    """Names of the machines on which jobs of the run started."""
    assert run.folder is not None
    events = FolderRecord(run.folder).events
    return set(events.filter(events["kind"] == "start")["machines"].explode().drop_nulls().to_list())


def known_network(topology: Topology, name: str | None) -> tuple[str, bool]:
    """The preset to replay on, and whether it had to be assumed; empty: links as the topology states them."""
    if name == NO_NETWORK:
        if has_links(topology):
            raise InputError("--network none: the topology states links of its own")
        return "", False
    if name:
        find_preset(name)
        return name, False
    return ("", False) if has_links(topology) else (ASSUMED_NETWORK, True)


def no_difference(policy: str) -> InputError:
    """An InputError for a question with two equal sides."""
    options = (
        "--policy, --set, --new-topology, --cluster-delta, --new-network, --new-queues, --quota or --new-elastic"
    )
    return InputError(f"nothing would be different from --current {policy}: give {options}")


def both_sides(
    before: WhatIfSide[Scenario], after: WhatIfSide[Scenario], change: Change, seeds: Sequence[int], folder: Path
) -> list[Run]:
    """The runs of today's side, then those of the other; files that they need go into the folder."""
    current, base = before.config, after.config
    loads = trace_loads([current.trace], current.cluster, seeds)
    runs = comparison_runs(loads, [current.network], [Chosen(current.policy, current.settings)], current)
    shown = current.network
    if change.changes_cluster():
        loads = dict.fromkeys(loads, same_work(current, after.topology, seeds, folder))
        base = replace(base, trace_format="csv", zone="UTC", durations="closest")
        if change.network:
            shown = f"{current.network or 'as stated'} to {base.network}"
    others = comparison_runs(loads, [base.network], [Chosen(base.policy, base.settings)], base)
    if [run.key for run in runs] == [run.key for run in others]:
        raise no_difference(current.policy)
    return [
        replace(run, labels=run.labels | {"network": shown, "policy": label})
        for side, label in ((runs, before.label), (others, after.label))
        for run in side
    ]


def same_work(current: Scenario, topology: Topology, seeds: Sequence[int], folder: Path) -> dict[int, Prepared]:
    """The other cluster and the work of the same jobs, seed by seed, as files in the folder."""
    return on_cluster(topology, work_traces(current, seeds, folder), folder)


def work_traces(current: Scenario, seeds: Sequence[int], folder: Path) -> dict[int, Path]:
    """The work of the jobs, seed by seed, as files in the folder."""
    prepare_folder(folder / "traces")
    traces = {seed: folder / "traces" / f"same-work-{seed}.csv" for seed in seeds}
    for seed, trace in traces.items():
        write_whole(trace, _work_text(replace(current, seed=seed)).encode())
    return traces


def on_cluster(topology: Topology, traces: dict[int, Path], folder: Path) -> dict[int, Prepared]:
    """These traces on the cluster, whose file goes into the folder."""
    prepare_folder(folder)
    cluster = folder / "cluster.toml"
    write_whole(cluster, to_toml(topology).encode())
    return {seed: Prepared(trace, str(cluster)) for seed, trace in traces.items()}


def _work_text(scenario: Scenario) -> str:
    """A trace of the same jobs by their compute time, so that what the network adds is worked out anew.

    Recorded times hold on the network that is there; on a faster one the same work takes less.
    """
    simulation, _ = assemble(scenario)
    connected = bool(scenario.network) or has_links(simulation.state.cluster.topology)
    speed = simulation.state.speed
    rows = [
        TraceRow(
            0, job.job_id, job.submit_s, replace(job.spec, model=job.model),
            job.duration_s / speed.closest_s(job, 1.0),
        )
        for job in simulation.jobs
    ]  # fmt: skip
    length = "compute_s" if connected else "duration_s"
    return "".join(text_of(History(rows, length, "csv", {}, {}, None), "csv"))


def compare(
    history: History, tables: Sequence[pl.DataFrame], rows: Sequence[Row], seeds: Sequence[int], top: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The two sides compared, from the jobs and rows of their runs; and the `top` users with the others as one."""
    half = len(seeds)
    owners = {kind: {row.job_id: getattr(row.spec, kind) for row in history.rows} for kind in OWNERS}
    queues = _queues(tables)
    owners |= {"queue": queues} if queues else {}
    pairs = zip(tables[:half], tables[half:], seeds, strict=True)
    jobs = judged([paired(current, new, owners, seed) for current, new, seed in pairs])
    if jobs.is_empty():
        raise InputError("no job finished on both sides: there is nothing to compare")
    compared = {*jobs["job_id"]}
    gpu_h = sum(row.spec.gpus * row.stated for row in history.rows if row.job_id in compared) / HOUR_S
    known = set.intersection(*({*table["job_id"]} for table in tables))
    makespans = [row["makespan_s"] for row in rows]
    current, new = makespans[:half], makespans[half:]
    saved = [before - after for before, after in zip(current, new, strict=True)]
    groups = {
        "users": by_owner(jobs, "user"),
        "accounts": by_owner(jobs, "account") if any(owners["account"].values()) else [],
        "partitions": by_owner(jobs, "partition") if any(owners["partition"].values()) else [],
        "sizes": by_size(jobs),
        "losing_users": losing_users(jobs),
    }
    groups |= {"queues": by_owner(jobs, "queue")} if queues else {}
    values = {
        "total": _values(total(jobs)),
        "makespan_s": {"current": mean(current), "new": mean(new)},
        "makespan_ranges": {
            name: (min(of), max(of)) for name, of in (("current", current), ("new", new), ("saved", saved))
        },
        "unfinished": len(known - compared),
        "recorded_gpu_h": gpu_h if history.length == "duration_s" else None,
        **{name: [_values(group) for group in listed] for name, listed in groups.items()},
        "losing_jobs": losing_jobs(jobs),
    }
    return values, [_values(group) for group in by_owner(jobs, "user", top)]


def _values(group: Group) -> dict[str, Any]:
    return {**asdict(group), "saved_gpu_h": group.saved_gpu_h()}


def _queues(tables: Sequence[pl.DataFrame]) -> dict[str, str]:
    """Which job is whose: by the new side's queues, else by today's."""
    owners: dict[str, str] = {}
    for table in tables:
        if "queue" in table.columns:
            owners |= dict(table.select("job_id", "queue").iter_rows())
    return owners


def recorded_jobs(history: History) -> list[RecordedJob]:
    """Jobs whose start and running time stand in the record."""
    if history.length != "duration_s":
        return []
    return [
        RecordedJob(row.submit_s, start_s(row), start_s(row) + row.stated, row.spec, row.runs)
        for row in history.rows
        if row.wait_s != NOT_KNOWN
    ]


def answer_of(replay: Replay) -> WhatIfAnswer:
    """The answer that a replay's values give."""
    values = replay.values
    both = values["total"]
    return WhatIfAnswer(
        values["answer"],
        values["current"],
        values["new"],
        [_figure(both, name, *about) for name, about in FIGURES.items()],
        [],
        [
            JobChange(job["job_id"], "", job["user"], job["gpus"], "ended", job["current_jct_s"], job["new_jct_s"])
            for job in values["losing_jobs"][:NAMED]
        ],
        both["jobs"],
        both["better"],
        both["worse"],
        len(values["seeds"]),
        "over seeds",
        [f"{reason[:1].upper()}{reason[1:]}." for reason in values["verdict"]["reasons"]],
        values["verdict"]["text"],
        replay,
    )


def _figure(both: dict[str, Any], name: str, label: str, unit: str) -> Figure:
    before, after = both["current"][name], both["new"][name]
    low, high = both["ranges"].get(f"saved_{name}", (before - after, before - after))
    return Figure(name, label, unit, before, after, after - before, -high, -low)
