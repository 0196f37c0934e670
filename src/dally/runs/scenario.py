"""A scenario: everything that defines a run, as text that repeats it, and the key by which it is known again."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import dally
from dally.cluster.spec import cluster_files
from dally.errors import InputError, unknown
from dally.input_file import read_text, regular
from dally.parsed_text import whole_64
from dally.perf.catalogue import names_file
from dally.perf.profiles import find_model, load_profiles
from dally.policies import registry
from dally.policies.registry import policy_file, setting_files
from dally.runs.elastic_option import read_elastic
from dally.runs.health_option import health_file, read_health
from dally.runs.progress_option import read_reports
from dally.runs.world import WorldConfig
from dally.toml import TomlFile, toml_lines
from dally.traces import companions
from dally.traces.formats import installed_code
from dally.traces.mixes import find_mix

# Running times as they would be at the closest placement, alone; or as they were where the trace says.
DURATIONS = ("closest", "recorded")

# What policies know of jobs' sensitivity to the network: their models, or what their steps show.
# A model's name: all jobs are taken for that one.
SENSITIVITIES = ("known", "hidden")


@dataclass
class _Inputs:
    trace: str
    cluster: str


@dataclass
class Scenario(WorldConfig, _Inputs):
    """The inputs of one run, as scenario.toml holds them. Files are named by absolute path and digest."""

    seed: int = 1
    until_s: float = float("inf")
    skip_impossible: bool = False
    jitter: int = 0  # number of the replication: restarts differ by up to 1 µs; 0: by nothing
    failures: str = ""
    failure_rate: float = 0.0  # per machine and day
    repair_s: float = 3600.0
    job_progress: str = ""  # share=0.8,after=300,…: which jobs say how long they take: docs/progress.md
    sensitivity: str = "known"  # to the network, as the policy knows it: known, hidden, or as of one model
    health: str = ""  # a file, or stragglers=0.02,factor=1.3,…: what is slow or fails more: docs/health.md
    elastic: str = ""  # share=0.5,min=0.5,max=2,…: which jobs may run on other numbers of GPUs: docs/elastic.md
    network_at: str = ""  # SECONDS=SHARE,…: links have that share of their bandwidth from then on
    mix: str = "benchmark"  # gives models to jobs that name none, where speed depends on them
    trace_format: str = "auto"  # told by the trace's content
    strict: bool = False  # rows of the trace that cannot be used are errors
    zone: str = "UTC"  # of local times in the trace
    durations: str = "closest"  # what the trace's durations hold: one of DURATIONS
    past: str = ""  # a trace of an earlier time, for policies that predict
    snapshot: str = ""  # a saved run of this scenario, from where it goes on; its policy may be another
    digests: dict[str, str] = field(default_factory=dict)  # sha256 by file name

    def __post_init__(self) -> None:
        """InputError for what is too large to be drawn from, wherever it was stated."""
        for name in ("seed", "jitter"):
            whole_64(_option(name), getattr(self, name))

    def check(self) -> None:
        """Raise an InputError unless its numbers make sense and its files are what they were."""
        find_mix(self.mix)
        if self.durations not in DURATIONS:
            raise unknown("way to read durations", self.durations, DURATIONS)
        self.check_costs(_option)
        for name in ("until_s", "jitter", "failure_rate"):
            if not getattr(self, name) >= 0.0:
                raise InputError(f"{_option(name)} {getattr(self, name):g}: must not be negative")
        if not 0.0 < self.repair_s < float("inf"):
            raise InputError(f"{_option('repair_s')} {self.repair_s:g}: must be more than 0 and finite")
        if self.failure_rate == float("inf"):
            raise InputError(f"{_option('failure_rate')} inf: must be finite")
        read_reports(self.job_progress, self.seed)
        if self.sensitivity not in SENSITIVITIES:
            find_model(self.sensitivity, load_profiles(Path(self.profiles)) if self.profiles else None)
        read_health(self.health)
        read_elastic(self.elastic)
        for name, digest in self.digests.items():
            if file_digest(name) != digest:
                raise InputError(f"{name}: has changed since the scenario was written")

    def files(self) -> list[str]:
        """The files it reads."""
        named = [policy_file(self.policy), *cluster_files(self.cluster), *self._setting_files().values()]
        if self.snapshot:  # it holds all that was read from the others
            return [self.snapshot, *(name for name in named if name)]
        own = self.profiles if names_file(self.profiles) else ""
        named += [self.trace, self.failures, health_file(self.health), own, self.past, self.queues]
        beside = companions(Path(self.trace), self.trace_format) if self.trace else []
        return [name for name in named if name] + [str(path) for path in beside]

    def file_fields(self) -> dict[str, str]:
        """The fields that name a file, and the file that each names."""
        files = {*self.files()}
        names = ("trace", "cluster", "failures", "health", "profiles", "past", "queues", "snapshot")
        fields = {name: getattr(self, name) for name in names}
        fields["policy"] = policy_file(self.policy)
        return {name: file for name, file in fields.items() if file in files}

    def _setting_files(self) -> dict[str, str]:
        return setting_files(self.policy, self.settings)

    def resolved(self) -> Scenario:
        """The same with files by absolute path, so that it reads the same from any folder."""
        moved: dict[str, Any] = {
            name: _moved(getattr(self, name), file) for name, file in self.file_fields().items()
        }
        learnt = {key: os.path.realpath(file) for key, file in self._setting_files().items()}
        return replace(self, **moved, settings=self.settings | learnt)

    def to_toml(self) -> str:
        """The text of scenario.toml."""
        values = asdict(self.resolved())
        values["digests"] = {os.path.realpath(name): file_digest(name) for name in self.files()}
        tables = {name: values.pop(name) for name in ("settings", "network_settings", "preempt", "digests")}
        lines = toml_lines(values)
        for name, table in tables.items():
            lines += ["", f"[{name}]", *toml_lines(table)]
        return "\n".join(lines) + "\n"


def _moved(value: str, file: str) -> str:
    """What a field says of a file, with the file's absolute path."""
    return os.path.realpath(file) + value.removeprefix(file)


def read_scenario(path: Path) -> Scenario:
    """The scenario that the file describes."""
    return parse_scenario(path, read_text(path))


def parse_scenario(path: Path, text: str) -> Scenario:
    """The scenario that a text in that file describes."""
    defaults = asdict(Scenario("", ""))
    values = TomlFile(path, text).fields(defaults)
    for name in ("trace", "cluster", "policy"):
        if name not in values:
            raise InputError(f"{path}: {name}: missing")
    return Scenario(**values)


def _option(name: str) -> str:
    """The option that sets a field."""
    short = {"until_s": "until", "checkpoint_every_s": "checkpoint-every"}.get(name, name)
    return "--" + short.replace("_", "-")


def file_digest(name: str) -> str:
    """The SHA-256 of a file."""
    path = regular(Path(name))
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None


# Folders above `runs`: by the rules of imports nothing that computes a run or its row can lie there.
ABOVE = ("api", "benchmark", "cli", "live", "report", "sweep", "testing", "web")


def keyed(scenario: Scenario, digests: dict[str, str]) -> tuple[Scenario, str]:
    """The scenario, fit for a worker with another working directory, and its key.

    Files count by content: the same jobs under another name are the same run. A file that changes before
    a worker reads it is refused by the scenario. `digests` holds those of files met before.
    """
    scenario = scenario.resolved()
    for name in scenario.files():
        if name not in digests:
            digests[name] = file_digest(name)
        if scenario.digests.get(name, digests[name]) != digests[name]:
            raise InputError(f"{name}: has changed since the scenario was written")
    scenario = replace(scenario, digests={name: digests[name] for name in scenario.files()})
    named = scenario.file_fields()
    beside = sorted(digests[name] for name in scenario.files() if name not in named.values())
    decisive = asdict(scenario) | {"digests": beside}
    for name, file in named.items():
        decisive[name] = decisive[name].replace(file, digests[file], 1)
    # Policies and trace formats that other distributions bring.
    others = [registry.installed_code(scenario.policy), installed_code(Path(scenario.trace), scenario.trace_format)]
    text = json.dumps([code_digest(), *filter(None, others), decisive], sort_keys=True)
    return scenario, hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@cache
def code_digest() -> str:
    """The digest of every file of ours that can change a run or its row."""
    return digest_below(Path(dally.__file__).parent)


def digest_below(home: Path) -> str:
    """The digest of the version, and of all files in and below the folder but those in folders above `runs`."""
    digest = hashlib.blake2b(dally.__version__.encode(), digest_size=16)
    for path in sorted(home.rglob("*")):
        inside = path.relative_to(home)
        if path.suffix in (".py", ".toml") and inside.parts[0] not in ABOVE:
            digest.update(f"{inside.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()
