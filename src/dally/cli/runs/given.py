"""From options to a scenario: a command asks for `given`, and its signature grows all options of a scenario."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any

from dally.cli.runs import many
from dally.cli.runs.scenario_options import OPTIONS, flag_of, option
from dally.cluster.network_spec import read_settings
from dally.errors import InputError
from dally.policies.registry import USUAL_POLICY
from dally.runs.going_on import saved_scenario
from dally.runs.scenario import Scenario, read_scenario
from dally.runs.world import merge

Command = Callable[..., None]
GIVEN = "given"  # the parameter that the options of a scenario take the place of


@dataclass(frozen=True)
class Given:
    """What the command line states of a scenario."""

    values: dict[str, Any] = field(default_factory=dict)  # by field, set.KEY or network.KEY
    start: Path | None = None  # --scenario
    listed: str | None = None  # --seeds

    def with_trace(self, name: str) -> Given:
        """The same with that trace, which stands on the command line without its option; empty: none does."""
        if name and "trace" in self.values:
            raise InputError(f"{name} and {flag_of('trace')} {self.values['trace']}: give one of them")
        return replace(self, values={**self.values, "trace": name}) if name else self

    def scenario(self) -> Scenario:
        """The scenario of --scenario, or an empty one, with what is given in its place."""
        if "snapshot" in self.values:
            return with_values(saved_scenario(Path(self.values["snapshot"])), self.values)
        base = read_scenario(self.start) if self.start else Scenario(trace="", cluster="", policy=USUAL_POLICY)
        return with_values(base, self.values)

    def seeds(self, usual: Sequence[int]) -> list[int]:
        """Those of --seeds, or the one of --seed, or the usual ones."""
        if self.listed is not None:
            return many.whole_numbers("--seeds", self.listed)
        return [self.values["seed"]] if "seed" in self.values else list(usual)


def with_values(base: Scenario, values: Mapping[str, Any]) -> Scenario:
    """The scenario with these values; digests of files that it no longer reads are dropped."""
    chosen = merge(base, values)
    if not base.digests:
        return chosen  # its files are looked at when it is run
    named = chosen.files()
    return replace(chosen, digests={name: digest for name, digest in base.digests.items() if name in named})


def require(scenario: Scenario, command: str, *names: str) -> None:
    """InputError if one of these fields is empty."""
    for name in names:
        if not getattr(scenario, name):
            raise InputError(f"{flag_of(name)} is missing; see `dally {command} --help`")


def takes_scenario(
    without: Mapping[str, str] | None = None, usual: Mapping[str, str] | None = None
) -> Callable[[Command], Command]:
    """Give a command all options of a scenario; they reach it as its first parameter, `given`.

    An option that the command declares itself is its own. `without` says why it has no use for others: who
    gives one of those is told. `usual` says what goes without an option where it is not as everywhere.
    """
    missing, usual = without or {}, usual or {}

    def decorate(command: Command) -> Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own[GIVEN]
        shared = [name for name in OPTIONS if name not in own]

        @wraps(command)
        def collect(**values: Any) -> None:
            stated = {name: values.pop(name) for name in shared}
            stated = {name: value for name, value in stated.items() if value not in (None, [])}
            for name in stated:
                if name in missing:
                    raise InputError(f"{flag_of(name)}: {missing[name]}")
            command(given_by(stated), **values)

        parameters = {name: own.pop(name) if name in own else _parameter(name, missing, usual) for name in OPTIONS}
        parameters |= own
        collect.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        collect.__annotations__ = {name: item.annotation for name, item in parameters.items()}
        return collect

    return decorate


def _parameter(name: str, missing: Mapping[str, str], usual: Mapping[str, str]) -> inspect.Parameter:
    shown = option(name, usual.get(name, ""), hidden=name in missing)
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=shown, annotation=OPTIONS[name].kind
    )


def given_by(stated: Mapping[str, Any]) -> Given:
    """The options that were stated, checked against each other."""
    for one, other in (("seed", "seeds"), ("failures", "failure_rate")):
        if one in stated and other in stated:
            pair = f"{flag_of(one)} {stated[one]} and {flag_of(other)} {stated[other]}"
            raise InputError(f"{pair}: give one of them")
    if "snapshot" in stated and "scenario" in stated:
        raise InputError("--from and --scenario: give one of them; a snapshot has a scenario of its own")
    if "failures" in stated and "repair_s" in stated:
        raise InputError(f"--repair-s {stated['repair_s']:g}: the file of --failures says when machines are back")
    values = dict(stated)
    start, listed = values.pop("scenario", None), values.pop("seeds", None)
    for name, table in (("settings", "set"), ("network_settings", "network")):
        texts = values.pop(name, [])
        values |= {f"{table}.{key}": text for key, text in read_settings(flag_of(name), texts).items()}
    return Given(values, start, listed)
