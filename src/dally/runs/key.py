"""The key of a run: a digest of all that decides its outcome, so that a finished run is known again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import dally
from dally.errors import InputError
from dally.policies import registry
from dally.runs.scenario import Scenario, file_digest
from dally.traces.formats import installed_code

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
