"""What the local backend keeps of one job on the disk, and what the disk and the process tell of it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from dally.errors import InputError
from dally.live.backends import base
from dally.live.backends.base import BackendError, ObservedJob, Placement, Submission
from dally.whole_file import write_whole

COME_UP_S: Final = 5.0  # a process that was started has told its number by then
TICKET: Final = "ticket"  # whoever takes it away decides: the process, and it runs, or we, and it does not
COMING, ALIVE, GONE = "coming", "alive", "gone"  # of a process


class JobFolder:
    """A job, its folder (`job.json`, `pid`, `exit`, `log`) and its process."""

    def __init__(self, path: Path) -> None:
        values = json.loads((path / "job.json").read_text())
        self.path = path
        self.job = ObservedJob.read(values["job"])
        self.command: tuple[str, ...] = tuple(values["command"])
        self.folder: str = values["folder"]
        self.environment: dict[str, str] = values.get("environment", {})  # as its submission states
        self.since_s: float = values["since_s"]  # in its present state, in seconds since 1970
        self.ran_s: float = values["ran_s"]  # before that
        self.restarts: int = values["restarts"]
        self.after: str = values["after"]  # what it becomes once it has stopped

    @classmethod
    def make(cls, path: Path, job: ObservedJob, request: Submission) -> JobFolder:
        """The folder of a new job, there with all that is in it or not at all."""
        values = {
            "job": asdict(job), "command": request.command, "folder": request.folder,
            "environment": request.environment, "since_s": time.time(), "ran_s": 0.0, "restarts": 0, "after": "",
        }  # fmt: skip
        new = path.with_name(f"{path.name}.new")
        try:
            new.mkdir(exist_ok=True)
            _write(new, values)
            new.rename(path)
        except OSError as error:
            raise BackendError(f"{path}: cannot be made: {error.strerror}") from None
        return cls(path)

    def become(self, state: str, placement: Placement | None = None, reason: str = "", after: str = "") -> None:
        """Change the job's state, on the disk first."""
        now = time.time()
        ran_s = self.ran_s + (now - self.since_s if self.job.state == base.RUNNING else 0.0)
        restarts = self.restarts + (state == base.QUEUED)
        job = replace(self.job, state=state, placement=placement or {}, reason=reason)
        values = {
            "job": asdict(job), "command": self.command, "folder": self.folder, "environment": self.environment,
            "since_s": now, "ran_s": ran_s, "restarts": restarts, "after": after,
        }  # fmt: skip
        _write(self.path, values)
        self.job, self.since_s, self.ran_s, self.restarts, self.after = job, now, ran_s, restarts, after

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

    def expect(self) -> None:
        """A process is about to be started: nothing of an earlier one is left, and there is a ticket for it."""
        for name in ("pid", "exit", "progress"):
            (self.path / name).unlink(missing_ok=True)
        (self.path / TICKET).touch()

    def process(self) -> str:
        """Whether its process is there: the one of that number that was started for this folder."""
        pid = self.pid()
        if pid is None:
            return COMING
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return GONE
        return ALIVE if f"DALLY_STATE={self.path}".encode() in environment.split(b"\0") else GONE

    def call_off(self, now: float) -> bool:
        """Wait no longer for a process that does not come up: whether it is sure that it never will."""
        if now - self.since_s <= COME_UP_S:
            return False
        try:
            (self.path / TICKET).unlink()
        except FileNotFoundError:  # it has begun; without a number for so long again, it died at once
            return now - self.since_s > 2.0 * COME_UP_S
        return True

    def was_before_boot(self) -> bool:
        """Whether this machine was started after the job was."""
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
        return self.since_s < time.time() - uptime_s


def _write(path: Path, values: dict[str, Any]) -> None:
    try:
        write_whole(path / "job.json", json.dumps(values).encode())
    except InputError as error:
        raise BackendError(str(error)) from None
