"""Measurements in a process of their own: what kills it does not end its caller, who says what it was.

A CPU may announce units that it cannot use (AMX in some virtual machines): a kernel that takes them dies of SIGILL.
The measurement is then made again with fewer instructions, as oneDNN, whose kernels torch calls, lets one choose.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from dally.errors import InputError

Record = dict[str, Any]
KNOWN = re.compile(r"(?:^|[^a-z0-9])((?:gh|gb|rtx|gtx|mi|[abhlptv])\s?\d{1,4}(?:s|x|ti)?)(?:[^a-z0-9]|$)")


def short_name(device_name: str) -> str:
    """The GPU type as catalogues call it: `h200` of `NVIDIA H200`, `a100` of `NVIDIA A100-SXM4-80GB`."""
    result = KNOWN.search(device_name.lower())
    return result[1].replace(" ", "") if result else re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-")


def append_record(path: Path, record: Record) -> None:
    """Add a line to the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


CHILD: Final = (sys.executable, "-P", "-m", "dally.profiling.child")
MAX_ISA: Final = "ONEDNN_MAX_CPU_ISA"  # read once, when torch is imported
LOWER_ISAS: Final = ("AVX512_CORE_BF16", "AVX512_CORE", "AVX2")
PATIENCE_S: Final = 10.0  # between a process's last word and its end


class MeasuringError(Exception):
    """A measurement that could not be made: the message names it, and what ended it."""


class StepRequest(NamedTuple):
    """One measurement: a model by name, or of the caller's own module, at one batch and precision."""

    name: str
    model: str
    module: str
    batch: int
    precision: str
    optimizer: str
    device: str
    steps: int
    graph: bool

    def label(self) -> str:
        """It in words."""
        return f"{self.name}: batch {self.batch}, {self.precision}"


class Measuring:
    """The process that measures, begun with the first question and again when it died of an instruction."""

    def __init__(self, command: tuple[str, ...] = ()) -> None:
        self._command = command or CHILD
        self._isas = [os.environ.get(MAX_ISA, ""), *LOWER_ISAS]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Measuring:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def record(self, request: StepRequest) -> Record:
        """What was measured."""
        result: Record = self._answer(request.label(), {"step": request._asdict()})
        return result

    def all_reduces(self, device: str, processes: int) -> list[tuple[int, float]]:
        """(bytes, seconds) among so many processes; 0: a process a GPU, and none on a CPU."""
        record = self._answer("all-reduces", {"device": device, "processes": processes})
        return [(size, seconds) for size, seconds in record]

    def _answer(self, what: str, question: dict[str, Any]) -> Any:
        while not (line := self._exchange(json.dumps(question))):
            code = self._end(PATIENCE_S)
            if code != -signal.SIGILL or len(self._isas) == 1:
                raise MeasuringError(f"{what}: the process that measures {ending(code)}")
            del self._isas[0]
            print(f"{what}: {ending(code)}; again with {MAX_ISA}={self._isas[0]}", file=sys.stderr)
        answer = json.loads(line)
        if "refused" in answer:
            raise InputError(answer["refused"])
        if "failed" in answer:
            raise MeasuringError(f"{what}: {answer['failed']}")
        return answer["measured"]

    def _exchange(self, line: str) -> str:
        """What the process answers: nothing, if it died."""
        process = self._process = self._process or self._begun()
        assert process.stdin
        assert process.stdout
        with suppress(BrokenPipeError):
            process.stdin.write(line + "\n")
            process.stdin.flush()
        return process.stdout.readline()

    def _begun(self) -> subprocess.Popen[str]:
        limited = {MAX_ISA: self._isas[0]} if self._isas[0] else {}
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
            env={**os.environ, **limited}, start_new_session=True,
        )  # fmt: skip

    def _end(self, patience_s: float = 0.0) -> int:
        """The exit code of the process. It and those that it began are killed, unless they end before that."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(BrokenPipeError):
            process.communicate()
        return process.returncode


def ending(code: int) -> str:
    """How a process ended, from its exit code."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = " (no memory left?)" if code == -signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
