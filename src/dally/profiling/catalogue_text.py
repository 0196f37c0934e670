"""A catalogue in TOML from raw measurements: nothing in it is typed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from dally.profiling.buckets import Bucket, stages_of
from dally.profiling.measuring import Record
from dally.toml import toml_text, toml_value

LAUNCH_BOUND: Final = 0.10  # spread of a pass above which the host was late, and a CUDA graph's time counts
ORDER: Final = ("amp", "bf16", "fp32")  # the first row of a model is the one that other GPUs' times come from
HEAD: Final = """\
# Made from raw measurements by a command; docs/profiles.md says how.
# timeline: [buckets, share of the gradients, first and last ready as shares of the backward pass], in order.
"""


class About(NamedTuple):
    """What a measurement does not tell of a model."""

    kind: str
    unit: str
    aliases: tuple[str, ...] = ()
    batch: int = 0  # the usual one; 0: the smallest measured
    all_to_all_bytes: int = 0
    all_to_all_gpus: int = 0


def catalogue_text(records: Sequence[Record], about: Callable[[str], About]) -> str:
    """The catalogue of these measurements, those that failed left out."""
    by_model: dict[str, list[Record]] = {}
    for record in records:
        if "error" not in record:
            by_model.setdefault(record["model"], []).append(record)
    return HEAD + "".join(_model(name, rows, about(name)) for name, rows in by_model.items())


def passes_s(record: Record) -> tuple[float, float, bool]:
    """Forward and backward seconds, and whether they are a CUDA graph's: where launching was what took long."""
    forward_s, backward_s = record["forward_s"], record["backward_s"]
    graph_s = record.get("graph_s")
    if not graph_s or _spread(record) <= LAUNCH_BOUND or graph_s >= forward_s + backward_s:
        return forward_s, backward_s, False
    scale = graph_s / (forward_s + backward_s)
    return forward_s * scale, backward_s * scale, True


def _model(name: str, rows: list[Record], about: About) -> str:
    rows = sorted(rows, key=lambda row: (ORDER.index(row["precision"]), row["batch"]))
    whole = next((row for row in rows if row["precision"] != "bf16"), rows[0])
    width = 1 if whole["precision"] != "bf16" else 2  # a model measured in 2 bytes alone has twice that in 4
    gradients, last = _bytes(whole["gradient_bytes"]) * width, _bytes(whole["last_bucket_bytes"]) * width
    measured = f"measured: {whole['device']}, torch {whole['torch']}, {whole['date']}"
    source, halved = toml_text(measured), toml_text(f"{measured}; in 2 bytes half of it")
    usual = _usual_batch(rows, about.batch)
    lines = [
        "\n[[models]]",
        f"name = {toml_text(name)}",
        f"kind = {toml_text(about.kind)}",
        *([f"aliases = {toml_value(about.aliases)}"] if about.aliases else []),
        f"params = {{ value = {whole['params']:_}, source = {source} }}",
        f"gradient_bytes = {{ fp32 = {gradients:_}, fp16 = {gradients // 2:_}, source = {halved} }}",
        f"last_bucket_bytes = {{ fp32 = {last:_}, fp16 = {max(1, last // 2):_}, source = {halved} }}",
        f"skew = {{ value = {whole['largest_bytes'] / whole['gradient_bytes']:.4f}, source = {source} }}",
        f'batch = {{ value = {usual:_}, unit = {toml_text(about.unit)}, source = "as measured" }}',
    ]
    if about.all_to_all_bytes:
        record = toml_text("computed: from the model's shape, dally.profiling.builtin")
        lines.append(
            f"all_to_all = {{ bytes_per_sample = {about.all_to_all_bytes:_}, gpus = {about.all_to_all_gpus}, "
            f"source = {record} }}"
        )
    return "\n".join(lines) + "\n" + "".join(_compute(row) for row in rows)


def _usual_batch(rows: list[Record], desired: int) -> int:
    """The batch nearest the wanted one, or the smallest, of those at which the host was not late."""
    late = {row["batch"] for row in rows if _spread(row) > LAUNCH_BOUND and not passes_s(row)[2]}
    batches: list[int] = sorted({row["batch"] for row in rows} - late) or sorted(late)
    return min(batches, key=lambda one: max(one, desired) / min(one, desired)) if desired else batches[0]


def _spread(row: Record) -> float:
    return float(max(row["forward_spread"], row["backward_spread"]))


def _compute(row: Record) -> str:
    forward_s, backward_s, graph = passes_s(row)
    spread = _spread(row)
    source = (
        f"measured: {row['device']}, driver {row['driver']}, torch {row['torch']}, {row['date']}: {row['command']}"
    )
    if graph:
        source += f"; of a CUDA graph, as steps launched one by one vary by {spread:.0%}"
    buckets = [Bucket(nbytes, ready) for nbytes, ready in row["buckets"]]
    total = sum(bucket.nbytes for bucket in buckets)
    timeline = ", ".join(
        f"[{stage.buckets}, {stage.nbytes / total:.6g}, {stage.first:.4f}, {stage.last:.4f}]"
        for stage in stages_of(buckets)
    )
    lines = [
        "[[models.compute]]",
        f"gpu = {toml_text(row['gpu'])}",
        f"precision = {toml_text(row['precision'])}",
        f"batch = {row['batch']:_}",
        f"forward_s = {forward_s:.6g}",
        f"backward_s = {backward_s:.6g}",
        f"optimizer_s = {row['optimizer_s']:.6g}",
        *([f"memory_bytes = {row['train_memory_bytes']:_}"] if row.get("train_memory_bytes") else []),
        f"spread = {spread:.4f}",
        f"timeline = [{timeline}]",
        f"source = {toml_text(source)}",
    ]
    return "\n".join(lines) + "\n"


def _bytes(count: float) -> int:
    return max(1, round(count))
