"""One run among many: what defines it, what tells it from others, and how it is carried out."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import dally
from dally.errors import InputError
from dally.metrics.summary import summarize
from dally.policies import registry
from dally.report.cost import cost
from dally.report.run_folder import prepare_folder, write_run
from dally.scenario import Scenario, file_digest
from dally.sweep.row import Row, row_of
from dally.traces.formats import installed_code

# What a run's outcome does not depend on: a change there does not make it another run.
OUTSIDE = ("cli", "report", "sweep", "testing", "live", "web")


@dataclass(frozen=True)
class Run:
    """A scenario, what the tables call it, and a key: the digest of all that decides its outcome."""

    scenario: Scenario
    labels: dict[str, Any]
    key: str
    folder: Path | None = None  # where it leaves what `dally simulate --out` leaves
    report: bool = False  # report.html too

    def name(self) -> str:
        """The run in words."""
        return ", ".join(f"{name} {value}" for name, value in self.labels.items() if value != "")


def make_run(scenario: Scenario, labels: Mapping[str, Any], digests: dict[str, str]) -> Run:
    """The run, fit for a worker with another working directory; `digests` holds those of files met before.

    Files count by content: the same jobs under another name are the same run. A file that changes before
    a worker reads it is refused by the scenario.
    """
    named = set(scenario.files())
    values = ((field.name, getattr(scenario, field.name)) for field in fields(scenario))
    moved: dict[str, Any] = {
        name: str(Path(value).resolve()) for name, value in values if isinstance(value, str) and value in named
    }
    scenario = replace(scenario, **moved, policy=registry.absolute(scenario.policy))
    for name in scenario.files():
        if name not in digests:
            digests[name] = file_digest(name)
        if scenario.digests.get(name, digests[name]) != digests[name]:
            raise InputError(f"{name}: has changed since the scenario was written")
    scenario = replace(scenario, digests={name: digests[name] for name in scenario.files()})
    decisive = {**asdict(scenario), **{name: digests[path] for name, path in moved.items()}, "digests": {}}
    file = registry.policy_file(scenario.policy)
    if file:
        decisive["policy"] = scenario.policy.replace(file, digests[file], 1)
    others = [registry.installed_code(scenario.policy), installed_code(Path(scenario.trace), scenario.trace_format)]
    text = json.dumps([code_digest(), *filter(None, others), decisive], sort_keys=True)
    return Run(scenario, dict(labels), hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


@cache
def code_digest() -> str:
    """The digest of the version and of every source file that a run's outcome may depend on."""
    digest = hashlib.blake2b(dally.__version__.encode(), digest_size=16)
    home = Path(dally.__file__).parent
    for path in sorted(home.rglob("*")):
        inside = path.relative_to(home)
        if path.suffix in (".py", ".toml") and inside.parts[0] not in OUTSIDE:
            digest.update(f"{inside.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def execute(run: Run) -> Row:
    """Carry the run out: its row, and the CPU seconds it took."""
    gc.collect()
    gc.disable()  # as `dally simulate` does: all that a run makes lives to its end
    try:
        return _execute(run)
    finally:
        gc.enable()


def _execute(run: Run) -> Row:
    began_s, cpu_began_s = perf_counter(), process_time()
    scenario = run.scenario
    simulation, skipped = scenario.simulation()
    if run.folder:
        prepare_folder(run.folder)
    simulation.run(scenario.until_s)
    summary = {"policy": scenario.policy, "seed": scenario.seed, **summarize(simulation), "skipped": skipped}
    row = row_of(simulation, summary)
    spent = cost(began_s, cpu_began_s)
    if run.folder:
        write_run(run.folder, simulation, summary | spent, scenario.to_toml())
    if run.folder and run.report:
        from dally.report.html.build import build_page, write_page

        write_page(build_page(run.folder), run.folder / "report.html")
    return row | {"cpu_s": spent["cpu_s"]}
