"""Failures by the last lines of logs: kinds told apart, and lines that say nothing of one."""

from __future__ import annotations

import pytest

from dally.progress.failure import failure_in

LINES = [
    ("gpu-memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.1 GiB"),
    ("gpu-memory", "[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory."),
    ("gpu-memory", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while allocating"),
    ("memory", "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch. Some of the tasks"),
    ("memory", "DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"),
    ("time-limit", "slurmstepd: error: *** JOB 12 ON n01 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***"),
    ("gpu", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("disk", "OSError: [Errno 28] No space left on device"),
    ("data", "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'"),
    ("data", "PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object>"),
    ("code", "ModuleNotFoundError: No module named 'flash_attn'"),
    ("code", "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x512 and 768x512)"),
    ("code", "train.py: error: unrecognized arguments: --lr-warmup"),
    ("network", "[E ProcessGroupNCCL.cpp:474] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL("),
    ("network", "n03:4711:4811 [2] NCCL WARN socketPollConnect: connect to 10.0.0.1 failed : Connection refused"),
    ("exception", "omegaconf.errors.ConfigKeyException: key is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "line"), LINES)
def test_kind_of_a_line(kind: str, line: str) -> None:
    failure = failure_in(["step 1/10 loss=0.5", line, "srun: error: n01: task 0: Exited with exit code 1"])
    assert failure is not None
    assert failure.kind.name == kind
    assert failure.line in line
    assert failure.kind.again == (kind in ("gpu", "network"))


def test_cause_counts_and_not_what_it_brought_about() -> None:
    """One rank runs out of memory; the others lose it and time out."""
    lines = [LINES[1][1], LINES[13][1], "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1970"]
    failure = failure_in(lines)
    assert failure is not None
    assert failure.kind.name == "gpu-memory"


def test_training_says_nothing_of_a_failure() -> None:
    lines = [
        "epoch 3 step 120/400 loss=0.51 error=0.12 lr=1e-4",
        "eval: word error rate 4.2 %, mean squared error 0.3",
        "NCCL INFO Channel 00/08 : 0 1 2 3",
        "NCCL WARN NET/IB : No device found.",
        "saving checkpoint; no errors",
        "UserWarning: torch.cuda.amp is deprecated",
    ]
    assert failure_in(lines) is None
    assert failure_in([]) is None
