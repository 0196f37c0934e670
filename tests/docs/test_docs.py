"""The documentation is true: its commands and code run and print what it says, its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import dally
from dally.metrics.jobs_csv import JOB_COLUMNS
from dally.model import KIND_NAMES
from dally.policies.registry import POLICIES
from tests.docs.background import Background, viewed

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL_TOOLS = ("cat", "cmp")  # run as they are
SKIPPED = ("make", "git", "pip", ".venv/bin/pytest")  # set-up, and this very test
ANY_LINES = "..."
VOLATILE = re.compile(r"[\d.]+ s CPU, \d+ MB")


class Block(NamedTuple):
    """A fenced block: what stands after the fence, and its lines."""

    kind: str
    lines: list[str]


class Command(NamedTuple):
    """A command of a page, the exit code and, if shown, the output it must have."""

    text: str
    exit_code: int
    output: list[str]
    stdin: str | None = None


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of a page."""
    found = re.findall(r"^```(\w[^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [Block(kind, text.splitlines()) for kind, text in found]


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a console block with their output, or those of a bash block without."""
    lines = iter(block.lines)
    text = ""
    output: list[str] = []
    for line in lines:
        if block.kind == "console" and not line.startswith("$ "):
            output.append(line)
            continue
        if text:
            yield command(text, output)
        text, output = line.removeprefix("$ "), []
        while text.endswith("\\"):
            text = text[:-1] + next(lines)
    if text:
        yield command(text, output)


def command(text: str, output: list[str]) -> Command:
    """The command with the exit code that its comment states."""
    stated = re.search(r"# exit code (\d+)", text)
    return Command(text, int(stated[1]) if stated else 0, list(output))


def matches(expected: list[str], actual: list[str]) -> bool:
    """Whether the lines agree; `...` stands for any lines, and what depends on the machine is not compared."""
    if not expected:
        return not actual
    if expected[0] == ANY_LINES:
        return any(matches(expected[1:], actual[skip:]) for skip in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and matches(expected[1:], actual[1:])


def plain(text: str) -> list[str]:
    """The lines to compare: no trailing blanks, no empty lines, no measured figures."""
    lines = (VOLATILE.sub("(measured)", line.rstrip()) for line in text.splitlines())
    return [line for line in lines if line]


def environment(folder: Path) -> dict[str, str]:
    """With the dally under test."""
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(dally.__file__).parents[1]), str(folder / "examples")])
    env["PYTHONIOENCODING"] = "utf-8"
    return env


def run(
    argv: list[str], folder: Path, stdin: str | None = None, more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder, stderr joined to stdout."""
    return subprocess.run(
        argv,
        cwd=folder,
        env=environment(folder) | (more or {}),
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )


def argv_of(text: str) -> list[str] | None:
    """How to run a command of the docs; None: not to be run here."""
    words = shlex.split(text, comments=True)
    while words and re.fullmatch(r"[A-Z]+=\S*", words[0]):
        words = words[1:]
    if not words or words[0] in SKIPPED:
        return None
    if words[0] == "dally":
        return [sys.executable, "-m", *words]
    assert words[0] in SHELL_TOOLS, f"do not know whether to run: {text}"
    return words


def check(given: Command, argv: list[str], folder: Path, server: Background) -> None:
    if argv[2:4] == ["dally", "serve"]:
        said = server.start(argv, folder, environment(folder))
    elif argv[2:4] == ["dally", "view"]:
        said = viewed(argv, folder, environment(folder))
    else:
        server.settle()
        done = run(argv, folder, given.stdin, server.env)
        assert done.returncode == given.exit_code, f"{given.text}\n{done.stdout}"
        said = done.stdout
    expected = plain(server.told("\n".join(given.output)))
    actual = plain(server.told(said))
    if given.output or argv[0] == "cmp":
        assert matches(expected, actual), "\n".join(
            [given.text, "-- the docs say", *expected, "-- it says", *actual]
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_code_run_as_shown(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    server = Background(tmp_path)
    try:
        follow(blocks_of(page), tmp_path, server)
    finally:
        server.stop()


def follow(blocks: list[Block], tmp_path: Path, server: Background) -> None:
    """Do what a page says, in its order."""
    for place, block in enumerate(blocks):
        following = blocks[place + 1] if place + 1 < len(blocks) else Block("", [])
        if block.kind in ("console", "bash"):
            for given in commands_of(block):
                argv = argv_of(given.text)
                if argv is not None:
                    check(given, argv, tmp_path, server)
        elif block.kind == "python":
            output = following.lines if following.kind == "text" else []
            code = "\n".join(block.lines)
            check(Command(code, 0, output, stdin=code), [sys.executable, "-"], tmp_path, server)
        elif " file=" in block.kind:
            name = block.kind.partition(" file=")[2]
            (tmp_path / name).write_text("\n".join(block.lines) + "\n", encoding="utf-8")


def test_commands_are_found() -> None:
    given = [command.text for page in PAGES for block in blocks_of(page) for command in commands_of(block)]
    assert sum(text.startswith("dally") for text in given) > 10


def test_outputs_that_differ_are_noticed() -> None:
    assert matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert matches(["..."], [])
    assert not matches(["a", "...", "d"], ["a", "b", "c"])
    assert not matches(["a"], ["a", "b"])
    assert not matches(["b"], ["a"])
    assert plain("events  18 in 0.25 s CPU, 81 MB \n\n") == plain("events  18 in 1.00 s CPU, 9 MB")


def test_example_policy_is_the_one_in_the_docs() -> None:
    code = (ROOT / "examples" / "my_policy.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in (ROOT / "docs" / "writing-a-policy.md").read_text(encoding="utf-8")
    assert len(code.splitlines()) < 50


def test_example_cluster_is_the_one_in_the_docs() -> None:
    text = (ROOT / "examples" / "lab.toml").read_text(encoding="utf-8")
    assert f"```toml\n{text}```" in (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("script", "page"),
    [
        ("cli_reference.py", "cli.md"),
        ("policies_page.py", "policies.md"),
        ("reconcile_page.py", "reconcile.md"),
        ("api_page.py", "api.md"),
    ],
)
def test_generated_page_is_up_to_date(tmp_path: Path, script: str, page: str) -> None:
    done = run([sys.executable, str(ROOT / "scripts" / script)], tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout == (ROOT / "docs" / page).read_text(encoding="utf-8"), "run `make docs`"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors_of(linked), f"{page.name}: {target}"


def anchors_of(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_field_of_a_run_is_explained(tmp_path: Path) -> None:
    """Tables of concepts.md name each key, column and event kind in their first cell."""
    import polars as pl

    trace, cluster = str(ROOT / "examples" / "jobs.csv"), str(ROOT / "examples" / "lab.toml")
    done = run(
        [sys.executable, "-m", "dally", "simulate", "--trace", trace, "--cluster", cluster, "--out", "run"],
        tmp_path,
    )
    assert done.returncode == 0, done.stdout
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    event_columns = pl.read_parquet_schema(tmp_path / "run" / "events.parquet")
    slot_columns = pl.read_parquet_schema(tmp_path / "run" / "slots.parquet")
    concepts = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^### (\S+)$(.*?)(?=^##|\Z)", concepts, re.DOTALL | re.MULTILINE))
    for fields, text in (
        (summary, parts["summary.json"]),
        (JOB_COLUMNS, parts["jobs.csv"]),
        (event_columns, parts["events.parquet"]),
        (slot_columns, parts["slots.parquet"]),
        (KIND_NAMES, concepts),
    ):
        assert [name for name in fields if f"| `{name}` |" not in text] == []
    assert list(re.findall(r"^\| `(\w+)` \|", parts["jobs.csv"], re.MULTILINE)) == list(JOB_COLUMNS)
    assert set(re.findall(r"^\| `(\w+)` \|", parts["summary.json"], re.MULTILINE)) == set(summary)


def test_ten_questions_of_an_operator_have_one_command_each() -> None:
    """That they run and print what the page says is tested with all other pages."""
    text = (ROOT / "docs" / "operator.md").read_text(encoding="utf-8")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert [part.partition(".")[0] for part in parts] == [str(number) for number in range(1, 11)]
    for part in parts:
        assert part.partition("\n")[0].endswith("?")
        assert len(re.findall(r"^\$ dally ", part, re.MULTILINE)) == 1


def test_readme_counts_the_policies_of_others() -> None:
    """All that `dally policies` lists but ours, what is learned, and second codings of one that is there."""
    names = [name for name in POLICIES if not name.startswith("dally") and name != "learned"]
    others = [name for name in names if not name.endswith("-as-coded")]
    assert f"| {len(others)}, from FIFO" in (ROOT / "README.md").read_text(encoding="utf-8")
