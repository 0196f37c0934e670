"""Prints docs/api.md: signatures and docstrings from the code, examples with what they print.

usage: python scripts/api_page.py > docs/api.md
"""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from textwrap import fill
from typing import Any

from dally import api
from dally.api.inputs import ScenarioFields
from dally.cli.runs.scenario_options import OPTIONS
from dally.runs.scenario import Scenario

ROOT = Path(__file__).parent.parent
WIDTH = 116
HEAD = """# Python

The commands are also functions. They take paths or DataFrames and return small objects with
[polars](https://pola.rs) frames, which notebooks show as tables. `import dally` is fast: each function imports
what it needs when you call it. [The tutorial notebook](tutorial.ipynb) shows all of them. `make docs` writes this
page: change the code, not the page.

"""
TAKES = """
## Arguments

- A **trace** (`TraceLike`) is a path to a file of any format of [file formats](formats.md), or a DataFrame (polars
  or pandas) with the columns of the plain csv: `job_id`, `submit_s`, `gpus`, `duration_s` and more if known.
- A **cluster** (`ClusterLike`) is a text such as `4x16x8` (racks x machines x GPUs), a path to a topology file, or
  a `dally.cluster.Topology`.
- A **policy** (`PolicyLike`) is a name from `dally policies`, a text `file.py:Class`, a subclass of
  `dally.Policy`, or an object of one. [Writing a policy](writing-a-policy.md) describes the contract.
  Each run gets a copy of the object, so the object itself does not change. Classes and objects run in this
  process; a `scenario.toml` names them, but cannot load them again.
- **Settings** are a dict; values may be numbers, switches and text.
- With `out`, all files except HTML pages are also written to that folder, as by the commands. Without it, a result
  keeps its files in a temporary folder, which is removed with the result.
- Other workers are new processes. A script that uses them must guard its calls with `if __name__ == "__main__":`,
  as Python's multiprocessing requires; notebooks need no guard.
"""
KEYWORDS = """
### Fields of a scenario

`simulate`, `compare` and `whatif` take these fields as keywords; `compare` and `whatif` also take `seeds`, and
`compare` takes `networks`.

"""
ERRORS = """
## Errors

Bad input raises `dally.InputError`, never `SystemExit`. The message is that of the command line; its options are
keywords here. For a DataFrame it names the column and the row, counted from 0. Exceptions of your own policy are
not wrapped and keep their traceback.

"""
SIMULATE = """
import dally

run = dally.simulate("examples/jobs.csv", "2x2x8", "las", {"lease_s": 600}, network="slow")
print(repr(run))
print(run.jobs.select("job_id", "gpus", "queue_s", "preemptions", "tier"))
print(run.explain("e"))
"""
FRAMES = """
import polars as pl

import dally

jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0, 60], "gpus": [24, 16], "duration_s": [3600, 1800]})
run = dally.simulate(jobs, "2x2x8", "fifo")
print(run.summary["jct_mean_s"], run.jobs["start_s"].to_list())
page = run.report("report.html")  # the page about the run, which is also returned as text
"""
COMPARE = """
from collections.abc import Iterator

import dally
from dally import Action, Cluster, Policy, Queue, Start, best_fit


class Together(Policy):
    \"\"\"First come, first served, and only on one machine or in one rack if the gang fits there.\"\"\"

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for job in queue:
            for tier in range(cluster.topology.closest_tier(job.gpus) + 1):
                allocation = best_fit(cluster, tier, job.gpus, job.group)
                if allocation is not None:
                    yield Start(job, allocation)
                    break


found = dally.compare("examples/jobs.csv", "2x2x8", ["fifo", "las:lease_s=600", Together], network="congested")
print(found)
print(found.table.select("policy", "jct_mean_s", "preemptions"))
print(found.run("Together").explain("c"))
"""
WHATIF = """
import dally

found = dally.whatif("examples/jobs.csv", "2x2x8", "easy-backfill", current="fifo", cluster_delta="+1 rack")
print(found.answer)
print(found.users.select("name", "jobs", "saved_gpu_h", "current_wait_mean_s", "new_wait_mean_s"))
"""
READ_RUN = """
import dally

dally.simulate("examples/jobs.csv", "2x2x8", "fifo", out="runs/fifo")
print(repr(dally.read_run("runs/fifo")))
"""
WRONG = """
import polars as pl

import dally

jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0, 60], "gpus": ["8", "many"], "duration_s": [3600, 1800]})
try:
    dally.simulate(jobs, "2x2x8")
except dally.InputError as error:
    print(error)
"""
FUNCTIONS: dict[Any, tuple[str, ...]] = {
    api.simulate: (SIMULATE, FRAMES),
    api.compare: (COMPARE,),
    api.whatif: (WHATIF,),
    api.read_run: (READ_RUN,),
}
RESULTS = (api.RunResult, api.JobHistory, api.ComparisonResult, api.WhatIfResult)


def sections() -> Iterator[str]:
    """The functions with examples, what they take, what they give, and errors."""
    yield HEAD
    for function, examples in FUNCTIONS.items():
        yield f"## dally.{function.__name__}\n\n```text\n{signature(function)}\n```\n\n{said_of(function)}\n\n"
        yield from (shown(code) for code in examples)
    yield TAKES.lstrip("\n")
    yield KEYWORDS
    yield from keywords()
    yield "\n## Results\n"
    for result in RESULTS:
        yield f"\n### {result.__name__}\n\n{said_of(result)}\n\n"
        yield from members(result)
    yield ERRORS
    yield shown(WRONG).rstrip("\n") + "\n"


def signature(function: Any) -> str:
    """The call, a parameter per line, types as the code writes them."""
    lines = []
    for item in inspect.signature(function).parameters.values():
        if item.kind is item.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        lines.append("    **fields," if item.kind is item.VAR_KEYWORD else f"    {parameter(item)},")
    given = inspect.signature(function).return_annotation
    return "\n".join([f"dally.{function.__name__}(", *lines, f") -> {given}"])


def parameter(item: inspect.Parameter) -> str:
    """A parameter as the code writes it; annotations are texts there, and would be shown in quotes."""
    stars = "**" if item.kind is item.VAR_KEYWORD else ""
    default = "" if item.default is item.empty else f" = {item.default!r}"
    return f"{stars}{item.name}: {item.annotation}{default}"


def said_of(what: Any) -> str:
    """The docstring, in lines of the page's width."""
    paragraphs = (inspect.getdoc(what) or "").split("\n\n")
    return "\n\n".join(fill(" ".join(text.split()), WIDTH) for text in paragraphs)


def keywords() -> Iterator[str]:
    """The table of keywords: what the option of the same meaning says of itself."""
    defaults = {item.name: item.default for item in fields(Scenario)}
    yield "| keyword | default | meaning |\n| --- | --- | --- |\n"
    for name in ScenarioFields.__annotations__:
        default = {} if defaults[name] is MISSING else defaults[name]  # tables begin empty
        meaning = OPTIONS[name].help.replace("|", r"\|")
        yield f"| `{name}` | `{default!r}` | {meaning} (`{OPTIONS[name].flags[0]}`) |\n"


def members(result: type) -> Iterator[str]:
    """The table of what an object has: properties, then methods, in the order of the code."""
    yield "| | |\n| --- | --- |\n"
    for name, member in vars(result).items():
        if name.startswith("_"):
            continue
        call = name
        if not isinstance(member, property):
            taken = [parameter(item) for item in inspect.signature(member).parameters.values()][1:]  # without self
            call = f"{name}({', '.join(taken)})".replace("|", "\\|")
        yield f"| `{call}` | {said_of(member)} |\n"


def shown(code: str) -> str:
    """The example as it is run, and what it prints."""
    code = code.strip("\n")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        done = subprocess.run(
            [sys.executable, "-"], input=code, cwd=folder, capture_output=True, encoding="utf-8", check=False
        )
    if done.returncode:
        raise SystemExit(f"{code}\n\n{done.stderr}")
    return f"```python\n{code}\n```\n\n```text\n{done.stdout.rstrip()}\n```\n\n"


def main() -> None:
    """Write the page to stdout."""
    sys.stdout.writelines(sections())


if __name__ == "__main__":
    main()
