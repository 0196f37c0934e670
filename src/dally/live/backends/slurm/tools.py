"""Slurm's command line tools: run with a time limit, and their complaints as one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dally.errors import one_line
from dally.live.backends.base import BackendError
from dally.live.backends.job_environment import UMASK, tool_environment

LONGEST_COMPLAINT = 300  # characters
ONCE_WITHIN_S: Final = 4.0  # scancel sends a signal again after 5 s
KILLED: Final = 128 + signal.SIGKILL  # how `timeout` says so
# What the tools print where slurmctld is away or too busy.
DID_NOT_ANSWER = "did not answer within"
NO_ANSWER = ("Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted")


class NoAnswerError(BackendError):
    """Slurm did not answer: what was ordered may have been carried out or not."""


class Tools:
    """Runs the tools against the cluster of one slurm.conf; empty: the machine's own."""

    def __init__(self, conf: str = "", timeout_s: float = 20.0) -> None:
        self._timeout_s = timeout_s
        self._nodes_by_scontrol = False
        self._environment = {
            **tool_environment(),
            "SLURM_TIME_FORMAT": "standard",
            "SLURM_BITSTR_LEN": "0",  # or the tasks of an array would be cut off after 64 letters
        }
        if conf:
            self._environment["SLURM_CONF"] = conf

    def run(self, *parts: str, stdin: str | None = None, utc: bool = False, enough: str = "") -> str:
        """What the tool prints, with dates in UTC if need be; a BackendError if it fails or does not come back.

        `enough`: once the tool complains of this it has done its work and would do it again: it is ended.
        """
        environment = {**self._environment, "TZ": "UTC"} if utc else self._environment
        try:
            done = _until(enough, parts, environment) if enough else subprocess.run(
                parts, input=stdin, capture_output=True, encoding="utf-8", errors="replace",
                timeout=self._timeout_s, env=environment, check=False, umask=UMASK,
            )  # fmt: skip
        except FileNotFoundError:
            raise BackendError(f"{parts[0]} is not installed here, or not on the PATH") from None
        except subprocess.TimeoutExpired as late:
            raise NoAnswerError(f"{parts[0]} {DID_NOT_ANSWER} {late.timeout:g} s") from None
        except (OSError, ValueError) as error:
            raise BackendError(f"{parts[0]} cannot be run: {one_line(str(error), LONGEST_COMPLAINT)}") from None
        if done.returncode:
            complaint = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
            kind = NoAnswerError if any(text in complaint for text in NO_ANSWER) else BackendError
            raise kind(one_line(f"{' '.join(parts[:2])}: {complaint}", LONGEST_COMPLAINT))
        return done.stdout

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes: of `sinfo` up to 22.05, which groups them since then, and of `scontrol` from 23.02."""
        if not self._nodes_by_scontrol:
            result = self._json("sinfo", "--json")
            if isinstance(result, dict) and "nodes" in result:
                return self._list(result, "nodes", "sinfo", "--json")
            self._nodes_by_scontrol = isinstance(result, dict) and "sinfo" in result
        return self.rows("nodes", "scontrol", "show", "nodes", "--json")

    def rows(self, kind: str, *parts: str) -> list[dict[str, Any]]:
        """The list of that name in a tool's JSON."""
        return self._list(self._json(*parts), kind, *parts)

    def _json(self, *parts: str) -> Any:
        try:
            return json.loads(self.run(*parts))
        except json.JSONDecodeError as error:
            raise BackendError(f"{' '.join(parts)} printed no JSON: {error}") from None

    def _list(self, result: Any, kind: str, *parts: str) -> list[dict[str, Any]]:
        rows = result.get(kind) if isinstance(result, dict) else None
        errors = result.get("errors") if isinstance(result, dict) else None
        if errors:  # an empty list and exit code 0 come with it where slurmctld does not answer
            why = "; ".join(
                str(one.get("description") or one.get("error")) for one in errors if isinstance(one, dict)
            )
            raise BackendError(one_line(f"{' '.join(parts)}: {why}; does slurmctld run?", LONGEST_COMPLAINT))
        if not isinstance(rows, list):
            raise BackendError(f"{' '.join(parts)}: no list of {kind} in its JSON")
        return rows


def _until(enough: str, parts: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The tool, to its end or that complaint; after our own death, too, it lasts no longer than it may."""
    limited = ("timeout", "--signal=KILL", f"{ONCE_WITHIN_S:g}", *parts)
    with subprocess.Popen(
        limited, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8",
        errors="replace", env=environment, umask=UMASK, start_new_session=True,
    ) as tool:  # fmt: skip
        line = ""
        for line in tool.stderr or ():
            if enough in line:
                os.killpg(tool.pid, signal.SIGKILL)
                return subprocess.CompletedProcess(parts, 0, "", "")
        code = tool.wait()
    if code in (-signal.SIGKILL, KILLED):
        raise subprocess.TimeoutExpired(parts, ONCE_WITHIN_S)
    return subprocess.CompletedProcess(parts, code, "", line)
