"""Two replays of the same jobs: what changes, by user, account, partition and size, and who loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dally.metrics.distribution import size_label, with_size_class

if TYPE_CHECKING:
    import polars as pl

HOUR_S = 3600.0
WORSE_SHARE = 0.05  # a job is worse off, or better off, by more than that
WORSE_S = 60.0  # and by more than that
ROUNDED_S = 1e-5  # jobs.csv holds microseconds
OWNERS = ("user", "account", "partition")
COMPARED = ("gpu_h", "comm_gpu_h", "restart_gpu_h", "wait_gpu_h", "wait_s", "jct_s")


@dataclass(frozen=True)
class PolicySide:
    """What jobs took under one policy: GPU-hours they held, and of these lost; seconds they waited."""

    gpu_h: float
    comm_gpu_h: float
    restart_gpu_h: float  # restarts, and work done twice
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    jct_mean_s: float
    wait_gpu_h: float  # waits × GPUs


@dataclass(frozen=True)
class Group:
    """Jobs of one user or one size under both policies. `ranges`: the least and the most over seeds, by figure."""

    name: str
    jobs: int
    worse: int
    better: int
    current: PolicySide
    new: PolicySide
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    def saved_gpu_h(self) -> float:
        """GPU-hours that the new policy needs less."""
        return self.current.gpu_h - self.new.gpu_h

    def lost_s(self) -> float:
        """How much longer the mean job takes."""
        return self.new.jct_mean_s - self.current.jct_mean_s

    def half(self, figure: str) -> float:
        """What follows ±: half the range over seeds of a figure such as `saved_gpu_h` or `new_wait_mean_s`."""
        low, high = self.ranges.get(figure, (0.0, 0.0))
        return (high - low) / 2


def paired(
    current: pl.DataFrame, new: pl.DataFrame, owners: Mapping[str, Mapping[str, str]], seed: int = 1
) -> pl.DataFrame:
    """Jobs of two jobs.csv that finished in both, `current_…` beside `new_…`, with their owners and size class.

    `owners`: for each of user, account, partition, and queue where there are some, which job is whose.
    """
    import polars as pl

    ours, theirs = _spent(current, "current_"), _spent(new, "new_").drop("gpus")
    both = with_size_class(ours.join(theirs, on="job_id", maintain_order="left"))
    columns = [
        pl.Series(
            kind, [owners.get(kind, {}).get(job_id) or f"(no {kind})" for job_id in both["job_id"]], pl.String
        )
        for kind in (*OWNERS, *(["queue"] if "queue" in owners else []))
    ]
    return both.with_columns(*columns, pl.lit(seed).alias("seed"))


def _spent(jobs: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """What each finished job took; of an elastic one, at the GPUs that it held on average."""
    import polars as pl

    request = pl.col("gpus") / HOUR_S
    hours = request
    if "gpu_s" in jobs.columns:
        held = pl.col("gpu_s").cast(pl.Float64) / pl.col("run_s") / HOUR_S
        hours = pl.when(pl.col("run_s") > 0.0).then(held).otherwise(request)
    rest_s = pl.col("run_s") - pl.col("compute_s") - pl.col("comm_s")
    restart_s = pl.when(rest_s > ROUNDED_S).then(rest_s).otherwise(0.0)
    return jobs.filter(pl.col("jct_s").is_not_null()).select(
        "job_id",
        "gpus",
        (pl.col("run_s") * hours).alias(f"{prefix}gpu_h"),
        (pl.col("comm_s") * hours).alias(f"{prefix}comm_gpu_h"),
        (restart_s * hours).alias(f"{prefix}restart_gpu_h"),
        (pl.col("queue_s") * request).alias(f"{prefix}wait_gpu_h"),
        pl.col("queue_s").alias(f"{prefix}wait_s"),
        pl.col("jct_s").alias(f"{prefix}jct_s"),
    )


def judged(pairs: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The jobs of all seeds, with `worse` and `better`: whether a job is, in the mean over seeds."""
    import polars as pl

    everyone = pl.concat(pairs)
    current_s, new_s = pl.col("current_jct_s").mean(), pl.col("new_jct_s").mean()
    verdict = everyone.group_by("job_id").agg(
        is_worse(current_s, new_s).alias("worse"), is_worse(new_s, current_s).alias("better")
    )
    return everyone.join(verdict, on="job_id", maintain_order="left")


def is_worse(before_s: Any, after_s: Any) -> Any:
    """Whether that is longer by more than 5 % and by more than a minute; of numbers or of columns."""
    return (after_s > before_s * (1.0 + WORSE_SHARE)) & (after_s - before_s > WORSE_S)


def total(jobs: pl.DataFrame) -> Group:
    """All jobs together."""
    import polars as pl

    return _groups(jobs.with_columns(pl.lit("all jobs").alias("group")))[0]


def by_size(jobs: pl.DataFrame) -> list[Group]:
    """By the size of the gang, smallest first."""
    import polars as pl

    labels = {number: size_label(number) for number in sorted(jobs["size_class"].unique().to_list())}
    named = jobs.with_columns(pl.col("size_class").replace_strict(labels, return_dtype=pl.String).alias("group"))
    result = {group.name: group for group in _groups(named)}
    return [result[label] for label in labels.values()]


def by_owner(jobs: pl.DataFrame, kind: str, most: int | None = None) -> list[Group]:
    """By user, account or partition, those with most GPU-hours first; beyond `most` the others are one line."""
    import polars as pl

    ranked = sorted(_groups(jobs.with_columns(pl.col(kind).alias("group"))), key=_by_gpu_h)
    if most is None or len(ranked) <= most + 1:  # one is no sum
        return ranked
    rest = [group.name for group in ranked[most:]]
    others = jobs.filter(pl.col(kind).is_in(rest))
    return ranked[:most] + _groups(others.with_columns(pl.lit(f"{len(rest)} others").alias("group")), jobs)


def losing_users(jobs: pl.DataFrame) -> list[Group]:
    """Users whose mean job is worse off, those first whose jobs lose most time together."""
    losers = [g for g in by_owner(jobs, "user") if is_worse(g.current.jct_mean_s, g.new.jct_mean_s)]
    return sorted(losers, key=lambda group: (-group.lost_s() * group.jobs, group.name))


def losing_jobs(jobs: pl.DataFrame) -> list[dict[str, Any]]:
    """Jobs that are worse off, with `lost_s`: how much longer each takes; most first."""
    import polars as pl

    names = ("current_wait_s", "new_wait_s", "current_jct_s", "new_jct_s")
    return (
        jobs.filter("worse")
        .group_by("job_id", *OWNERS, "gpus", maintain_order=True)
        .agg(pl.col(*names).mean())
        .with_columns((pl.col("new_jct_s") - pl.col("current_jct_s")).alias("lost_s"))
        .sort("lost_s", descending=True, maintain_order=True)
        .to_dicts()
    )


def _by_gpu_h(group: Group) -> tuple[float, str]:
    return (-group.current.gpu_h, group.name)


def _groups(jobs: pl.DataFrame, everyone: pl.DataFrame | None = None) -> list[Group]:
    """A group for each value of `group`. Hours and counts are those of one seed: the mean of all."""
    seeds = (jobs if everyone is None else everyone)["seed"].n_unique()
    ranges: dict[str, dict[str, tuple[float, float]]] = {}
    if seeds > 1:
        for row in _figures(jobs, ["group", "seed"], 1).iter_rows(named=True):
            own = ranges.setdefault(row["group"], {})
            for name, value in _shown(row).items():
                low, high = own.get(name, (value, value))
                own[name] = (min(low, value), max(high, value))
    return [
        Group(
            row["group"], row["jobs"], row["worse"], row["better"], _side(row, "current"), _side(row, "new"),
            ranges.get(row["group"], {}),
        )
        for row in _figures(jobs, ["group"], seeds).iter_rows(named=True)
    ]  # fmt: skip


def _figures(jobs: pl.DataFrame, by: Sequence[str], seeds: int) -> pl.DataFrame:
    import polars as pl

    sides = [f"{side}_{name}" for side in ("current", "new") for name in COMPARED]
    hours = [name for name in sides if name.endswith("_h")]
    waits = [name for name in sides if name.endswith("wait_s")]
    return jobs.group_by(by, maintain_order=True).agg(
        pl.col("job_id").n_unique().alias("jobs"),
        pl.col("job_id").filter(pl.col("worse")).n_unique().alias("worse"),
        pl.col("job_id").filter(pl.col("better")).n_unique().alias("better"),
        *(pl.col(name).sum() / seeds for name in hours),
        *(pl.col(name).mean().alias(f"{name}_mean") for name in waits),
        *(
            pl.col(name).quantile(share, "linear").alias(f"{name}_{share}")
            for name in waits
            for share in (0.5, 0.95)
        ),
        *(pl.col(f"{side}_jct_s").mean() for side in ("current", "new")),
    )


def _shown(row: Mapping[str, Any]) -> dict[str, float]:
    """The figures of one seed by name, and how much smaller the new ones are."""
    sides = {side: asdict(_side(row, side)) for side in ("current", "new")}
    result = {f"{side}_{name}": value for side, figures in sides.items() for name, value in figures.items()}
    saved = {f"saved_{name}": value - sides["new"][name] for name, value in sides["current"].items()}
    return result | saved


def _side(row: Mapping[str, Any], side: str) -> PolicySide:
    names = (
        "gpu_h", "comm_gpu_h", "restart_gpu_h", "wait_s_mean", "wait_s_0.5", "wait_s_0.95", "jct_s", "wait_gpu_h",
    )  # fmt: skip
    return PolicySide(*(row[f"{side}_{name}"] for name in names))
