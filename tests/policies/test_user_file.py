"""Policies of a user's own file: what they may declare, what is said of wrong ones, and that they travel."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dally.cluster import Cluster
from dally.errors import InputError
from dally.model import Action
from dally.policies.base import Param, Policy
from dally.policies.queue import Queue
from dally.policies.registry import build, find, is_policy, policy_file, policy_of
from dally.policies.user_file import load_file, split_file
from dally.runs.scenario import Scenario

HEAD = """from dally.policies.base import Param, Policy
class Base(Policy):
    def schedule(self, now, queue, cluster):
        return []
"""
MINE = (
    HEAD
    + """
class Note:
    def __init__(self, text): self.text = text
class Mine(Base):
    "Waits."
    def __init__(self, wait_s: float = 60, tries: int = 3, eager: bool = False, mode: str = "a", seen=None):
        self.wait_s, self.tries, self.eager, self.mode = wait_s, tries, eager, mode
        self.note = Note(mode)
class Stated(Base):
    PARAMS = (Param("share", 0.5, "a share", 0.1),)
    def __init__(self, share):
        self.share = share
"""
)


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.py:B", ("a.py", "B")),
        ("./x.pyz/a.py:B", ("./x.pyz/a.py", "B")),
        ("a.py", ("a.py", "")),
        ("a.py:B:k=c.py", ("a.py", "B:k=c.py")),
        ("las", ("", "")),
        ("las:file=c.py", ("", "")),
        ("a.pyc:B", ("", "")),
    ],
)
def test_names_of_files(name: str, expected: tuple[str, str]) -> None:
    assert split_file(name) == expected


def test_keywords_with_plain_defaults_are_parameters(mine: str) -> None:
    assert find(f"{mine}:Base").params == ()
    assert type(build(f"{mine}:Base")).__name__ == "Base"
    params = {param.name: param.default for param in find(f"{mine}:Mine").params}
    assert params == {"wait_s": 60.0, "tries": 3, "eager": False, "mode": "a"}
    assert type(params["wait_s"]) is float, "annotated as a float"
    made: Any = build(f"{mine}:Mine", {"wait_s": "-0.5", "eager": "on"})
    assert (made.wait_s, made.tries, made.eager, made.mode) == (-0.5, 3, True, "a")


def test_stated_parameters_are_checked(mine: str) -> None:
    made: Any = build(f"{mine}:Stated")
    assert made.share == 0.5
    with pytest.raises(InputError, match=r"--set share=0: must be at least 0.1"):
        build(f"{mine}:Stated", {"share": "0"})
    with pytest.raises(InputError, match=r"has no parameter 'shar'; did you mean 'share'\?"):
        build(f"{mine}:Stated", {"shar": "1"})


@pytest.mark.parametrize(
    ("text", "wanted", "message"),
    [
        (None, "Mine", "cannot be read: No such file or directory"),
        (MINE, "Mien", "bad.py: unknown class 'Mien'; did you mean 'Mine'?"),
        (MINE, "Zzz", "bad.py: unknown class 'Zzz'; known: Base, Mine, Stated"),
        (MINE, "", "say which policy of it: "),
        (MINE, "Note", "bad.py:Note: is no subclass of dally.Policy"),
        (MINE, "Policy", "bad.py:Policy: has no method schedule(now, queue, cluster)"),
        ("x = 1\n", "Mine", "bad.py: holds no policy"),
        (HEAD + "class Mine(Policy): pass\n", "Mine", "bad.py:Mine: has no method schedule(now, queue, cluster)"),
        ("x = 1\nclass Mine(:\n", "Mine", "bad.py:2: SyntaxError: "),
        ("x = 1\nif x:\ny = 2\n", "Mine", "bad.py:3: IndentationError: "),
        ("x = '\0'\n", "Mine", "bad.py"),
        ("\n\nx = 1 / 0\n", "Mine", "bad.py:3: ZeroDivisionError: division by zero"),
        ("def f():\n    raise KeyError('k')\n\nf()\n", "Mine", "bad.py:2: KeyError: 'k'"),
        ("import no_such_thing\n", "Mine", "bad.py:1: ModuleNotFoundError: No module named 'no_such_thing'; "),
        ("raise SystemExit(3)\n", "Mine", "bad.py:1: SystemExit: 3"),
        (
            HEAD + "class Mine(Base):\n    def __init__(self, order): pass\n",
            "Mine",
            "bad.py:Mine: its constructor cannot be called: missing a required argument: 'order'",
        ),
        (
            HEAD + "class Mine(Base):\n    PARAMS = (Param('a', 1, ''),)\n    def __init__(self, b=1): pass\n",
            "Mine",
            "bad.py:Mine: its constructor cannot be called: got an unexpected keyword argument 'a'",
        ),
        (
            "from dally.policies.composed import ComposedPolicy\nclass Mine(ComposedPolicy): pass\n",
            "Mine",
            "bad.py:Mine: its constructor ",
        ),
        (HEAD + "class Mine(Base):\n    PARAMS = ('a',)\n", "Mine", "bad.py:Mine: PARAMS must be "),
        (
            HEAD + "class Mine(Base):\n    def __init__(self, a=1): raise ValueError('no')\n",
            "Mine",
            "bad.py:Mine: its constructor failed: ValueError: no",
        ),
    ],
)
def test_what_is_said_of_wrong_files(tmp_path: Path, text: str | None, wanted: str, message: str) -> None:
    if text is not None:
        (tmp_path / "bad.py").write_text(text)
    with pytest.raises(InputError) as caught:
        build(f"{tmp_path / 'bad.py'}:{wanted}".removesuffix(":"))
    assert message in str(caught.value)
    assert str(tmp_path / "bad.py") in str(caught.value)


def test_a_file_that_failed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import no_such_thing\n")
    for _ in range(2):
        with pytest.raises(InputError, match="no_such_thing"):
            build(f"{path}:Mine")
    path.write_text(MINE)
    build(f"{path}:Mine")


def test_a_file_is_one_module_until_it_changes(mine: str) -> None:
    first = load_file(mine)
    assert load_file(mine) is first
    Path(mine).write_text(MINE + "\n")
    assert load_file(mine).__name__ != first.__name__


def test_an_object_travels_to_a_process_that_has_not_loaded_the_file(mine: str, tmp_path: Path) -> None:
    policy = build(f"{mine}:Mine", {"mode": "far"})
    (tmp_path / "pickled").write_bytes(pickle.dumps(policy))
    code = "import pickle; p = pickle.load(open('pickled', 'rb')); print(type(p).__name__, p.mode, p.note.text)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "Mine far far\n", done.stderr
    Path(mine).write_text(MINE + "\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"InputError: {mine}: has changed since the policy was saved" in done.stderr


def test_names_hold_in_any_folder(mine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    named = Scenario("", "1x1x8", "mine.py:Mine")
    assert named.resolved().policy == f"{mine}:Mine"
    assert replace(named, policy="las").resolved().policy == "las"
    assert (policy_file("mine.py:Mine"), policy_file("las")) == ("mine.py", "")
    assert [is_policy(name) for name in ("las", "mine.py:Mine", "nobody", "12")] == [True, True, False, False]


class FromHere(Policy):
    """As a class of a notebook: no file names it."""

    PARAMS = (Param("wait_s", 1.0, "seconds"),)

    def __init__(self, wait_s: float = 1.0) -> None:
        self.wait_s = wait_s

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        yield from ()


def test_names_classes_and_objects_are_policies(mine: str) -> None:
    ready = FromHere()
    assert policy_of(ready) is ready
    made = policy_of(FromHere, {"wait_s": 5})
    assert isinstance(made, FromHere)
    assert made.wait_s == 5.0
    assert type(policy_of("las", {"lease_s": 60.0})) is type(build("las"))
    assert type(policy_of(f"{mine}:Mine")).__name__ == "Mine"
    with pytest.raises(InputError, match="wait_s: are for a policy's name or class"):
        policy_of(ready, {"wait_s": 5})
    with pytest.raises(InputError, match="Policy: has no method schedule"):
        policy_of(Policy)
