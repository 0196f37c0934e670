"""What products and copies reach on the GPU at hand, as JSON: python -m benchmarks.measure_peaks

The rates beside which benchmarks.measured puts a model's time, as the data sheet's are never reached.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

from dally.profiling.measure import usable_device
from dally.profiling.training_step import Mark, settle


def seconds_of(work: Callable[[], Any], device: str, repeats: int = 20) -> float:
    for _ in range(5):
        work()
    settle(device)
    marks = [Mark(device)]
    for _ in range(repeats):
        work()
        marks.append(Mark(device))
    settle(device)
    return median([one.until_s(other) for one, other in pairwise(marks)])


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=8192, help="of the matrices")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device = usable_device(options.device)
    torch.set_float32_matmul_precision("high")
    matrix = torch.randn(options.side, options.side, device=device)
    half = matrix.bfloat16()
    bytes_read = torch.empty(32 * options.side**2, dtype=torch.uint8, device=device)  # 2 GiB of 8,192
    written = torch.empty_like(bytes_read)
    flops = 2 * options.side**3
    told = {
        "tf32_flops": flops / seconds_of(lambda: matrix @ matrix, device),
        "bf16_flops": flops / seconds_of(lambda: half @ half, device),
        "copy_bytes_per_s": 2 * bytes_read.numel() / seconds_of(lambda: written.copy_(bytes_read), device),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
