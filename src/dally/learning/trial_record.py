"""What trials decided, night by night, in one file: the champion, vetoes, and the way back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dally.errors import InputError
from dally.input_file import read_text
from dally.learning.drift import has_drifted
from dally.learning.nightly import NightVerdict, Streak
from dally.model import Job
from dally.parsed_text import parse_json
from dally.whole_file import write_whole

CHANGED: Final = "jobs last otherwise than those on which the champion was promoted"


@dataclass
class TrialRecord:
    """The policy in use, those before it, and every night's verdict."""

    champion: str
    before: list[str] = field(default_factory=list)  # champions that were replaced, the latest last
    vetoed: list[str] = field(default_factory=list)
    nights: list[dict[str, Any]] = field(default_factory=list)
    evidence: list[float] = field(default_factory=list)  # seconds that jobs lasted when the champion was promoted
    since_s: float = 0.0  # when that was

    @property
    def first(self) -> str:
        """The policy in use before any trial."""
        return (self.before or [self.champion])[0]

    def streak(self) -> Streak:
        """Who won the latest nights in a row."""
        latest = self.nights[-1] if self.nights else {}
        return Streak(latest.get("challenger", ""), latest.get("won", 0))

    def add(self, now_s: float, verdict: NightVerdict, applied: bool, evidence: list[float]) -> None:
        """Note a night; with `applied` a promoted challenger is the champion from now on."""
        self.nights.append({"now_s": now_s, "applied": applied and verdict.promoted, **verdict.values()})
        if applied and verdict.promoted:
            self.before.append(self.champion)
            self.champion = verdict.challenger
            self.evidence, self.since_s = evidence, now_s

    def has_drifted(self, jobs: Iterable[Job], now_s: float) -> bool:
        """Whether the work is no longer that on which the champion was promoted."""
        return self.champion != self.first and has_drifted(jobs, now_s, self.since_s, self.evidence)

    def go_home(self, now_s: float, applied: bool) -> None:
        """Note that the work has changed; with `applied` the policy before any trial is in use again."""
        verdict = NightVerdict(self.champion, self.first, True, CHANGED, {})
        self.add(now_s, verdict, applied, [])

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
    content = {"evidence": [], "since_s": 0.0, **content}  # which earlier versions did not note
    for name, usual in known.items():
        if type(content.get(name)) is not type(usual):
            kind = {str: "text", float: "number"}.get(type(usual), "list")
            raise InputError(f"{path}: {name}: must be a {kind}")
    if champion and champion != content["champion"]:
        raise InputError(f"{path}: champion: is {content['champion']!r}, not the {champion!r} of --policy")
    return TrialRecord(**{name: content[name] for name in known})
