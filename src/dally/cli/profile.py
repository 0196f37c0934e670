"""`dally profile`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dally.cli.output import print_table
from dally.errors import InputError

if TYPE_CHECKING:
    from dally.profiling.builtin import Task
    from dally.profiling.catalogue_text import About

EXAMPLES = """Examples:

  dally profile --list

  dally profile --model resnet50 --out mine.toml

  dally profile --model gpt2 --batch 8 --batch 16 --precision amp --graph --raw raw.jsonl

  dally profile --module mine.models:build --name ranker --kind recommendation --batch 4096 --out mine.toml

Then: dally models --profiles mine.toml --gpu h200
"""
WHAT = "dally profile"


def profile(
    model: str = typer.Option("", help="A built-in model; --list names them."),
    listed: bool = typer.Option(False, "--list", help="List the built-in models and stop."),
    module: str = typer.Option(
        "", help="Instead, your own: module:function, called with the batch size; it returns"
    ),
    name: str = typer.Option("", help="(model, batch, loss). What it is called,"),
    kind: str = typer.Option("language", help="what kind it is (vision, language, recommendation),"),
    unit: str = typer.Option("samples", help="what its batch counts,"),
    optimizer: str = typer.Option("adamw", help="and which optimiser steps: adamw or sgd."),
    batch: list[int] = typer.Option([], help="Batch size; may be given again.  [default: the model's]"),
    precision: list[str] = typer.Option([], help="fp32 (TF32 products), amp (bf16 autocast) or bf16; again."),
    device: str = typer.Option("auto", help="cuda, cpu, or cuda if there is one."),
    steps: int = typer.Option(20, min=1, help="Steps to take the median of."),
    graph: bool = typer.Option(False, "--graph", help="Also time steps as a CUDA graph: for launch-bound models."),
    processes: int = typer.Option(
        0, help="Also time all-reduces among so many.  [default: all GPUs; on a CPU none]"
    ),
    out: Path = typer.Option(None, metavar="FILE", help="Write the profile, in TOML, for --profiles."),
    raw: Path = typer.Option(None, metavar="FILE", help="Add the raw measurements, one JSON object a line."),
    as_json: bool = typer.Option(False, "--json", help="Print the raw measurements instead of a table."),
) -> None:
    """Measure a model's training step on the GPUs at hand: passes, buckets, memory, optimiser."""
    from dally.profiling.builtin import PRECISIONS, find_builtin

    if listed:
        _list(as_json)
        return
    if bool(model) == bool(module):
        raise InputError("give --model or --module, one of them; `dally profile --list` names the models")
    for one in precision:
        if one not in PRECISIONS:
            raise InputError(f"--precision {one}: must be one of {', '.join(PRECISIONS)}")
    if optimizer not in ("adamw", "sgd"):
        raise InputError(f"--optimizer {optimizer}: must be adamw or sgd")
    builtin = find_builtin(model) if model else None
    batches = batch or list(builtin.batches if builtin else ())
    if not batches or min(batches) < 1:
        raise InputError("--batch: give at least one, of 1 or more")
    precisions = precision or list(builtin.precisions if builtin else ("fp32", "amp"))
    called = name or model or module.partition(":")[0].rpartition(".")[2]
    about = _about(model, kind, unit)
    build = _builder(model, module)
    records = [
        _measured(called, build, size, one, builtin.optimizer if builtin else optimizer, device, steps, graph, raw)
        for one in precisions
        for size in batches
    ]
    reduced = _reduced(device, processes)
    if out:
        _write(out, records, about, reduced)
    if as_json:
        typer.echo(json.dumps({"steps": records, "all_reduce": reduced}, indent=2))
    else:
        _show(records, reduced)


def _builder(model: str, module: str) -> Callable[[int], Task]:
    from dally.extras import need
    from dally.profiling.builtin import builder, builtin_builder, find_builtin

    need("torch", WHAT)
    if model:
        builtin = find_builtin(model)
        for module_name, package in (("vision_models", "torchvision"), ("text_models", "transformers")):
            if builtin.build.startswith(module_name):
                need(package, f"{WHAT} --model {model}")
        return builtin_builder(builtin)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return builder(module)


def _about(model: str, kind: str, unit: str) -> About:
    from dally.perf.catalogue import KINDS
    from dally.profiling.builtin import find_builtin
    from dally.profiling.catalogue_text import About

    if kind not in KINDS:
        raise InputError(f"--kind {kind}: must be one of {', '.join(KINDS)}")
    if not model:
        return About(kind, unit)
    own = find_builtin(model)
    return About(own.kind, own.unit, all_to_all_bytes=own.all_to_all_bytes, all_to_all_gpus=own.all_to_all_gpus)


def _measured(
    name: str, build: Callable[[int], Task], batch: int, precision: str, optimizer: str, device: str, steps: int,
    graph: bool, raw: Path | None,
) -> dict[str, Any]:  # fmt: skip
    from dally.profiling.measure import Setting, measured, usable_device
    from dally.profiling.records import append_record
    from dally.profiling.training_step import Timing

    typer.echo(f"{name}: batch {batch}, {precision} …", err=True)
    timing = Timing(steps=steps, warmup=min(4, steps), ready_steps=min(5, steps))
    setting = Setting(batch, precision, optimizer, graph)
    record = measured(name, build, setting, usable_device(device), timing) | {"command": _command()}
    if raw:
        append_record(raw, record)
    return record


def _command() -> str:
    return " ".join(["dally", *sys.argv[1:]])


def _reduced(device: str, processes: int) -> list[tuple[int, float]]:
    """All-reduce times: among all GPUs if there are several, among processes of a CPU if asked."""
    import torch

    from dally.profiling.measure import usable_device

    used = usable_device(device)
    count = processes or (torch.cuda.device_count() if used == "cuda" else 0)
    if used == "cuda" and count > torch.cuda.device_count():
        raise InputError(f"--processes {processes}: there are {torch.cuda.device_count()} GPUs")
    if count < 2:
        return []
    from dally.profiling.all_reduce import all_reduce_times

    return all_reduce_times(used, count)


def _write(out: Path, records: list[dict[str, Any]], about: About, reduced: list[tuple[int, float]]) -> None:
    from dally.profiling.catalogue_text import catalogue_text
    from dally.whole_file import whole_file

    text = catalogue_text(records, lambda _: about)
    if reduced:
        text += "\n# All-reduce among the devices of the machine, bytes and seconds:\n"
        text += "".join(f"# {size} {seconds:.6g}\n" for size, seconds in reduced)
    with whole_file(out) as file:
        file.write(text.encode())


def _show(records: list[dict[str, Any]], reduced: list[tuple[int, float]]) -> None:
    rows = [
        [
            record["model"], record["gpu"], record["precision"], f"{record['batch']:,}",
            f"{record['forward_s'] * 1e3:.2f} ms", f"{record['backward_s'] * 1e3:.2f} ms",
            f"{max(record['forward_spread'], record['backward_spread']):.1%}",
            f"{record['optimizer_s'] * 1e3:.2f} ms", f"{record['gradient_bytes'] / 1e6:,.1f} MB",
            str(len(record["buckets"])), f"{record['last_bucket_bytes'] / 1e6:,.1f} MB",
        ]
        for record in records
    ]  # fmt: skip
    heads = ["model", "GPU", "precision", "batch", "forward", "backward", "spread", "optimiser", "gradients"]
    print_table([*heads, "buckets", "last"], rows, numbers_from=3)
    if reduced:
        print_table(
            ["all-reduce", "time"], [[f"{n:,} bytes", f"{s * 1e3:.3f} ms"] for n, s in reduced], numbers_from=1
        )


def _list(as_json: bool) -> None:
    from dally.profiling.builtin import BUILTINS

    shown = list(BUILTINS.values())
    if as_json:
        typer.echo(json.dumps([one._asdict() for one in shown], indent=2))
        return
    rows = [
        [one.name, one.kind, ", ".join(f"{size:,}" for size in one.batches), one.unit, ", ".join(one.precisions)]
        for one in shown
    ]
    print_table(["model", "kind", "batches", "of", "precisions"], rows)
