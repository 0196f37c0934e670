"""All-reduce times by size among processes of this machine: NCCL, a process a GPU, or gloo on the CPU."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch

from dally.profiling.training_step import Mark, settle

SIZES: Final = tuple(1 << power for power in range(10, 29, 3))  # 1 KiB to 256 MiB
CPU_SIZES: Final = SIZES[:-1]
REPEATS: Final = 10


def all_reduce_times(device: str, processes: int, sizes: Sequence[int] = ()) -> list[tuple[int, float]]:
    """(bytes, median seconds) for each size, seen by the first process."""
    request = tuple(sizes) or (SIZES if device == "cuda" else CPU_SIZES)
    with tempfile.TemporaryDirectory() as folder:
        store, answer = Path(folder) / "store", Path(folder) / "answer"
        spawned: Any = torch.multiprocessing.spawn
        spawned(_member, (processes, device, str(store), str(answer), request), nprocs=processes)
        seconds: list[float] = torch.load(answer)
    return list(zip(request, seconds, strict=True))


def _member(rank: int, processes: int, device: str, store: str, answer: str, sizes: tuple[int, ...]) -> None:
    """One process: all meet at the store, reduce, and the first one writes what it saw."""
    if device == "cuda":
        torch.cuda.set_device(rank)
    else:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        torch.set_num_threads(1)
    group: Any = torch.distributed
    backend = "nccl" if device == "cuda" else "gloo"
    group.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=processes)
    try:
        seconds = [reduce_s(group, device, size) for size in sizes]
    finally:
        group.destroy_process_group()
    if rank == 0:
        torch.save(seconds, answer)


def reduce_s(group: Any, device: str, size: int, repeats: int = REPEATS) -> float:
    """Median seconds of one all-reduce of so many bytes."""
    tensor = torch.ones(max(1, size // 4), device=device)
    seconds: list[float] = []
    for number in range(repeats + 2):
        group.barrier()
        start = Mark(device)
        group.all_reduce(tensor)
        end = Mark(device)
        settle(device)
        if number >= 2:
            seconds.append(start.until_s(end))
    return median(seconds)
