"""What the local backend keeps of one job on the disk, and what the disk and the process tell of it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from dally.live.backends import base
from dally.live.backends.base import ClusterJob, Placement
from dally.whole_file import write_whole

COME_UP_S: Final = 5.0  # a process that was started has told its number by then


class JobFolder:
    """A job, its folder (`job.json`, `pid`, `exit`, `log`) and its process."""

    def __init__(self, path: Path) -> None:
        values = json.loads((path / "job.json").read_text())
        self.path = path
        self.job = ClusterJob(**values["job"])
        self.command: tuple[str, ...] = tuple(values["command"])
        self.folder: str = values["folder"]
        self.since_s: float = values["since_s"]  # in its present state, in seconds since 1970
        self.ran_s: float = values["ran_s"]  # before that
        self.restarts: int = values["restarts"]
        self.after: str = values["after"]  # what it becomes once it has stopped

    @classmethod
    def make(cls, path: Path, job: ClusterJob, command: tuple[str, ...], folder: str) -> JobFolder:
        """The folder of a new job."""
        path.mkdir()
        values = {
            "job": asdict(job), "command": command, "folder": folder, "since_s": time.time(), "ran_s": 0.0,
            "restarts": 0, "after": "",
        }  # fmt: skip
        write_whole(path / "job.json", json.dumps(values).encode())
        return cls(path)

    def become(self, state: str, placement: Placement | None = None, reason: str = "", after: str = "") -> None:
        """Change the job's state, on the disk first."""
        now = time.time()
        if self.job.state == base.RUNNING:
            self.ran_s += now - self.since_s
        if state == base.QUEUED:
            self.restarts += 1
        self.job = replace(self.job, state=state, placement=placement or {}, reason=reason)
        self.since_s, self.after = now, after
        values = {
            "job": asdict(self.job), "command": self.command, "folder": self.folder, "since_s": self.since_s,
            "ran_s": self.ran_s, "restarts": self.restarts, "after": after,
        }  # fmt: skip
        write_whole(self.path / "job.json", json.dumps(values).encode())

    @property
    def ended_s(self) -> float:
        """When it ended, in seconds since 1970; infinity: it has not."""
        return self.since_s if self.job.state in base.ENDED else float("inf")

    def pid(self) -> int | None:
        """The process, as that told itself."""
        return self._number("pid")

    def exit_code(self) -> int | None:
        """How the process ended; None: it has not, or could not tell."""
        return self._number("exit")

    def _number(self, name: str) -> int | None:
        try:
            return int((self.path / name).read_text())
        except (OSError, ValueError):
            return None

    def is_alive(self) -> bool:
        """Whether its process is there: the one of that number that was started for this folder."""
        pid = self.pid()
        if pid is None:
            return False
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return f"DALLY_STATE={self.path}".encode() in environment.split(b"\0")

    def has_vanished(self, now: float) -> bool:
        """Whether there is no process though there has been time for one to come up."""
        return self.pid() is not None or now - self.since_s > COME_UP_S

    def was_before_boot(self) -> bool:
        """Whether this machine was started after the job was."""
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
        return self.since_s < time.time() - uptime_s
