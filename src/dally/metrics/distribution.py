"""How values spread over the jobs of a run: distributions, by size of the gang, by model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Parts:
    """Where the completion time of a job goes: means, in seconds."""

    waiting_s: float
    compute_s: float
    comm_s: float
    restart_s: float

    def jct_s(self) -> float:
        """All of it."""
        return self.waiting_s + self.compute_s + self.comm_s + self.restart_s

    def named(self) -> dict[str, float]:
        """Each part by its name."""
        return {
            "waiting": self.waiting_s,
            "computing": self.compute_s,
            "communication": self.comm_s,
            "restarts": self.restart_s,
        }


def finished(jobs: pl.DataFrame) -> pl.DataFrame:
    """The rows of jobs.csv that have a completion time."""
    return jobs.filter(jobs["jct_s"].is_not_null())


def cdf_points(values: pl.Series, most: int = 200) -> list[tuple[float, float]]:
    """(value, share of values at or below it), thinned to about that many points, first and last kept."""
    ordered = values.drop_nulls().sort()
    count = len(ordered)
    if count == 0:
        return []
    if count <= most:
        places = list(range(count))
    else:  # half of them evenly, half ever closer to the top: the tail is what people look for
        evenly = {round(place * (count - 1) / (most // 2)) for place in range(most // 2 + 1)}
        tail = {count - 1 - round(count ** (1 - place / (most // 2)) - 1) for place in range(most // 2 + 1)}
        places = sorted(evenly | tail)
    return [(value, (place + 1) / count) for place, value in zip(places, ordered.gather(places), strict=True)]


def size_class(gpus: int) -> int:
    """The number of a gang's size class: 0 for 1 GPU, 1 for 2, 2 for 3 to 4, 3 for 5 to 8 and so on."""
    return max(gpus - 1, 0).bit_length()


def size_label(number: int) -> str:
    """How people read a size class: 1, 2, from 3 to 4, and so on."""
    high = 1 << number
    low = high // 2 + 1
    return str(high) if low >= high else f"{low}–{high}"


def with_size_class(jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs with their `size_class`."""
    import polars as pl

    classes = {gpus: size_class(gpus) for gpus in jobs["gpus"].unique().to_list()}
    return jobs.with_columns(pl.col("gpus").replace_strict(classes, return_dtype=pl.Int32).alias("size_class"))


def jct_by_size(jobs: pl.DataFrame) -> pl.DataFrame:
    """Per size class of finished jobs: `jobs`, and `p25`, `p50`, `p75`, `p95` of the completion time in seconds."""
    import polars as pl

    shares = (25, 50, 75, 95)
    return (
        with_size_class(finished(jobs))
        .group_by("size_class")
        .agg(
            pl.len().alias("jobs"),
            *(pl.col("jct_s").quantile(share / 100, "linear").alias(f"p{share}") for share in shares),
        )
        .sort("size_class")
    )


def comm_by_model(jobs: pl.DataFrame) -> pl.DataFrame:
    """Per model: `lost`, the share of the GPU time at work that went into exposed communication, and `gpu_s`."""
    import polars as pl

    spent = (pl.col("compute_s") + pl.col("comm_s")) * pl.col("gpus")
    return (
        jobs.filter(pl.col("model").is_not_null() & (pl.col("model") != ""))
        .group_by("model")
        .agg((pl.col("comm_s") * pl.col("gpus")).sum().alias("comm_gpu_s"), spent.sum().alias("gpu_s"))
        .filter(pl.col("gpu_s") > 0)
        .select("model", "gpu_s", (pl.col("comm_gpu_s") / pl.col("gpu_s")).alias("lost"))
        .sort("model")
    )


def mean_parts(jobs: pl.DataFrame) -> Parts:
    """Where the mean completion time of these jobs went; what is neither waiting nor work is restarts."""
    done = finished(jobs)
    if done.is_empty():
        return Parts(0.0, 0.0, 0.0, 0.0)
    jct_s, waiting_s, compute_s, comm_s = (
        float(done[name].mean() or 0.0)  # type: ignore[arg-type]
        for name in ("jct_s", "queue_s", "compute_s", "comm_s")
    )
    return Parts(waiting_s, compute_s, comm_s, max(0.0, jct_s - waiting_s - compute_s - comm_s))


def slowest(jobs: pl.DataFrame, share: float = 0.01) -> pl.DataFrame:
    """The finished jobs with the longest completion times: that share of them, at least one."""
    done = finished(jobs).sort("jct_s", descending=True, maintain_order=True)
    return done.head(max(1, round(share * done.height)))


def most_delayed(jobs: pl.DataFrame, count: int) -> pl.DataFrame:
    """The finished jobs that lost most time, with `lost_s`: completion time less the work alone at its closest."""
    import polars as pl

    work_s = pl.when(pl.col("slowdown") > 0).then((pl.col("compute_s") + pl.col("comm_s")) / pl.col("slowdown"))
    return (
        finished(jobs)
        .with_columns((pl.col("jct_s") - work_s.otherwise(0.0)).alias("lost_s"))
        .sort("lost_s", descending=True, maintain_order=True)
        .head(count)
    )
