"""Large models as catalogues state them: the transformer, its layout, and measured steps."""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

from dally.errors import InputError, unknown
from dally.model import Profile
from dally.perf.llm.accelerators import find_gpu, gpu_types, known_models
from dally.perf.llm.layout import RECOMPUTE, Layout
from dally.perf.llm.placed import Groups
from dally.perf.llm.step import LayoutModel, measured_efficiency
from dally.perf.llm.transformer import ExpertMix, Transformer
from dally.toml import TomlTable

PRECISIONS = ("bf16", "fp16", "fp8", "mxfp8", "fp4")
KEYS = ("name", "kind", "aliases", "transformer", "layout", "measured", "source")
SHAPE_KEYS = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
LAYOUT_KEYS = ("micro_batch", "tp", "pp", "vpp", "cp", "ep")
GATED, TIED = "gated", "tied"


class Measured(NamedTuple):
    """One measured step: it fixes the efficiency of its GPU type and precision for this model."""

    gpu: str
    precision: str
    gpus: int
    step_s: float


class LargeModel(NamedTuple):
    """A transformer with the layout of one replica; gangs have as many replicas as their size allows."""

    shape: Transformer
    replica: Layout
    precision: str
    measured: tuple[Measured, ...]

    def layout(self, gpus: int) -> Layout:
        """The layout of a gang of that size, its degrees lowered to divisors of it."""
        base = self.replica
        tp = gcd(base.tp, gpus)
        pp = gcd(base.pp, gpus // tp)
        cp = gcd(base.cp, gpus // tp // pp)
        ep = gcd(base.ep, gpus // pp)
        dp = gpus // (tp * pp * cp)
        micro_batches = base.micro_batches
        return base._replace(
            gpus=gpus, tp=tp, pp=pp, cp=cp, ep=ep, global_batch=dp * base.micro_batch * micro_batches,
            vpp=base.vpp if pp == base.pp else 1,
        )  # fmt: skip

    def priced(self, gpu: str, precision: str | None) -> LayoutModel:
        """What prices it on a GPU type, at the efficiency that a step measured there fixes, if there is one."""
        gpu_type = find_gpu(gpu.upper())
        if gpu_type is None:
            raise unknown("GPU type of large models", gpu, list(gpu_types()))
        used = precision if precision in PRECISIONS else self.precision
        if used not in gpu_type.accelerator.peak_tflops:
            raise InputError(f"precision {used!r}: {gpu_type.accelerator.name} has none")
        accelerator = gpu_type.at(used)
        for row in self.measured:
            if find_gpu(row.gpu.upper()) is gpu_type and row.precision == used:
                value = measured_efficiency(self.shape, accelerator, used, self.layout(row.gpus), row.step_s)
                accelerator = accelerator._replace(efficiency=value)
        return LayoutModel(self.shape, accelerator, used)

    def profile(self, name: str, model: LayoutModel, gpus: int) -> Profile:
        """One iteration of a gang of that size, priced by groups wherever it is placed."""
        layout = self.layout(gpus)
        groups = Groups(model, layout)
        compute_s = groups.compute_s()
        return Profile(name=name, compute_s=compute_s, tensor_parallel=layout.tp, groups=groups)


def read_large(fields: TomlTable) -> LargeModel:
    """The model of a [[models]] table with `transformer` and `layout`."""
    fields.only(KEYS)
    shape = _shape(fields.table("transformer"))
    table = fields.table("layout")
    replica = _layout(table, shape)
    precision = table.choice("precision", PRECISIONS) if "precision" in table.row else "bf16"
    rows = fields.row.get("measured", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        fields.fail("measured", rows, "write each as a [[models.measured]] table")
    measured = tuple(
        _measured(
            TomlTable(fields.file, (*fields.keys, "measured", place), row, f"{fields.prefix}measured[{place}]: ")
        )
        for place, row in enumerate(rows)
    )
    return LargeModel(shape, replica, precision, measured)


def _shape(table: TomlTable) -> Transformer:
    if "like" in table.row:
        table.only(("like",))
        return known_models()[plain_choice(table)]
    table.only((*SHAPE_KEYS, "head_dim", GATED, TIED, "window", "experts"))
    counts: dict[str, Any] = {key: table.count(key) for key in SHAPE_KEYS}
    optional: dict[str, Any] = {key: table.count(key) for key in ("head_dim", "window") if key in table.row}
    optional |= {key: _flag(table, key) for key in (GATED, TIED) if key in table.row}
    if "experts" in table.row:
        inner = table.table("experts")
        inner.only(tuple(key for key in ExpertMix._fields if key != "chained"))
        needed = ("number", "per_token", "ffn")
        values: dict[str, Any] = {key: inner.count(key) for key in needed}
        values |= {key: inner.count(key, 0) for key in inner.row if key not in needed}
        optional["experts"] = ExpertMix(**values)
    return Transformer(**counts, **optional)


def plain_choice(table: TomlTable) -> str:
    """The plain name of the known model that `like` names."""
    names = {name.replace("-", ""): name for name in known_models()}
    spelling = table.text("like").lower().replace("-", "").replace("_", "")
    if spelling not in names:
        table.fail("like", table.row["like"], f"must be one of {', '.join(known_models())}")
    return spelling


def _flag(table: TomlTable, key: str) -> bool:
    value = table.row[key]
    if not isinstance(value, bool):
        table.fail(key, value, "must be true or false")
    return value


def _layout(table: TomlTable, shape: Transformer) -> Layout:
    table.only(("seq", "micro_batches", *LAYOUT_KEYS, "zero", "recompute", "frozen", "eager", "precision"))
    counts: dict[str, Any] = {key: table.count(key) for key in LAYOUT_KEYS if key in table.row}
    layout = Layout(gpus=1, seq=table.count("seq"), global_batch=1, **counts)
    gpus = layout.tp * layout.pp * layout.cp
    while (gpus // layout.pp) % layout.ep:  # experts may span replicas
        gpus += layout.tp * layout.pp * layout.cp
    micro_batches = table.count("micro_batches") if "micro_batches" in table.row else 1
    layout = layout._replace(gpus=gpus)
    layout = layout._replace(global_batch=layout.dp * layout.micro_batch * micro_batches)
    if "zero" in table.row:
        layout = layout._replace(zero=table.count("zero", 0, 3))
    if "recompute" in table.row:
        layout = layout._replace(recompute=table.choice("recompute", RECOMPUTE))
    if "frozen" in table.row:
        layout = layout._replace(frozen=_flag(table, "frozen"))
    if "eager" in table.row:
        layout = layout._replace(eager=_flag(table, "eager"))
    problem = layout.problem(shape.layers)
    if problem:
        table.fail("pp", layout.pp, problem)
    return layout


def _measured(table: TomlTable) -> Measured:
    table.only(("gpu", "precision", "gpus", "step_s", "source"))
    gpu = table.text("gpu")
    if find_gpu(gpu.upper()) is None:
        table.fail("gpu", gpu, f"must be one of {', '.join(gpu_types())}")
    return Measured(gpu, table.choice("precision", PRECISIONS), table.count("gpus"), table.number("step_s"))
