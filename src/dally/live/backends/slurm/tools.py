"""Slurm's command line tools: run with a time limit, and their complaints as one line."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from dally.errors import one_line
from dally.live.backends.base import BackendError

LONGEST_COMPLAINT = 300  # characters


class Tools:
    """Runs the tools against the cluster of one slurm.conf; empty: the machine's own."""

    def __init__(self, conf: str = "", timeout_s: float = 20.0) -> None:
        self._timeout_s = timeout_s
        self._environment = {
            **os.environ,
            "SLURM_TIME_FORMAT": "standard",
            "SLURM_BITSTR_LEN": "0",  # or the tasks of an array would be cut off after 64 letters
            "LC_ALL": "C.UTF-8",
        }
        if conf:
            self._environment["SLURM_CONF"] = conf

    def run(self, *parts: str, stdin: str | None = None) -> str:
        """What the tool prints; a BackendError if it fails or does not come back."""
        try:
            done = subprocess.run(
                parts, input=stdin, capture_output=True, encoding="utf-8", errors="replace",
                timeout=self._timeout_s, env=self._environment, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise BackendError(f"{parts[0]} is not installed here, or not on the PATH") from None
        except subprocess.TimeoutExpired:
            raise BackendError(f"{parts[0]} did not answer within {self._timeout_s:g} s") from None
        except (OSError, ValueError) as error:
            raise BackendError(f"{parts[0]} cannot be run: {one_line(str(error), LONGEST_COMPLAINT)}") from None
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
            raise BackendError(one_line(f"{' '.join(parts[:2])}: {said}", LONGEST_COMPLAINT))
        return done.stdout

    def rows(self, kind: str, *parts: str) -> list[dict[str, Any]]:
        """The list of that name in a tool's JSON."""
        text = self.run(*parts)
        try:
            result = json.loads(text)
        except json.JSONDecodeError as error:
            raise BackendError(f"{' '.join(parts)} printed no JSON: {error}") from None
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
