"""Measures the built-in models on the GPU at hand: PYTHONPATH=src python -m benchmarks.measure_models --out FILE

Each measurement is a line of FILE as soon as it is made. What is there already is not measured again, one that
fails leaves a line with its error and stops nothing, and after --seconds no further one is begun.
Beside torch, torchvision and transformers it needs nothing: not even an installed Dally.
"""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from benchmarks.measured import key_of, read_records
from dally.profiling.builtin import BUILTINS, Builtin, builtin_builder
from dally.profiling.measuring import Record, append_record

FIVE = ("resnet50", "vgg16", "bert-large", "gpt2-xl", "dlrm")  # of which a second measurement is made
ESCAPES = 2000  # characters of an error's text


def wanted(names: list[str]) -> list[Builtin]:
    return [BUILTINS[name] for name in names] if names else [one for one in BUILTINS.values() if not one.tiny]


def settings(builtin: Builtin) -> Iterator[tuple[int, str]]:
    for precision in builtin.precisions:
        for batch in builtin.batches:
            yield batch, precision


def measure_one(builtin: Builtin, batch: int, precision: str, device: str, steps: int, graph: bool) -> Record:
    from dally.profiling.measure import Setting, measured
    from dally.profiling.training_step import Timing

    timing = Timing(steps=steps, warmup=min(4, steps), ready_steps=min(5, steps))
    setting = Setting(batch, precision, builtin.optimizer, graph)
    command = f"dally profile --model {builtin.name} --batch {batch} --precision {precision}"
    return measured(builtin.name, builtin_builder(builtin), setting, device, timing) | {"command": command}


def told(record: Record, took_s: float) -> str:
    name = f"{record['model']:20} {record['precision']:5} {record['batch']:6}"
    if "error" in record:
        return f"{name} failed: {record['error'].splitlines()[-1][:150]}"
    graph = f" graph {record['graph_s'] * 1e3:8.2f}" if record.get("graph_s") else ""
    return (
        f"{name} forward {record['forward_s'] * 1e3:8.2f} ms ±{record['forward_spread']:6.1%} "
        f"backward {record['backward_s'] * 1e3:8.2f} ms ±{record['backward_spread']:6.1%} "
        f"optimiser {record['optimizer_s'] * 1e3:7.2f} ms{graph} "
        f"{record['train_memory_bytes'] / 1e9:6.1f} GB, {len(record['buckets'])} buckets ({took_s:.1f} s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", default="", help="comma-separated; all, unless said; five: for a second time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--graph", action="store_true", help="also time each step as a CUDA graph")
    parser.add_argument("--seconds", type=float, default=480.0)
    options = parser.parse_args()
    from dally.profiling.measure import usable_device

    device = usable_device(options.device)
    names = list(FIVE) if options.models == "five" else [name for name in options.models.split(",") if name]
    done = {key_of(one) for one in read_records([options.out])} if options.out.exists() else set()
    begun_s = perf_counter()
    for builtin in wanted(names):
        for batch, precision in settings(builtin):
            if (builtin.name, batch, precision) in done or perf_counter() - begun_s > options.seconds:
                continue
            one_s = perf_counter()
            try:
                record = measure_one(builtin, batch, precision, device, options.steps, options.graph)
            except Exception:  # the next one may work
                error = traceback.format_exc()[-ESCAPES:]
                record = {"model": builtin.name, "batch": batch, "precision": precision, "error": error}
            append_record(options.out, record)
            print(told(record, perf_counter() - one_s), flush=True)


if __name__ == "__main__":
    main()
