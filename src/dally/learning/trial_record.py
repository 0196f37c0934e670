"""What trials decided, night by night, in one file: the champion, vetoes, and the way back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dally.errors import InputError
from dally.input_file import read_text
from dally.learning.nightly import NightVerdict
from dally.parsed_text import parse_json
from dally.whole_file import write_whole


@dataclass
class TrialRecord:
    """The policy in use, those before it, and every night's verdict."""

    champion: str
    before: list[str] = field(default_factory=list)  # champions that were replaced, the latest last
    vetoed: list[str] = field(default_factory=list)
    nights: list[dict[str, Any]] = field(default_factory=list)

    def add(self, now_s: float, verdict: NightVerdict, applied: bool) -> None:
        """Note a night; with `applied` a promoted challenger is the champion from now on."""
        self.nights.append({"now_s": now_s, "applied": applied and verdict.promoted, **verdict.values()})
        if applied and verdict.promoted:
            self.before.append(self.champion)
            self.champion = verdict.challenger

    def take_back(self) -> str:
        """The champion before is in use again; the one that was is vetoed until an operator lifts that."""
        if not self.before:
            raise InputError("--back: no champion was replaced")
        removed, self.champion = self.champion, self.before.pop()
        self.veto(removed)
        return removed

    def veto(self, label: str) -> None:
        """No night promotes that policy."""
        if label not in self.vetoed:
            self.vetoed.append(label)

    def write(self, path: Path) -> None:
        """The file, whole or not at all."""
        write_whole(path, (json.dumps(self.__dict__, indent=1) + "\n").encode())


def read_trials(path: Path, champion: str) -> TrialRecord:
    """The record of that file; a new one if there is none."""
    if not path.exists():
        if not champion:
            raise InputError(f"{path}: is not there: name the policy in use with --policy")
        return TrialRecord(champion)
    content = parse_json(path, read_text(path))
    known = TrialRecord("").__dict__
    for name, usual in known.items():
        if type(content.get(name)) is not type(usual):
            raise InputError(f"{path}: {name}: must be a {'text' if usual == '' else 'list'}")
    if champion and champion != content["champion"]:
        raise InputError(f"{path}: champion: is {content['champion']!r}, not the {champion!r} of --policy")
    return TrialRecord(**{name: content[name] for name in known})
