"""job_submit.lua and the lines of slurm.conf that load it: put there, and taken away as if they had never been."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dally.cluster.formats.slurm_lines import settings_of
from dally.errors import InputError, at
from dally.input_file import read_text
from dally.live.backends.slurm.left_alone import lua_rows
from dally.live.backends.stated_facts import FACT_NAMES
from dally.whole_file import write_whole

SCRIPT = Path(__file__).with_name("job_submit.lua")
FIRST_LINE = "-- Written by `dally slurm setup`"
BEGIN, JOINED, END = "# dally slurm setup: begin", " (after a line without an end)", "# dally slurm setup: end"
_BLOCK = re.compile(rf"(\n?){BEGIN}({re.escape(JOINED)})?\nJobSubmitPlugins=lua\n{END}\n")


class FileChange(NamedTuple):
    """What a file has, and what it is to have; None: no such file."""

    path: Path
    before: str | None
    after: str | None

    def carry_out(self) -> None:
        """Write, or remove; mode and owner of a file that is there stay."""
        if self.after is None:
            self.path.unlink(missing_ok=True)
            return
        old = self.path.stat() if self.before is not None else None
        write_whole(self.path, self.after.encode())
        self.path.chmod(0o644 if old is None else old.st_mode & 0o7777)
        if old is not None and os.geteuid() == 0:
            os.chown(self.path, old.st_uid, old.st_gid)

    def changes_text(self) -> list[str]:
        """The change, a line each."""
        if self.before is None:
            return [f"{self.path}: written"]
        if self.after is None:
            return [f"{self.path}: removed"]
        before, after = self.before.splitlines(), self.after.splitlines()
        gone = [f"{self.path}: - {line}" for line in before if line not in after]
        return gone + [f"{self.path}: + {line}" for line in after if line not in before]


def changes(conf: Path, partitions: Sequence[str], operators: Sequence[int], rollback: bool) -> list[FileChange]:
    """What is to be done; an InputError if somebody else's settings are in the way."""
    text = read_text(conf)
    script = conf.with_name(SCRIPT.name)
    there = read_text(script) if script.exists() else None
    if there is not None and not there.startswith(FIRST_LINE):
        raise InputError(f"{script}: was not written by Dally; `dally slurm setup` would have to replace it")
    result = _BLOCK.search(text)
    if rollback:
        return _rolled_back(conf, text, script, there)
    desired = script_text(partitions, operators)
    made = [] if there == desired else [FileChange(script, there, desired)]
    if result is None:
        _check_plugins(conf, text)
        joined = "" if text.endswith("\n") or not text else JOINED
        block = f"{BEGIN}{joined}\nJobSubmitPlugins=lua\n{END}\n"
        made.append(FileChange(conf, text, text + ("\n" if joined else "") + block))
    return made


def _rolled_back(conf: Path, text: str, script: Path, there: str | None) -> list[FileChange]:
    result = _BLOCK.search(text)
    made = []
    if result is not None:
        newline = "" if result.group(2) else result.group(1)
        made.append(FileChange(conf, text, text[: result.start()] + newline + text[result.end() :]))
    if there is not None:
        made.append(FileChange(script, there, None))
    return made


def _check_plugins(conf: Path, text: str) -> None:
    for line, values, _ in settings_of(text):
        if "jobsubmitplugins" in values:
            problem = f"is {values['jobsubmitplugins']} already: take it out first, Dally joins no other plugins"
            raise at(conf, line, "JobSubmitPlugins", problem)


def state_of(conf: Path) -> str:
    """Whether the plugin is there, for people."""
    script = conf.with_name(SCRIPT.name)
    if not script.exists() or not read_text(script).startswith(FIRST_LINE):
        return "not set up"
    if _BLOCK.search(read_text(conf)) is None:
        return f"{script} is there, and slurm.conf does not load it: run `dally slurm setup`"
    if lua_rows() not in read_text(script):
        return f"{script} is of another version of Dally: run `dally slurm setup`"
    return "set up"


def script_text(partitions: Sequence[str], operators: Sequence[int]) -> str:
    """job_submit.lua for these partitions, none: all, and the user ids that may release jobs."""
    for name in partitions:
        if not re.fullmatch(r"[\w.\-]+", name):
            raise InputError(f"--partition {name!r}: is no name of a partition")
    text = SCRIPT.read_text(encoding="utf-8")
    names = ", ".join(f'["{name}"] = true' for name in partitions)
    users = ", ".join(f"[{user}] = true" for user in sorted({0, *operators}))
    facts = ", ".join(f"{name} = true" for name in FACT_NAMES)
    tables = {"partitions": names, "operators": users, "left alone": lua_rows(), "facts": facts}
    for table, rows in tables.items():
        text = text.replace(f"{{--[[{table}]]}}", f"{{{rows}}}")
    return text
