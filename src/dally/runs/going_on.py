"""Runs that stop and go on: what is noted beside a snapshot, and how a scenario starts from one."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from dally.engine.simulate import Simulation
from dally.engine.snapshot import load, note_of, save
from dally.errors import InputError
from dally.policies.registry import Built, build
from dally.runs.scenario import Scenario, parse_scenario
from dally.runs.team_setup import policy_for
from dally.traces import Trace

MAY_DIFFER = (
    "policy",
    "settings",
    "until_s",
    "jitter",
    "snapshot",
    "digests",
)  # from the saved run


class Keep(NamedTuple):
    """Where to save a run on its way, and when: before the first cycle after that moment."""

    path: Path
    at_s: float


def keep(simulation: Simulation, scenario: Scenario, trace: Trace, stop: Keep) -> None:
    """Save the run between two cycles, with what is needed to go on without its trace."""
    record = {"skipped": trace.skipped, "unused": trace.unused, "notes": trace.notes, "epoch_s": trace.epoch_s}
    save(simulation, stop.path, {"scenario": scenario.to_toml(), "trace": record, "at_s": stop.at_s})


def saved_scenario(path: Path) -> Scenario:
    """The scenario of the run that is saved there, set to go on from there."""
    note = note_of(path)
    if "scenario" not in note:
        raise InputError(f"{path}: no scenario was noted: it was not saved by `dally simulate --snapshot`")
    result = parse_scenario(path, note["scenario"])
    return replace(result, snapshot=str(path), digests={})


def go_on(scenario: Scenario) -> tuple[Simulation, Trace]:
    """The saved run, ready to go on: under its own policy, or from here on under the scenario's."""
    path = Path(scenario.snapshot)
    saved = saved_scenario(path)
    _check_alike(scenario, saved)
    policy = build(saved.policy, saved.settings)  # a user's file must be loaded before its objects are read
    same = (saved.policy, saved.settings) == (scenario.policy, scenario.settings)
    simulation = load(path, Simulation, admit=[type(policy).__module__])
    if scenario.until_s < simulation.now:
        raise InputError(f"--until {scenario.until_s:g}: the run in {path} is at {simulation.now:g} s already")
    note = note_of(path)
    if not same:
        simulation.now = max(simulation.now, note["at_s"])  # nothing happened since the latest cycle
        cluster = simulation.state.cluster
        built = Built(scenario.policy, scenario.settings)
        simulation.change_policy(
            policy_for(built, scenario.queues, simulation.jobs, cluster.topology, cluster.network)
        )
    simulation.state.costs = simulation.state.costs._replace(jitter=scenario.jitter)
    record: dict[str, Any] = note["trace"]
    trace = Trace(
        simulation.jobs, [], record["skipped"], "duration_s", "snapshot", record["unused"], record["notes"],
        record["epoch_s"],
    )  # fmt: skip
    return simulation, trace


def _check_alike(scenario: Scenario, saved: Scenario) -> None:
    """InputError if the scenario asks for what cannot change on the way."""
    for item in fields(Scenario):
        desired, was = getattr(scenario, item.name), getattr(saved, item.name)
        named_alike = (
            isinstance(desired, str) and desired and os.path.realpath(desired) == was
        )  # saved by full path
        if item.name not in MAY_DIFFER and desired != was and not named_alike:
            raise InputError(
                f"{scenario.snapshot}: {item.name}: {desired!r}: the saved run has {was!r}; "
                "its policy, settings and end can change, nothing else"
            )
