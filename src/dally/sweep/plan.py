"""What a sweep varies and runs: a base, a grid and a random search, from a TOML file or from flags."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from dally.cluster.links import Links
from dally.cluster.presets import check_network
from dally.cluster.spec import is_grid
from dally.errors import InputError, at, unknown
from dally.input_file import read_text, shown
from dally.parsed_text import ACCEPTED, is_on
from dally.perf.catalogue import names_file
from dally.policies.registry import POLICIES, USUAL_POLICY, build, policy_file
from dally.runs.scenario import Scenario
from dally.runs.world import TABLES, merge
from dally.sweep.run import Run, check_count, make_run
from dally.toml import TomlFile, setting_text

FIELDS = {item.name: str(item.type) for item in fields(Scenario) if item.name not in (*TABLES.values(), "digests")}


def full_name(name: str) -> str:
    """The name with its table; a parameter of a policy may go without `set.`. InputError if nothing has it."""
    table, dot, rest = name.partition(".")
    if dot and table in TABLES:
        if table == "network" and rest not in Links._fields:
            raise unknown("parameter of networks", rest, Links._fields)
        return name  # what `set` may hold is for the policy to say, which may be a user's own
    if name in FIELDS:
        return name
    if name in _set_names():
        return f"set.{name}"
    raise unknown("parameter", name, [*FIELDS, *_set_names(), *(f"network.{item}" for item in Links._fields)])


def _set_names() -> list[str]:
    return list(dict.fromkeys(param.name for policy in POLICIES.values() for param in policy.params))


def convert(name: str, value: Any) -> Any:
    """The value as the parameter takes it; settings are text, as `--set` takes them."""
    desired = FIELDS.get(name, "str")
    try:
        if not isinstance(value, (str, int, float)) or (isinstance(value, bool) and desired not in ("bool", "str")):
            raise ValueError
        if desired == "bool":
            return is_on(value)
        if desired == "int":
            return int(str(value))
        if desired == "float":
            return float(value)
    except ValueError:
        kind = ACCEPTED if desired == "bool" else f"of type {desired}"
        raise InputError(f"{name}: {shown(value)}: must be {kind}") from None
    return setting_text(value)


NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER}):({NUMBER})((?::(?:log|int))*)", re.IGNORECASE)


class Range(NamedTuple):
    """Numbers from low to high, both included, evenly or by their logarithm."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def at(self, share: float) -> float | int:
        """The number below which that share of the range lies, to six digits."""
        low, high = (self.low, self.high + 1) if self.whole else (self.low, self.high)
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        if self.whole:
            return min(math.floor(value), int(self.high))
        return float(f"{value:.6g}")


def read_range(name: str, text: str) -> Range | None:
    """The range that LOW:HIGH, LOW:HIGH:log or LOW:HIGH:int states; None if the text is no range."""
    result = RANGE.fullmatch(text.strip())
    if result is None:
        return None
    kinds = result[3].lower().split(":")
    stated = Range(float(result[1]), float(result[2]), "log" in kinds, "int" in kinds)
    if not math.isfinite(stated.high - stated.low):
        raise InputError(f"{name}: {text}: both ends of a range must be finite, and not that far apart")
    if stated.whole and max(-stated.low, stated.high) >= 2.0**63:
        raise InputError(f"{name}: {text}: whole numbers have at most 64 bits")
    if not stated.low < stated.high:
        raise InputError(f"{name}: {text}: the range must go up")
    if stated.log and (stated.low <= 0.0 or stated.high / stated.low == math.inf):
        raise InputError(f"{name}: {text}: a logarithmic range must begin above 0, by less than 300 digits")
    if stated.whole and (stated.low != int(stated.low) or stated.high != int(stated.high)):
        raise InputError(f"{name}: {text}: a range of whole numbers must begin and end with one")
    return stated


def draw(seed: int, name: str, sample: int, choice: Range | list[Any]) -> Any:
    """What sample number so-and-so takes for the parameter: more samples do not change those before."""
    digest = blake2b(f"{seed}/{name}/{sample}".encode(), digest_size=8).digest()
    share = int.from_bytes(digest) / 2.0**64
    if isinstance(choice, Range):
        return choice.at(share)
    return choice[int(share * len(choice))]


FILES = ("trace", "cluster", "failures", "profiles", "past", "queues")  # may name a file; a cluster may be RxMxG


@dataclass
class Plan:
    """Every combination of the grid, and as many samples of the random part for each."""

    start: Scenario = field(default_factory=lambda: Scenario(trace="", cluster="", policy=USUAL_POLICY))
    base: dict[str, Any] = field(default_factory=dict)  # instead of what is there at the start
    grid: dict[str, list[Any]] = field(default_factory=dict)
    random: dict[str, Range | list[Any]] = field(default_factory=dict)
    samples: int = 0
    seed: int = 1

    def vary(self, text: str) -> str:
        """Add NAME=A,B,C (grid; split at semicolons if there are any) or NAME=LOW:HIGH[:log|:int] (random).

        Returns the parameter's full name.
        """
        options, equals, values = text.partition("=")
        if not equals:
            raise InputError(f"--vary {text}: must be NAME=A,B,C or NAME=LOW:HIGH")
        name = full_name(options.strip())
        self._forget(name)
        stated = read_range(f"--vary {options}", values)
        if stated:
            self.random[name] = stated
        else:
            parts = values.split(";" if ";" in values else ",")
            self.grid[name] = _distinct([convert(name, part.strip()) for part in parts])
        return name

    def fix(self, name: str, value: Any) -> None:
        """Set one value for all runs: it varies no longer."""
        self._forget(name)
        self.base[name] = convert(name, value)

    def _forget(self, name: str) -> None:
        self.grid.pop(name, None)
        self.random.pop(name, None)

    def runs(self) -> list[Run]:
        """All runs, labelled by what varies, in the order of the grid and then of the samples; all checked."""
        if self.random and self.samples < 1:
            raise InputError(f"{next(iter(self.random))} is a range: say how many samples to draw (--samples)")
        check_count(math.prod(map(len, self.grid.values())) * (self.samples if self.random else 1))
        digests: dict[str, str] = {}
        return [
            self._run(merge(self.start, {**self.base, **values}), values, digests)
            for values in self._combinations()
        ]

    def _combinations(self) -> list[dict[str, Any]]:
        drawn: list[dict[str, Any]] = [{}]
        if self.random:
            drawn = [
                {name: convert(name, draw(self.seed, name, number, of)) for name, of in self.random.items()}
                for number in range(self.samples)
            ]
        points = itertools.product(*self.grid.values())
        return [{**dict(zip(self.grid, point, strict=True)), **sample} for point in points for sample in drawn]

    def _run(self, scenario: Scenario, labels: dict[str, Any], digests: dict[str, str]) -> Run:
        for name in ("trace", "cluster"):
            if not getattr(scenario, name):
                raise InputError(f"{name} is missing: in [base], or as --{name}")
        build(scenario.policy, scenario.settings)
        if scenario.network:
            check_network(scenario.network)
        return make_run(scenario, {name: _number(value) for name, value in labels.items()}, digests)


def read_plan(path: Path) -> Plan:
    """The plan of a TOML file; files it names are looked for beside it."""
    text = read_text(path)
    try:
        file = TomlFile(path, text)
    except InputError as error:
        raise InputError(f"{error}; a plan is TOML, and a trace is given by --trace") from None
    for name, table in file.tables.items():
        if name not in ("base", "grid", "random") or not isinstance(table, dict):
            raise at(path, file.line(name), name, "unknown; a sweep has [base], [grid] and [random]")
    plan = Plan()
    for key in ("samples", "seed"):
        with file.blamed("random", key):
            usual = getattr(plan, key)
            setattr(plan, key, _whole(file.tables.get("random", {}).pop(key, usual), f"random.{key}"))
    for name, value, keys in _fields(file, "base"):
        with file.blamed(*keys):
            plan.base[full_name(name)] = _beside(path, full_name(name), convert(full_name(name), value))
    for name, value, keys in _fields(file, "grid"):
        with file.blamed(*keys):
            listed = _listed(full_name(name), value)
            plan.grid[full_name(name)] = [_beside(path, full_name(name), one) for one in listed]
    for name, value, keys in _fields(file, "random"):
        with file.blamed(*keys):
            plan.random[full_name(name)] = _range_or_list(full_name(name), value)
    return plan


def _fields(file: TomlFile, table: str) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Names and values of a table, and the keys that lead there: `set.lease_s` may also stand in a table `set`."""
    for name, value in file.tables.get(table, {}).items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", item, (table, name, key)) for key, item in value.items())
        else:
            yield name, value, (table, name)


def _listed(name: str, value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise InputError(f"{name}: the list is empty")
    return _distinct([convert(name, item) for item in values])


def _range_or_list(name: str, value: Any) -> Range | list[Any]:
    if isinstance(value, list):
        return _listed(name, value)
    stated = read_range(name, value) if isinstance(value, str) else None
    if stated is None:
        raise InputError(f'{name}: {shown(value)}: must be "LOW:HIGH", "LOW:HIGH:log", "LOW:HIGH:int" or a list')
    return stated


def _whole(value: Any, name: str) -> int:
    if type(value) is not int or value < 0:
        raise InputError(f"{name}: {shown(value)}: must be a whole number, not negative")
    return value


def _beside(path: Path, name: str, value: Any) -> Any:
    """A file's path seen from the plan's folder."""
    if name == "policy" and policy_file(value):
        return str(path.parent / value)
    if name not in FILES or not value or (name == "cluster" and is_grid(value)):
        return value
    if name == "profiles" and not names_file(value):
        return value
    return str(path.parent / value)


def _distinct(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _number(value: Any) -> Any:
    """A label as a number where it is one, so that tables sort and plot it."""
    if not isinstance(value, str) or not re.fullmatch(NUMBER, value, re.IGNORECASE):
        return value
    return int(value) if re.fullmatch(r"[-+]?\d+", value) else float(value)
