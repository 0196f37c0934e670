"""Profiles of models: what one training step computes and sends, on a given GPU type and batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from math import gcd, log
from pathlib import Path
from typing import TYPE_CHECKING

from dally.errors import InputError, unknown
from dally.model import Profile
from dally.perf.catalogue import (
    PRECISIONS,
    TENSOR_CORES,
    Catalogue,
    Compute,
    Model,
    Timeline,
    names_file,
    plain,
    read_catalogue,
)

if TYPE_CHECKING:
    from dally.perf.llm.stated import LargeModel
    from dally.perf.llm.step import LayoutModel

SHIPPED = Path(__file__).with_name("catalogue.toml")

MEASURED = Path(__file__).with_name("measured.toml")


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """One training step of a model on one GPU type. Bytes are of one iteration, times of one GPU."""

    name: str
    kind: str
    gpu: str
    precision: str  # of the arithmetic; see wire_precision for that of the gradients
    batch: int  # per GPU, in batch_unit
    batch_unit: str
    params: int
    gradient_bytes: int  # of a whole replica, which spans tensor_parallel × pipeline_parallel GPUs
    last_bucket_tensor_bytes: int  # likewise: what is reduced only after the backward pass
    skew: float  # largest tensor ÷ model
    forward_s: float
    backward_s: float
    all_to_all_bytes: int  # handed over by each GPU, summed over the iteration's exchanges
    all_to_all_gpus: int  # that exchange with each other; 0: the whole gang
    tensor_parallel: int  # GPUs that must share a machine
    pipeline_parallel: int
    sources: dict[str, str]  # by field
    basis: str = "published"  # of the times: measured, published, or derived from another GPU type's
    optimizer_s: float = 0.0  # 0: within the rest, or not known
    memory_bytes: int = 0  # at the most, on the GPU; 0: not known
    timeline: Timeline = ()  # of the buckets, in shares; none: all but the last hide as far as they can
    large: tuple[LargeModel, LayoutModel] | None = None  # priced by its groups

    @property
    def compute_s(self) -> float:
        """Seconds of a step without communication."""
        return self.forward_s + self.backward_s + self.optimizer_s

    @property
    def all_reduce_bytes(self) -> int:
        """Bytes each GPU all-reduces with its peers in other replicas: gradient_bytes ÷ (tensor × pipeline)."""
        return self.gradient_bytes // (self.tensor_parallel * self.pipeline_parallel)

    @property
    def last_bucket_bytes(self) -> int:
        """Bytes of the bucket that cannot overlap: split by tensor parallelism, all in the first stage."""
        return min(self.last_bucket_tensor_bytes // self.tensor_parallel, self.all_reduce_bytes)

    @property
    def replica_gpus(self) -> int:
        """GPUs that hold one copy of the model."""
        return self.tensor_parallel * self.pipeline_parallel

    def step(self, gpus: int) -> Profile:
        """What one iteration of a gang of this size computes and sends.

        The tensor-parallel ranks of a machine reduce their shards side by side over the same NICs: for
        the links that is one all-reduce of all their bytes. A single replica has nobody to reduce with.
        """
        if self.large is not None:
            large, model = self.large
            return large.profile(self.name, model, gpus)
        own = self.on(gpus)
        shards = own.tensor_parallel if gpus > own.replica_gpus else 0
        nbytes = float(own.all_reduce_bytes * shards)
        return Profile(
            name=own.name,
            forward_s=own.forward_s + own.optimizer_s,  # both hide nothing
            backward_s=own.backward_s,
            nbytes=nbytes,
            last_bucket_bytes=float(own.last_bucket_bytes * shards),
            all_to_all_bytes=float(own.all_to_all_bytes),
            all_to_all_gpus=own.all_to_all_gpus,
            tensor_parallel=own.tensor_parallel,
            skew=own.skew,
            stages=tuple(
                (count, share * nbytes, first * own.backward_s, last * own.backward_s)
                for count, share, first, last in own.timeline
                if shards
            ),
        )

    def on(self, gpus: int) -> ModelProfile:
        """The profile in a gang of this size, whose degrees of parallelism must divide it."""
        tensor = gcd(self.tensor_parallel, gpus)
        return replace(self, tensor_parallel=tensor, pipeline_parallel=gcd(self.pipeline_parallel, gpus // tensor))


def wire_precision(precision: str) -> str:
    """The precision in which gradients travel: mixed precision (amp) keeps them in fp32."""
    return "fp16" if precision in ("fp16", "bf16") else "fp32"


@cache
def shipped() -> Catalogue:
    """The catalogue that comes with Dally; read when first needed."""
    return read_catalogue(SHIPPED)


def load_profiles(path: Path) -> Catalogue:
    """The user's catalogue over the shipped one: its models and GPU types come first.

    `measured` and `as-published` stand for others that ship: profiles measured on an H200 (docs/profiles.md), and
    those of the paper's simulator (docs/results.md).
    """
    own, base = read_catalogue(path if names_file(str(path)) else SHIPPED.with_name(f"{path}.toml")), shipped()
    remaining = {name: model for name, model in base.models.items() if plain(name) not in own.names}
    names = {spelling: name for spelling, name in base.names.items() if name in remaining}
    return Catalogue(remaining | own.models, base.gpus | own.gpus, names | own.names)


def find_model(name: str, catalogue: Catalogue | None = None) -> Model:
    """The model of that name or alias, or an InputError that suggests the nearest."""
    known = catalogue or shipped()
    spelling = plain(name)
    if spelling in known.names:
        return known.models[known.names[spelling]]
    near = get_close_matches(spelling, known.names, n=1)
    hint = f"did you mean {known.names[near[0]]!r}?" if near else f"known: {', '.join(known.models)}"
    raise InputError(f"unknown model {name!r}; {hint}; --profiles FILE brings models of your own")


def find_profile(
    name: str,
    gpu: str = "a100",
    batch: int | None = None,
    precision: str | None = None,
    catalogue: Catalogue | None = None,
) -> ModelProfile:
    """The model's profile on a GPU type, at its usual batch and precision unless said.

    A time measured at another batch is scaled in proportion, one measured on another GPU type by the
    two types' speeds; the profile's `sources["compute"]` then begins with `estimate:`.
    """
    known = catalogue or shipped()
    model = find_model(name, known)
    gpu = gpu.lower()
    if batch is not None and batch < 1:
        raise InputError(f"batch {batch}: must be at least 1")
    if model.large is not None:
        return _large_profile(model, gpu, precision)
    if precision is not None and precision not in PRECISIONS:
        raise InputError(f"precision {precision!r}: must be one of {', '.join(PRECISIONS)}")
    desired = batch or model.batch
    row = _nearest(_measured(model, gpu, precision), desired)
    source, ratio, basis = row.source, 1.0, "measured" if row.source.startswith("measured:") else "published"
    if row.batch != desired:
        source = f"estimate: scaled from a batch of {row.batch:,}; {source.removeprefix('estimate: ')}"
    if row.gpu != gpu:
        ratio = _speed(known, row.gpu, model, row) / _speed(known, gpu, model, row)
        source = f"estimate: {row.gpu} × {ratio:.4g}; {source.removeprefix('estimate: ')}"
        basis = "derived"
    scale = desired / row.batch * ratio
    used = precision or row.precision
    wire = wire_precision(used)
    return ModelProfile(
        name=model.name,
        kind=model.kind,
        gpu=gpu,
        precision=used,
        batch=desired,
        batch_unit=model.batch_unit,
        params=model.params,
        gradient_bytes=model.gradient_bytes[wire],
        last_bucket_tensor_bytes=model.last_bucket_bytes[wire],
        skew=model.skew,
        forward_s=row.forward_s * scale,
        backward_s=row.backward_s * scale,
        all_to_all_bytes=model.all_to_all_bytes_per_sample * desired,
        all_to_all_gpus=model.all_to_all_gpus,
        tensor_parallel=model.tensor_parallel,
        pipeline_parallel=model.pipeline_parallel,
        sources=model.sources | {"compute": source},
        basis=basis,
        optimizer_s=row.optimizer_s * ratio,  # the same at any batch
        memory_bytes=row.memory_bytes if row.batch == desired else 0,
        timeline=row.timeline,
    )


def _large_profile(model: Model, gpu: str, precision: str | None) -> ModelProfile:
    """The profile of a replica alone; `step` prices gangs of any size."""
    assert model.large is not None
    priced = model.large.priced(gpu, precision)
    profile = model.large.profile(model.name, priced, model.large.replica.gpus)
    measured = any(row.precision == precision or precision is None for row in model.large.measured)
    return ModelProfile(
        name=model.name,
        kind=model.kind,
        gpu=gpu,
        precision=precision or model.large.precision,
        batch=model.batch,
        batch_unit=model.batch_unit,
        params=model.params,
        gradient_bytes=model.gradient_bytes["fp16"],
        last_bucket_tensor_bytes=model.last_bucket_bytes["fp16"],
        skew=model.skew,
        forward_s=profile.forward_s,
        backward_s=profile.backward_s,
        all_to_all_bytes=0,
        all_to_all_gpus=0,
        tensor_parallel=model.tensor_parallel,
        pipeline_parallel=model.pipeline_parallel,
        sources=model.sources | {"compute": f"computed: efficiency {priced.gpu.efficiency:.3f} of the peak"},
        basis="measured" if measured else "derived",
        large=(model.large, priced),
    )


def _measured(model: Model, gpu: str, precision: str | None) -> list[Compute]:
    """The rows to go by: of this GPU type if there are any, else of the type that is listed first."""
    rows = [
        row for row in model.compute if precision is None or _arithmetic(row.precision) == _arithmetic(precision)
    ]
    if not rows:
        have = ", ".join(sorted({row.precision for row in model.compute}))
        raise InputError(f"model {model.name!r} has no times in {precision}; it has {have}")
    own = [row for row in rows if row.gpu == gpu]
    first = (own or rows)[0]
    alike = [row for row in own or rows if row.gpu == first.gpu]
    exact = [row for row in alike if row.precision == (precision or first.precision)]
    return exact or alike


def _nearest(rows: list[Compute], batch: int) -> Compute:
    return min(rows, key=lambda row: abs(log(row.batch / batch)))


def _arithmetic(precision: str) -> str:
    return "amp" if precision in TENSOR_CORES else "fp32"


def _speed(known: Catalogue, gpu: str, model: Model, row: Compute) -> float:
    arithmetic = _arithmetic(row.precision)
    if gpu not in known.gpus:
        raise unknown("GPU type", gpu, known.gpus)
    try:
        return known.gpus[gpu].speed[model.kind][arithmetic]
    except KeyError:
        problem = f"no time of {model.name!r} on {gpu!r}, and no speed for {model.kind} in {arithmetic} to scale by"
        raise InputError(problem) from None


class Steps:
    """Profiles by model and GPUs, each worked out once: what a speed model asks. It can be pickled with it."""

    def __init__(self, gpu: str = "a100", catalogue: Catalogue | None = None) -> None:
        self._gpu = gpu
        self._catalogue = catalogue  # None: the shipped one
        self._known: dict[tuple[str, int], Profile] = {}

    def __call__(self, model: str, gpus: int) -> Profile:
        result = self._known.get((model, gpus))
        if result is None:
            result = find_profile(model, self._gpu, catalogue=self._catalogue).step(gpus)
            self._known[(model, gpus)] = result
        return result
