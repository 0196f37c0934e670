"""A what-if from the question to the answer: checked, calibrated, run, judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from dally.cluster.links import has_links
from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.metrics.record_evidence import RecordedJob, evidence_of
from dally.metrics.row import Row
from dally.runs.assemble import assemble
from dally.runs.folder import FolderRecord
from dally.runs.recorded_durations import places_of
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.calibration import (
    FEWEST,
    NETWORKS,
    POLICIES,
    Calibration,
    Carry,
    calibrate,
    fits_of,
    recorded_waits,
    usual_of,
)
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run
from dally.sweep.whatif import (
    NO_NETWORK,
    Answer,
    NewSide,
    Question,
    answer,
    both_sides,
    check_question,
    known_network,
    no_difference,
)
from dally.sweep.whatif_tables import in_a_sentence
from dally.sweep.whatif_verdict import Misplaced, judge
from dally.traces import History
from dally.traces.reading import start_s
from dally.traces.rows import NOT_KNOWN


class Asked(NamedTuple):
    """What a caller wants to know: how jobs run today, as far as that is known, and what would be different."""

    base: Scenario  # its policy counts if it is given
    policy_given: bool
    network: str  # '' is not given, none is none
    policy: Chosen
    seeds: Sequence[int]
    new: NewSide
    search: bool = True  # for the policy in use and its network, where they are not given
    same_policy: bool = False  # on both sides: `policy` does not count


class Posed(NamedTuple):
    """The question, checked; the cluster that is there; what may be in use."""

    question: Question
    topology: Topology
    network_assumed: bool
    policies: list[Chosen]
    networks: list[str]
    searched: bool
    history: History
    notes: dict[str, int]  # what the reader has to say of jobs
    places: Misplaced


class Told(NamedTuple):
    """All that came of it."""

    question: Question
    found: Answer
    values: dict[str, Any]  # whatif.json
    runs: list[Run]
    rows: Sequence[Row]


def pose(asked: Asked, history: History) -> Posed:
    """The question; what is wrong with the input is said here."""
    base = asked.base
    topology = read_topology(base.cluster)
    preset, assumed = known_network(topology, asked.network or base.network)
    if asked.network == NO_NETWORK and base.network_settings:
        raise InputError("--network none and --set-network: give one of them")
    policies = [Chosen(base.policy, base.settings)]
    if not asked.policy_given:
        policies = [Chosen(name, {}) for name in POLICIES] if asked.search else [usual_of([])]
    stated = base.network_settings or base.congestion or base.network_at
    networks = list(NETWORKS) if assumed and asked.search and not stated else [preset]
    in_use = usual_of(policies)
    base = replace(base, network=preset, policy=in_use.name, settings=in_use.settings)
    then = in_use if asked.same_policy else asked.policy
    question = Question(base, then, asked.seeds, asked.new, asked.same_policy)
    simulation, trace = assemble(base)
    placed = places_of(simulation.jobs, history.rows, topology)
    places = Misplaced(len(placed.ran), placed.elsewhere, placed.missing, placed.unused, topology.machine_count())
    check_question(question, topology, history)
    certain = len(policies) == 1 or len(recorded_waits(history)) < FEWEST
    if certain and in_use == then and not asked.new.changes() and not asked.new.changes_queues():
        raise no_difference(in_use.name)
    return Posed(question, topology, assumed, policies, networks, asked.search, history, trace.notes, places)


def tell(posed: Posed, folder: Path, carry: Carry, top: int, report: bool = False) -> Told:
    """The answer; what the runs leave goes into the folder. `carry` carries runs out."""
    history = posed.history
    base = posed.question.current
    chosen = calibrate(base, history, posed.policies, posed.networks, folder, carry)
    question = replace(
        posed.question,
        current=replace(base, policy=chosen.policy.name, settings=chosen.policy.settings, network=chosen.network),
        policy=chosen.policy if posed.question.same_policy else posed.question.policy,
    )
    runs = with_folders(both_sides(question, posed.topology, folder), folder / "runs", report=report)
    rows = carry(runs)
    found = answer(question, history, runs, rows, top)
    today = [FolderRecord(run.folder).jobs for run in runs[: len(question.seeds)] if run.folder]
    fits = fits_of(today, recorded_waits(history))
    label = chosen.policy.label()
    evidence = evidence_of(recorded_jobs(history), posed.topology.total_gpus())
    known = not posed.network_assumed or bool(chosen.evidence)
    verdict = judge(fits, evidence, posed.places, label, rows[0]["skipped"], known)
    posed = posed._replace(question=question)
    values = _values(posed, runs, rows, found) | {
        "verdict": asdict(verdict),
        "answer": in_a_sentence(found.total, question.labels()[1]),
        "fit": {name: asdict(part) for name, part in fits._asdict().items()},
        "calibration": _calibration(chosen, posed),
        "evidence": asdict(evidence),
        "places": posed.places._asdict(),
        "notes": posed.notes,
    }
    return Told(question, found, values, runs, rows)


def recorded_jobs(history: History) -> list[RecordedJob]:
    """Jobs whose start and running time stand in the record."""
    if history.length != "duration_s":
        return []
    return [
        RecordedJob(row.submit_s, start_s(row), start_s(row) + row.stated, row.spec)
        for row in history.rows
        if row.wait_s != NOT_KNOWN
    ]


def _calibration(chosen: Calibration, posed: Posed) -> dict[str, Any]:
    """What was chosen, and how that came about."""
    evidence = chosen.evidence
    return {
        "policy": chosen.policy.label(),
        "network": chosen.network,
        "searched": bool(chosen.tried),
        "skipped": chosen.skipped if posed.searched else "as --no-calibrate says",
        "policies": [policy.label() for policy in posed.policies],
        "networks": list(posed.networks),
        "tried": [asdict(one) for one in chosen.tried],
        "network_evidence": asdict(evidence) if evidence else None,
        "other_networks": chosen.other_networks(),
    }


def _values(posed: Posed, runs: Sequence[Run], rows: Sequence[Row], found: Answer) -> dict[str, Any]:
    """The answer, and what it stands on."""
    question, topology = posed.question, posed.topology
    current, new = question.labels()
    network = question.current.network
    connected = bool(network) or has_links(topology)
    return {
        "current": current,
        "new": new,
        "network": network,
        "network_assumed": posed.network_assumed,
        "links_stated": has_links(topology),
        "mix": question.current.mix,
        "seeds": question.seeds,
        "models_assumed": sum(not row.spec.model for row in posed.history.rows) if connected else 0,
        "gpus": [topology.total_gpus(), read_topology(runs[-1].scenario.cluster).total_gpus()],
        "skipped": rows[0]["skipped"],
        "no_longer_fit": rows[-1]["skipped"] if question.new.changes() else 0,
        **found.to_values(),
    }
