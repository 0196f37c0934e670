"""Predicted against measured steps over links of a known rate: PYTHONPATH=src python -m benchmarks.gloo

Processes in network namespaces, each behind its own `tc` limit, train a small model with data parallelism over
gloo. The prediction knows the passes and buckets measured without communication, and the rate of the links.
Needs root, `ip`, `tc` and torch. Nothing leaves the namespaces; they are removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

RATES_MBIT = (250, 500, 1000)
WORLDS = (2, 4)
LAYERS, WIDTH, BATCH = 6, 1024, 128
BUCKET_MB = 4
STEPS = 8
ROUNDS = 4  # of steps without and with communication, in turn: whatever else runs disturbs both alike
HEADS = (
    "| processes | Mb/s | compute ms | exposed ms | predicted ms | measured ms | error |",
    "|---|---|---|---|---|---|---|",
)
PAYLOAD = 1448 / 1514  # of a frame, as tc counts it: Ethernet, IP and TCP headers are the rest
MOST_S = 200.0  # seconds that a group of workers may take


def sh(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Namespaces:
    """A hub with a bridge, and as many namespaces with one limited link each."""

    def __init__(self, count: int) -> None:
        self.hub = f"dally-hub-{os.getpid()}"
        self.names = [f"dally-{os.getpid()}-{number}" for number in range(count)]

    def __enter__(self) -> Namespaces:
        sh("ip", "netns", "add", self.hub)
        sh("ip", "link", "add", "br0", "netns", self.hub, "type", "bridge")
        sh("ip", "-n", self.hub, "link", "set", "br0", "up")
        for number, name in enumerate(self.names):
            sh("ip", "netns", "add", name)
            port = f"port{number}"
            sh("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", self.hub)
            sh("ip", "-n", self.hub, "link", "set", port, "master", "br0", "up")
            sh("ip", "-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
            sh("ip", "-n", name, "link", "set", "lo", "up")
            sh("ip", "-n", name, "link", "set", "eth0", "up")
        return self

    def limit(self, mbit: int) -> None:
        for name in self.names:
            # One frame at a time, so that tc counts frames as a wire would and not segments of 64 KiB.
            sh("ip", "netns", "exec", name, "ethtool", "-K", "eth0", "tso", "off", "gso", "off")
            sh(
                "ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf",
                "rate", f"{mbit}mbit", "burst", "128k", "latency", "200ms",
            )  # fmt: skip

    def __exit__(self, *_: object) -> None:
        for name in [*self.names, self.hub]:
            subprocess.run(["ip", "netns", "del", name], check=False)


def build() -> Any:
    import torch
    from torch.nn.functional import cross_entropy

    from dally.profiling.builtin import Task
    from dally.profiling.dlrm import stack

    model = stack(*[WIDTH] * (LAYERS + 1))
    batch = (torch.randn(BATCH, WIDTH), torch.randint(WIDTH, (BATCH,)))
    return Task(model, batch, lambda model, batch: cross_entropy(model(batch[0]), batch[1]))


def worker(rank: int, world: int, folder: Path) -> None:
    """Measure passes and buckets while the others do, then steps that reduce, then all-reduces by size."""
    import torch

    from dally.profiling.all_reduce import reduce_s
    from dally.profiling.buckets import buckets_of
    from dally.profiling.training_step import Timing, Training, optimizer_s, passes_s, ready_gradients

    torch.set_num_threads(1)
    torch.manual_seed(rank)
    group: Any = torch.distributed
    group.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    training = Training(build(), "cpu", "fp32")
    timing = Timing(steps=STEPS, warmup=2, most_s=30.0)
    group.barrier()
    gradients = ready_gradients(training, timing)
    stepping = optimizer_s(training, "sgd", timing)
    training.model = torch.nn.parallel.DistributedDataParallel(training.model, bucket_cap_mb=BUCKET_MB)
    forward: list[float] = []
    backward: list[float] = []
    steps: list[float] = []
    for _ in range(ROUNDS):
        group.barrier()
        with training.model.no_sync():
            one, other = passes_s(training, timing)
        forward, backward = forward + one, backward + other
        group.barrier()
        steps += train_s(training)
    sizes = {size: reduce_s(group, "cpu", size, 5) for size in (1 << 12, 1 << 18, 1 << 22)}
    group.destroy_process_group()
    cap = BUCKET_MB << 20
    record = {
        "forward_s": median(forward), "backward_s": median(backward), "optimizer_s": median(stepping),
        "buckets": [list(one) for one in buckets_of(gradients, cap, cap)], "step_s": median(steps),
        "steps_s": steps, "all_reduce_s": sizes,
    }  # fmt: skip
    (folder / f"rank{rank}.json").write_text(json.dumps(record))


def train_s(training: Any) -> list[float]:
    """Seconds of whole steps with their all-reduces."""
    import torch

    optimizer = torch.optim.SGD(training.model.parameters(), lr=1e-6, momentum=0.9)
    seconds = []
    for number in range(STEPS + 2):
        begun_s = perf_counter()
        optimizer.zero_grad()
        training.forward().backward()
        optimizer.step()
        if number >= 2:
            seconds.append(perf_counter() - begun_s)
    return seconds


def together(names: list[str]) -> list[dict[str, Any]]:
    """What the workers of these namespaces measure."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        env = os.environ | {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
        running = []
        for rank, name in enumerate(names):
            words = [sys.executable, "-m", "benchmarks.gloo", "--worker", f"{rank},{len(names)}", "--out", made]
            running.append(subprocess.Popen(["ip", "netns", "exec", name, *words], env=env))
        try:
            for one in running:
                if one.wait(MOST_S) != 0:
                    raise SystemExit("a worker failed")
        finally:
            for one in running:
                one.kill()
        return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(len(names))]


def predicted_s(records: list[dict[str, Any]], mbit: int) -> tuple[float, float]:
    """Seconds of a step on links of that rate, and of it communication that does not hide: slowest worker first."""
    from dally import Cluster, Profile, iteration_times
    from dally.profiling.buckets import Bucket, stages_of

    slowest = max(records, key=lambda one: one["forward_s"] + one["backward_s"])
    backward_s = slowest["backward_s"]
    stages = tuple(
        (float(one.buckets), one.nbytes, one.first * backward_s, one.last * backward_s)
        for one in stages_of([Bucket(*each) for each in slowest["buckets"]])
    )
    profile = Profile(forward_s=slowest["forward_s"] + slowest["optimizer_s"], backward_s=backward_s, stages=stages)
    world = len(records)
    cluster = Cluster.grid(
        1, world, 1, intra_gbps=10, nic_gbps=mbit * PAYLOAD / 8e3, nic_latency_s=5e-5, ideal=True
    )
    step_s = iteration_times(cluster, [(profile, dict.fromkeys(range(world), 1))], "ring")[0]
    return step_s, step_s - profile.compute_s()


def told(row: dict[str, Any]) -> str:
    cells = [
        str(row["processes"]), f"{row['mbit']:,}", f"{row['compute_s'] * 1e3:.0f}", f"{row['exposed_s'] * 1e3:.0f}",
        f"{row['predicted_s'] * 1e3:.0f}", f"{row['measured_s'] * 1e3:.0f}", f"{row['error']:+.1%}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def measure(out: Path | None) -> None:
    print(*HEADS, sep="\n", flush=True)
    rows = []
    for world in WORLDS:
        with Namespaces(world) as spaces:
            for mbit in RATES_MBIT:
                spaces.limit(mbit)
                records = together(spaces.names)
                step_s, exposed_s = predicted_s(records, mbit)
                measured_s = median([one["step_s"] for one in records])
                row = {
                    "processes": world, "mbit": mbit, "compute_s": step_s - exposed_s, "exposed_s": exposed_s,
                    "predicted_s": step_s, "measured_s": measured_s, "error": step_s / measured_s - 1,
                    "workers": records,
                }  # fmt: skip
                rows.append(row)
                print(told(row), flush=True)
    errors = [abs(row["error"]) for row in rows]
    print(f"\nMean error {sum(errors) / len(errors):.1%}, largest {max(errors):.1%}.")
    if out:
        out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        rank, world = map(int, options.worker.split(","))
        worker(rank, world, options.out)
    else:
        measure(options.out)


if __name__ == "__main__":
    main()
