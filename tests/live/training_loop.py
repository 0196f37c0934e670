"""A training loop for jobs of tests: a small model on the CPU, and in each step the time that an exchange takes.

usage: training_loop.py TOGETHER_S APART_S [MACHINES]

The exchange takes APART_S where the nodes of the job are in several racks, of MACHINES each on Slurm. It trains
with torch and tqdm, if the Python that DALLY_TRAINING_PYTHON names has them, else with NumPy and a bar like theirs.
On Kubernetes lines are printed instead of a bar.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

STEPS = 4000
SCRIPT = str(Path(__file__).resolve())
PYTHON = os.environ.get("DALLY_TRAINING_PYTHON", sys.executable)


def command(*words: object) -> list[str]:
    """The command line of a job that trains."""
    return [PYTHON, SCRIPT, *(str(word) for word in words)]


def racks(machines: int) -> int:
    """In how many racks the job's nodes are, by the variables of its scheduler."""
    if "DALLY_NODES" in os.environ:
        return len({node.rpartition("-")[0] for node in os.environ["DALLY_NODES"].split(",")})
    nodes = os.environ.get("SLURM_JOB_NODELIST", "n1").replace("n", "").strip("[]")
    return len({(int(node) - 1) // machines for part in nodes.split(",") for node in part.split("-")})


def torch_step() -> Callable[[], float]:
    """One step of SGD on made-up data; its loss."""
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, classes = torch.randn(64, 32), torch.randint(0, 4, (64,))

    def step() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), classes)
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def numpy_step() -> Callable[[], float]:
    """A product of matrices, for lack of torch."""
    import numpy as np

    weights = np.eye(64)

    def step() -> float:
        nonlocal weights
        weights = weights @ weights / np.linalg.norm(weights)
        return float(weights[0, 0])

    return step


def steps_with_bar() -> Iterator[int]:
    """The steps, counted by tqdm, or by a bar like it."""
    try:
        from tqdm import tqdm
    except ImportError:
        for step in range(1, STEPS + 1):
            yield step
            print(f"\r{100 * step // STEPS:3d}%|# | {step}/{STEPS} [00:01<00:09, 90.0it/s]", end="", flush=True)
        return
    yield from tqdm(range(1, STEPS + 1), desc="Training", file=sys.stdout, mininterval=0.1)


def main() -> None:
    together_s, apart_s = float(sys.argv[1]), float(sys.argv[2])
    exchange_s = apart_s if racks(int(sys.argv[3]) if len(sys.argv) > 3 else 1) > 1 else together_s
    try:
        train = torch_step()
    except ImportError:
        train = numpy_step()
    lines = os.environ.get("TRAINING_PRINTS") == "lines"
    for step in range(1, STEPS + 1) if lines else steps_with_bar():
        loss = train()
        time.sleep(exchange_s)
        if lines:
            print(f"step {step}/{STEPS} | loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
