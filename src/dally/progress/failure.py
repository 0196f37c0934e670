"""Why a job failed, from the end of what it printed: the kind of failure, and the line that says so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from dally.errors import one_line
from dally.progress.line_text import overwritten, without_prefix

LONGEST_LINE: Final = 200  # characters of a line that are shown


class FailureKind(NamedTuple):
    """A kind of failure, by the lines that tell it from others."""

    name: str
    about: str
    again: bool  # whether another run may do better as the job is
    pattern: re.Pattern[str]


class JobFailure(NamedTuple):
    """The kind and the line."""

    kind: FailureKind
    line: str

    def described(self) -> str:
        """In a sentence: out of GPU memory (torch.OutOfMemoryError: …)."""
        return f"{self.kind.about} ({self.line})"


def _kind(name: str, about: str, again: bool, pattern: str) -> FailureKind:
    return FailureKind(name, about, again, re.compile(pattern))


# What comes first counts: processes that lost a peer print network errors and exceptions of their own.
KINDS: Final = (
    _kind(
        "gpu-memory", "out of GPU memory", False,
        r"(?:CUDA|HIP) out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|"
        r"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)|cudaErrorMemoryAllocation",
    ),
    _kind(
        "memory", "out of memory", False,
        r"(?i:oom[-_ ]?kill)|\bMemoryError\b|Cannot allocate memory|not enough memory: you tried to allocate|"
        r"std::bad_alloc|bus error.*shared memory|OUT_OF_MEMORY|exceeded memory limit",
    ),
    _kind("time-limit", "its time limit was over", False, r"DUE TO TIME LIMIT|DeadlineExceeded"),
    _kind(
        "gpu", "a GPU failed", True,
        r"\bXid\b.*\d|uncorrectable ECC|fallen off the bus|CUDA error: (?:uncorrectable|unspecified launch failure|"
        r"hardware|all CUDA-capable devices are busy)|CUDA_ERROR_ECC_UNCORRECTABLE|unable to determine the device",
    ),
    _kind(
        "disk", "no room on the disk, or a file server that failed", False,
        r"No space left on device|Disk quota exceeded|Stale file handle|Input/output error|Read-only file system",
    ),
    _kind(
        "data", "data that is missing or damaged", False,
        r"FileNotFoundError|No such file or directory|UnidentifiedImageError|UnpicklingError|JSONDecodeError|"
        r"ArrowInvalid|DatasetNotFoundError|DatasetGenerationError|SafetensorError|zipfile\.BadZipFile|"
        r"(?i:loss (?:is|became|=|:) ?nan)|EOFError: Ran out of input|PytorchStreamReader failed",
    ),
    _kind(
        "code", "an error in the program", False,
        r"(?:ModuleNotFound|Import|Syntax|Indentation|Name|Attribute|Type|Key|Index|Value|Assertion|ZeroDivision|"
        r"NotImplemented|UnboundLocal)Error\b|device-side assert|illegal memory access|Segmentation fault|"
        r"(?:size mismatch|shapes? cannot be multiplied|unrecognized arguments)|command not found",
    ),
    _kind(
        "network", "a collective exchange that timed out or lost a peer", True,
        r"Watchdog caught collective operation timeout|ProcessGroupNCCL.*(?i:timed? ?out)|\bncclSystemError\b|"
        r"\bncclRemoteError\b|NCCL (?:error|timeout)|NCCL WARN.*(?i:timeout|failed|closed|reset)|DistStoreError|"
        r"RendezvousTimeoutError|(?i:connection (?:reset|closed) by (?:remote )?peer)|Socket Timeout|"
        r"ibv_poll_cq.*error|Got completion .* with error",
    ),
    _kind("exception", "an exception", False, r"^\s*(?:[\w.]+\.)?\w*(?:Error|Exception)\b(?::|$)"),
)  # fmt: skip


def failure_in(lines: Iterable[str]) -> JobFailure | None:
    """What the end of a log says of how the job failed; None: nothing that is known."""
    latest: dict[str, str] = {}
    for raw in lines:
        for part in overwritten(raw):
            text = without_prefix(part)
            for kind in KINDS:
                if kind.pattern.search(text):
                    latest[kind.name] = text.strip()
                    break
    for kind in KINDS:
        if kind.name in latest:
            return JobFailure(kind, one_line(latest[kind.name], LONGEST_LINE))
    return None
