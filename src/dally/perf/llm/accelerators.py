"""What is known of GPU types, and of models whose experts training logs do not state."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from dally.perf.catalogue import plain
from dally.perf.llm.step import Accelerator
from dally.perf.llm.transformer import ExpertMix, Latent, Transformer

SHIPPED = Path(__file__).parent.with_name("llm.toml")


class GpuType(NamedTuple):
    """A GPU type: how its name is written, its figures, and the efficiency of products by precision."""

    match: tuple[str, ...]
    accelerator: Accelerator
    efficiency: Mapping[str, float]
    source: str

    def at(self, precision: str, efficiency: float = 0.0) -> Accelerator:
        """The GPU with that efficiency, or that of the precision: measured on it, or as on other types."""
        value = efficiency or self.efficiency.get(precision) or usual_efficiency(precision)
        return self.accelerator._replace(efficiency=value)


@cache
def gpu_types() -> dict[str, GpuType]:
    """The types that ship, by name."""
    result = {}
    for row in _tables()["gpus"]:
        fields = {key: row[key] for key in Accelerator._fields if key in row and key != "efficiency"}
        result[row["name"]] = GpuType(tuple(row["match"]), Accelerator(**fields), row["efficiency"], row["source"])
    return result


@cache
def known_models() -> dict[str, Transformer]:
    """The models that ship, by plain name."""
    result = {}
    for row in _tables()["models"]:
        fields = {key: row[key] for key in Transformer._fields if key in row}
        if "experts" in row:
            fields["experts"] = ExpertMix(**row["experts"])
        if "latent" in row:
            fields["latent"] = Latent(**row["latent"])
        result[plain(row["name"])] = Transformer(**fields)
    return result


def find_gpu(text: str) -> GpuType | None:
    """The type that a text names: that of the longest match."""
    matches = [(len(part), gpu) for gpu in gpu_types().values() for part in gpu.match if part in text]
    return max(matches, key=lambda match: match[0])[1] if matches else None


@cache
def usual_efficiency(precision: str) -> float:
    """The median over the types of which it is known."""
    values = sorted(gpu.efficiency[precision] for gpu in gpu_types().values() if precision in gpu.efficiency)
    return values[len(values) // 2] if values else 0.5


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(SHIPPED.read_text())
