"""Policies and trace formats that other distributions bring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dally
from dally.entry_points import code_digest, installed
from dally.errors import InputError
from dally.policies.registry import POLICIES, all_policies, build, find
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import read_policies
from dally.sweep.run import make_run
from dally.traces import read_trace
from dally.traces.formats import find_format
from tests.distributions import install

POLICY = """
from dally.policies.declaration import NamedPolicy
from dally.policies.registry import build
from dally.policies.base import Policy

class Lazy(Policy):
    "Starts nothing."
    def __init__(self, rest_s: float = 5.0):
        self.rest_s = rest_s
    def schedule(self, now, queue, cluster):
        return []

ROW = NamedPolicy("x", lambda settings: build("fifo"), "by luck", "anywhere", "never", "nothing", "a paper")
"""
FORMAT = """
from dally.job_spec import JobSpec
from dally.traces.formats import Format
from dally.traces.rows import TraceRow

def rows(reading):
    for line, text in enumerate(reading.path.read_text().splitlines()[1:], 2):
        name, gpus = text.split("|")
        yield TraceRow(line, name, 0.0, JobSpec(int(gpus)), 10.0)

READER = Format(lambda lines: lines[0] == "%pipes", rows, False, "name|GPUs")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with two distributions, one of them in a bad state."""
    sources = {"lazy_policies": POLICY, "pipes": FORMAT}
    lines = {
        "dally.policies": "lazy = lazy_policies:Lazy\nlucky = lazy_policies:ROW\nlas = lazy_policies:Lazy",
        "dally.trace_formats": "pipes = pipes:READER\ncsv = pipes:READER",
    }
    install(tmp_path, "lazy-things", lines, sources)
    lines = {
        "dally.policies": "gone = no_such_module:X\nnumber = broken:NUMBER\ntwice = broken:NUMBER",
        "dally.trace_formats": "bad = broken:NUMBER",
    }
    install(tmp_path, "broken-things", lines, {"broken": "NUMBER = 1\n"})
    install(tmp_path, "other-things", {"dally.policies": "twice = lazy_policies:Lazy"}, {})
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path
    forget()
    for name in ("lazy_policies", "pipes", "broken"):
        sys.modules.pop(name, None)


def forget() -> None:
    installed.cache_clear()
    code_digest.cache_clear()


@pytest.mark.usefixtures("site")
def test_policies_are_found_by_name_with_their_parameters() -> None:
    assert type(build("lazy", {"rest_s": "7"})).__name__ == "Lazy"
    assert find("lazy").source == "lazy-things 1.0"
    assert (find("lucky").order, find("lucky").name) == ("by luck", "lucky")
    assert type(build("lucky")) is type(build("fifo"))
    assert [chosen.label() for chosen in read_policies(["dally-paper:floors=6,12,lazy,lazy:rest_s=1,lucky"])] == [
        "dally-paper:floors=6,12", "lazy", "lazy:rest_s=1", "lucky",
    ]  # fmt: skip


@pytest.mark.usefixtures("site")
def test_ours_cannot_be_replaced_and_broken_ones_harm_nobody() -> None:
    found, problems = all_policies()
    assert list(found) == [*POLICIES, "lazy", "lucky"]
    assert found["las"] is POLICIES["las"]
    said = {problem.split("'")[1]: problem for problem in problems}
    assert said.keys() == {"las", "gone", "number", "twice"}
    assert said["las"] == (
        "entry point 'las' (lazy_policies:Lazy) of lazy-things 1.0: the name 'las' is Dally's own; it is left out"
    )
    assert "of broken-things 1.0: cannot be loaded: ModuleNotFoundError: No module named" in said["gone"]
    assert "number: is no subclass of dally.Policy" in said["number"]
    assert "other-things 1.0 claims the same name; uninstall all but one" in said["twice"]


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: build("gone"), "broken-things 1.0: cannot be loaded"),
        (lambda: build("twice"), "claims the same name"),
        (lambda: build("lazi"), "unknown policy 'lazi'; did you mean 'lazy'?"),
        (lambda: find_format(Path("x"), "bad"), "broken-things 1.0: must be a dally.traces.formats.Format"),
        (lambda: find_format(Path("x"), "pipe"), "unknown trace format 'pipe'; did you mean 'pipes'?"),
    ],
)
def test_what_is_said_when_one_is_asked_for(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        ask()
    assert message in str(caught.value)


def test_trace_formats_are_told_by_content_or_by_name(site: Path) -> None:
    path = site / "jobs.txt"
    path.write_text("%pipes\na|4\nb|8\n")
    for name in ("auto", "pipes"):
        trace = read_trace(path, 8, format=name)
        assert (trace.format, [(job.job_id, int(job.gpus)) for job in trace.jobs]) == (
            "pipes",
            [("a", 4), ("b", 8)],
        )
    path.write_text("%tubes\n")
    with pytest.raises(InputError, match=r"no known format does; .* csv, pipes; entry point 'bad' .*; .* 'csv' is"):
        find_format(path)


def test_their_code_counts_in_the_key_of_a_run(site: Path) -> None:
    (site / "t.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,4,10\n")
    (site / "t.txt").write_text("%pipes\na|4\n")
    scenarios = [Scenario(str(site / "t.csv"), "1x8", "lazy"), Scenario(str(site / "t.txt"), "1x8", "fifo")]
    before = [make_run(one, {}, {}).key for one in scenarios]
    for module in ("lazy_policies", "pipes"):
        with (site / f"{module}.py").open("a") as file:
            file.write("# changed\n")
    forget()
    assert all(make_run(one, {}, {}).key != key for one, key in zip(scenarios, before, strict=True))


def command(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(dally.__file__).parents[1]), str(site)])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_dally_policies_names_their_distribution_and_warns_of_broken_ones(site: Path) -> None:
    done = command(site, "-m", "dally", "policies", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert (done.returncode, rows["lazy"]["source"], "source" in rows["las"]) == (0, "lazy-things 1.0", False)
    assert rows["lazy"]["parameters"] == [{"name": "rest_s", "default": 5.0, "about": ""}]
    assert done.stderr.count("dally: warning: entry point ") == 4
    assert "lazy comes with lazy-things 1.0" in command(site, "-m", "dally", "policies").stdout


def test_nothing_is_looked_for_as_long_as_names_are_ours(site: Path) -> None:
    code = "import dally.cli.main, sys; from dally.policies.registry import build; build('las')"
    done = command(site, "-c", f"{code}; print('importlib.metadata' in sys.modules)")
    assert done.stdout == "False\n", done.stderr
