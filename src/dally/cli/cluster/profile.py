"""`dally profile`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.errors import InputError

if TYPE_CHECKING:
    from dally.profiling.builtin import Builtin
    from dally.profiling.catalogue_text import About
    from dally.profiling.measuring import Record, StepRequest

WHAT = "dally profile"


@examples(
    "dally profile --list",
    "dally profile --model resnet50 --out mine.toml",
    "dally profile --model gpt2 --batch 8 --batch 16 --precision amp --graph --raw raw.jsonl",
    "dally profile --module mine.models:build --name ranker --kind recommendation --batch 4096 --out mine.toml",
    "Then: dally models --profiles mine.toml --gpu h200",
)
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
        0, help="Also time all-reduces among this many processes.  [default: all GPUs; on a CPU none]"
    ),
    out: Path = typer.Option(None, metavar="FILE", help="Write the profile, in TOML, for --profiles."),
    raw: Path = typer.Option(None, metavar="FILE", help="Add the raw measurements, one JSON object a line."),
    as_json: bool = typer.Option(False, "--json", help="Print the raw measurements instead of a table."),
) -> None:
    """Measure a model's training step on the GPUs at hand: passes, buckets, memory, optimiser."""
    from dally.profiling.builtin import PRECISIONS, find_builtin
    from dally.profiling.measuring import StepRequest

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
    _need_packages(builtin)
    stepping = builtin.optimizer if builtin else optimizer
    request = [
        StepRequest(called, model, module, size, one, stepping, device, steps, graph)
        for one in precisions
        for size in batches
    ]
    records, reduced = _measured(request, processes, raw)
    if out:
        _write(out, records, about, reduced)
    if as_json:
        typer.echo(json.dumps({"steps": records, "all_reduce": reduced}, indent=2))
    else:
        _show(records, reduced)


def _need_packages(builtin: Builtin | None) -> None:
    from dally.extras import need

    need("torch", WHAT)
    for module_name, package in (("vision_models", "torchvision"), ("text_models", "transformers")):
        if builtin and builtin.build.startswith(module_name):
            need(package, f"{WHAT} --model {builtin.name}")


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
    request: list[StepRequest], processes: int, raw: Path | None
) -> tuple[list[Record], list[tuple[int, float]]]:
    """Records and all-reduces; what ends the process that measures is told, and ends the command with code 1."""
    from dally.profiling.measuring import Measuring, MeasuringError, append_record

    records: list[Record] = []
    try:
        with Measuring() as measuring:
            for one in request:
                typer.echo(f"{one.label()} …", err=True)
                records.append(measuring.record(one) | {"command": " ".join(["dally", *sys.argv[1:]])})
                if raw:
                    append_record(raw, records[-1])
            return records, measuring.all_reduces(request[0].device, processes)
    except MeasuringError as error:
        typer.echo(f"dally: {error}", err=True)
        raise typer.Exit(1) from None


def _write(out: Path, records: list[Record], about: About, reduced: list[tuple[int, float]]) -> None:
    from dally.profiling.catalogue_text import catalogue_text
    from dally.whole_file import whole_file

    text = catalogue_text(records, lambda _: about)
    if reduced:
        text += "\n# All-reduce among the devices of the machine, bytes and seconds:\n"
        text += "".join(f"# {size} {seconds:.6g}\n" for size, seconds in reduced)
    with whole_file(out) as file:
        file.write(text.encode())


def _show(records: list[Record], reduced: list[tuple[int, float]]) -> None:
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
