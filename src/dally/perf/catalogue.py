"""Reads catalogues of models in TOML: what is known of each, and where it was published."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dally.errors import at
from dally.input_file import read_text
from dally.toml import TomlFile, TomlTable

if TYPE_CHECKING:
    from dally.perf.llm.stated import LargeModel

KINDS = ("vision", "language", "recommendation")
TENSOR_CORES = ("amp", "fp16", "bf16")  # precisions whose arithmetic takes the same time
PRECISIONS = ("fp32", *TENSOR_CORES)
MODEL_KEYS = (
    "name", "kind", "aliases", "params", "gradient_bytes", "last_bucket_bytes", "skew", "batch",
    "all_to_all", "parallelism", "compute",
)  # fmt: skip
COMPUTE_KEYS = (
    "gpu", "precision", "batch", "iteration_s", "forward_s", "backward_s", "optimizer_s", "memory_bytes", "spread",
    "timeline", "source",
)  # fmt: skip
BESIDE = ("measured", "as-published", "large-models")  # stand for the other catalogues that ship
FORWARD_SHARE = 1 / 3  # of a step, where only the whole was measured


Timeline = tuple[tuple[float, float, float, float], ...]


class Compute(NamedTuple):
    """Forward and backward time of one step on one GPU type.

    `timeline`: (buckets, share of the gradients, first and last ready as shares of the backward pass), in order.
    """

    gpu: str
    precision: str
    batch: int
    forward_s: float
    backward_s: float
    source: str
    optimizer_s: float = 0.0  # 0: within the rest, or not known
    memory_bytes: int = 0  # at the most, on the GPU; 0: not known
    timeline: Timeline = ()


class Model(NamedTuple):
    """What a catalogue says of one model."""

    name: str
    kind: str
    aliases: tuple[str, ...]
    params: int
    gradient_bytes: dict[str, int]  # by precision on the wire: fp32, fp16
    last_bucket_bytes: dict[str, int]
    skew: float  # largest tensor ÷ model
    batch: int
    batch_unit: str
    all_to_all_bytes_per_sample: int
    all_to_all_gpus: int  # 0: the whole gang
    tensor_parallel: int
    pipeline_parallel: int
    compute: tuple[Compute, ...]
    sources: dict[str, str]  # by field
    large: LargeModel | None = None  # priced by its parallel groups; then there are no compute rows


class Gpu(NamedTuple):
    """Speed of a GPU type against an A100, by kind of model and by arithmetic (amp, fp32)."""

    name: str
    speed: dict[str, dict[str, float]]
    source: str


class Catalogue(NamedTuple):
    """Models by name, GPU types by name, and the models' other names."""

    models: dict[str, Model]
    gpus: dict[str, Gpu]
    names: dict[str, str]  # plain spelling -> name


def plain(name: str) -> str:
    """A name without case and punctuation, so that ResNet-50, resnet_50 and resnet50 are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def names_file(profiles: str) -> bool:
    """Whether `--profiles` names a file, and not nothing or a catalogue that ships."""
    return profiles not in ("", *BESIDE)


def read_catalogue(path: Path) -> Catalogue:
    """The file's models, or an InputError that names file, model, field and value."""
    file = TomlFile(path, read_text(path))
    file.only(("gpus", "models"))
    gpus = [_gpu(table) for table in _rows(file, "gpus")]
    models = [_model(table) for table in _rows(file, "models")]
    names: dict[str, str] = {}
    for model in models:
        for name in (model.name, *model.aliases):
            taken = names.get(plain(name), "")
            if taken and (taken != model.name or name == model.name):
                raise at(path, None, model.name, f"name {name!r}: is taken already by {taken!r}")
            names[plain(name)] = model.name
    return Catalogue({model.name: model for model in models}, {gpu.name: gpu for gpu in gpus}, names)


def _rows(file: TomlFile, key: str) -> list[TomlTable]:
    rows = file.tables.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise at(file.path, file.line(key), key, f"write each as a [[{key}]] table")
    return [
        TomlTable(file, (key, place), row, f"{row.get('name', f'[[{key}]]')}: ") for place, row in enumerate(rows)
    ]


def _gpu(fields: TomlTable) -> Gpu:
    row = fields.row
    fields.only(("name", "source", *KINDS))
    speed: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        if kind in row:
            values = fields.table(kind)
            values.only(("amp", "fp32"))
            speed[kind] = {arithmetic: values.number(arithmetic) for arithmetic in values.row}
    return Gpu(fields.text("name"), speed, fields.text("source"))


def _model(fields: TomlTable) -> Model:
    row = fields.row
    if "transformer" in row:
        return _large_model(fields)
    fields.only(MODEL_KEYS)
    name, aliases = _names(fields)
    params, batch, skew = fields.table("params"), fields.table("batch"), fields.table("skew")
    sources = {"params": params.text("source"), "batch": batch.text("source"), "skew": skew.text("source")}
    gradient_bytes = _by_precision(fields, "gradient_bytes", sources)
    last_bucket_bytes = _by_precision(fields, "last_bucket_bytes", sources)
    for precision, nbytes in last_bucket_bytes.items():
        if nbytes > gradient_bytes[precision]:
            fields.fail(f"last_bucket_bytes.{precision}", nbytes, "must not exceed gradient_bytes")
    if not skew.number("value") <= 1:
        fields.fail("skew.value", skew.row["value"], "must be at most 1")
    to_all = fields.table("all_to_all", {"bytes_per_sample": 0, "gpus": 0, "source": "none"})
    parallelism = fields.table("parallelism", {"tensor": 1, "pipeline": 1, "source": "none"})
    for key, table in (("all_to_all", to_all), ("parallelism", parallelism)):
        if key in row:
            sources[key] = table.text("source")
    return Model(
        name=name,
        kind=fields.choice("kind", KINDS),
        aliases=aliases,
        params=params.count("value"),
        gradient_bytes=gradient_bytes,
        last_bucket_bytes=last_bucket_bytes,
        skew=skew.number("value"),
        batch=batch.count("value"),
        batch_unit=batch.text("unit"),
        all_to_all_bytes_per_sample=to_all.count("bytes_per_sample", 0),
        all_to_all_gpus=to_all.count("gpus", 0),
        tensor_parallel=parallelism.count("tensor"),
        pipeline_parallel=parallelism.count("pipeline"),
        compute=_computes(fields),
        sources=sources,
    )


def _names(fields: TomlTable) -> tuple[str, tuple[str, ...]]:
    name = fields.text("name")
    aliases = fields.row.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) and plain(alias) for alias in aliases):
        fields.fail("aliases", aliases, "must be a list of names")
    if not plain(name):
        fields.fail("name", name, "must hold a letter or a digit")
    return name, tuple(aliases)


def _large_model(fields: TomlTable) -> Model:
    """A model of which the transformer and its layout are stated: the rest follows."""
    from dally.perf.llm.stated import read_large

    name, aliases = _names(fields)
    large = read_large(fields)
    params, table = large.shape.params(), large.shape.table_params()
    return Model(
        name=name,
        kind="language",
        aliases=aliases,
        params=params,
        gradient_bytes={"fp32": 4 * params, "fp16": 2 * params},
        last_bucket_bytes={"fp32": 4 * table, "fp16": 2 * table},
        skew=large.shape.vocab * large.shape.hidden / params,
        batch=large.replica.global_batch,
        batch_unit=f"sequences of {large.replica.seq} tokens per replica",
        all_to_all_bytes_per_sample=0,
        all_to_all_gpus=0,
        tensor_parallel=large.replica.tp,
        pipeline_parallel=large.replica.pp,
        compute=(),
        sources={"transformer": fields.text("source")},
        large=large,
    )


def _by_precision(fields: TomlTable, key: str, sources: dict[str, str]) -> dict[str, int]:
    table = fields.table(key)
    table.only(("fp32", "fp16", "source"))
    sources[key] = table.text("source")
    return {precision: table.count(precision) for precision in ("fp32", "fp16")}


def _computes(fields: TomlTable) -> tuple[Compute, ...]:
    rows = fields.row.get("compute")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        fields.fail("compute", rows, "give one or more [[models.compute]] tables")
    return tuple(
        _compute(
            TomlTable(fields.file, (*fields.keys, "compute", place), row, f"{fields.prefix}compute[{place}]: ")
        )
        for place, row in enumerate(rows)
    )


def _compute(fields: TomlTable) -> Compute:
    fields.only(COMPUTE_KEYS)
    if "iteration_s" in fields.row:
        if "forward_s" in fields.row or "backward_s" in fields.row:
            fields.fail("iteration_s", fields.row["iteration_s"], "give either this or forward_s and backward_s")
        iteration_s = fields.number("iteration_s")
        forward_s, backward_s = iteration_s * FORWARD_SHARE, iteration_s * (1 - FORWARD_SHARE)
    else:
        forward_s, backward_s = fields.number("forward_s"), fields.number("backward_s")
    return Compute(
        gpu=fields.text("gpu"),
        precision=fields.choice("precision", PRECISIONS),
        batch=fields.count("batch"),
        forward_s=forward_s,
        backward_s=backward_s,
        source=fields.text("source"),
        optimizer_s=fields.number("optimizer_s") if "optimizer_s" in fields.row else 0.0,
        memory_bytes=fields.count("memory_bytes") if "memory_bytes" in fields.row else 0,
        timeline=_timeline(fields),
    )


def _timeline(fields: TomlTable) -> Timeline:
    """The stages, in order, whose shares of the gradients add up to 1."""
    stages = fields.row.get("timeline", [])
    before, total = 0.0, 0.0
    for stage in stages if isinstance(stages, list) else [None]:
        if not isinstance(stage, list) or len(stage) != 4 or not all(isinstance(v, (int, float)) for v in stage):
            fields.fail(
                "timeline", stage, "each stage is [buckets, share of the gradients, first ready, last ready]"
            )
        count, share, first, last = stage
        if not (count >= 1 and share > 0 and before <= first <= last <= 1):
            fields.fail("timeline", stage, "must be a bucket or more, and moments in order from 0 to 1")
        before, total = last, total + share
    if stages and abs(total - 1) > 0.001:
        fields.fail("timeline", round(total, 6), "the shares of the gradients must add up to 1")
    return tuple((float(count), share / total, float(first), float(last)) for count, share, first, last in stages)
