"""Two replays of the same jobs: what changes, by user and by size, who loses, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dally.metrics.distribution import size_label, with_size_class

if TYPE_CHECKING:
    import polars as pl

HOUR_S = 3600.0
WORSE_SHARE = 0.05  # a job is worse off, or better off, by more than that
WORSE_S = 60.0  # and by more than that
ROUNDED_S = 1e-5  # jobs.csv holds microseconds
NOBODY = "(no user)"
KEPT = ("gpu_h", "comm_gpu_h", "restart_gpu_h", "wait_s", "jct_s")


@dataclass(frozen=True)
class Side:
    """What jobs took under one policy: GPU-hours they held, and of these lost; seconds they waited."""

    gpu_h: float
    comm_gpu_h: float
    restart_gpu_h: float  # restarts, and work done twice
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    jct_mean_s: float


@dataclass(frozen=True)
class Group:
    """Jobs of one user or one size under both policies."""

    name: str
    jobs: int
    worse: int
    better: int
    current: Side
    new: Side

    def saved_gpu_h(self) -> float:
        """GPU-hours that the new policy needs less."""
        return self.current.gpu_h - self.new.gpu_h

    def lost_s(self) -> float:
        """How much longer the mean job takes."""
        return self.new.jct_mean_s - self.current.jct_mean_s


@dataclass(frozen=True)
class Trust:
    """Recorded waits, from submission to the first start, beside those of the replay."""

    jobs: int
    recorded_mean_s: float
    recorded_p50_s: float
    replayed_mean_s: float
    replayed_p50_s: float


def paired(current: pl.DataFrame, new: pl.DataFrame, users: Mapping[str, str], seed: int = 1) -> pl.DataFrame:
    """Jobs of two jobs.csv that finished in both, `current_…` beside `new_…`, with user and size class."""
    import polars as pl

    ours, theirs = _spent(current, "current_"), _spent(new, "new_").drop("gpus")
    both = with_size_class(ours.join(theirs, on="job_id", maintain_order="left"))
    owner = [users.get(job_id) or NOBODY for job_id in both["job_id"]]
    return both.with_columns(pl.Series("user", owner, pl.String), pl.lit(seed).alias("seed"))


def _spent(jobs: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """What each finished job took."""
    import polars as pl

    hours = pl.col("gpus") / HOUR_S
    rest_s = pl.col("run_s") - pl.col("compute_s") - pl.col("comm_s")
    restart_s = pl.when(rest_s > ROUNDED_S).then(rest_s).otherwise(0.0)
    return jobs.filter(pl.col("jct_s").is_not_null()).select(
        "job_id",
        "gpus",
        (pl.col("run_s") * hours).alias(f"{prefix}gpu_h"),
        (pl.col("comm_s") * hours).alias(f"{prefix}comm_gpu_h"),
        (restart_s * hours).alias(f"{prefix}restart_gpu_h"),
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
    found = {group.name: group for group in _groups(named)}
    return [found[label] for label in labels.values()]


def by_user(jobs: pl.DataFrame, most: int | None = None) -> list[Group]:
    """By user, those with most GPU-hours so far first; beyond `most` of them the others are one line."""
    import polars as pl

    ranked = sorted(_groups(jobs.with_columns(pl.col("user").alias("group"))), key=_by_gpu_h)
    if most is None or len(ranked) <= most + 1:  # one user is no sum
        return ranked
    rest = [group.name for group in ranked[most:]]
    others = jobs.filter(pl.col("user").is_in(rest))
    return ranked[:most] + _groups(others.with_columns(pl.lit(f"{len(rest)} others").alias("group")), jobs)


def losing_users(jobs: pl.DataFrame) -> list[Group]:
    """Users whose mean job is worse off, those first whose jobs lose most time together."""
    losers = [g for g in by_user(jobs) if is_worse(g.current.jct_mean_s, g.new.jct_mean_s)]
    return sorted(losers, key=lambda group: (-group.lost_s() * group.jobs, group.name))


def losing_jobs(jobs: pl.DataFrame) -> list[dict[str, Any]]:
    """Jobs that are worse off, with `lost_s`: how much longer each takes; most first."""
    import polars as pl

    names = ("current_wait_s", "new_wait_s", "current_jct_s", "new_jct_s")
    return (
        jobs.filter("worse")
        .group_by("job_id", "user", "gpus", maintain_order=True)
        .agg(pl.col(*names).mean())
        .with_columns((pl.col("new_jct_s") - pl.col("current_jct_s")).alias("lost_s"))
        .sort("lost_s", descending=True, maintain_order=True)
        .to_dicts()
    )


def trust(replays: Sequence[pl.DataFrame], recorded_s: Mapping[str, float]) -> Trust | None:
    """Waits of some jobs.csv, replayed under the policy in use, beside recorded ones; None if there are none."""
    import polars as pl

    waits = pl.concat(jobs.select("job_id", wait_s=pl.col("start_s") - pl.col("submit_s")) for jobs in replays)
    told = pl.DataFrame(
        {"job_id": list(recorded_s), "recorded_s": list(recorded_s.values())},
        schema={"job_id": pl.String, "recorded_s": pl.Float64},
    )
    both = waits.drop_nulls().join(told, on="job_id", maintain_order="left")
    if both.is_empty():
        return None
    figures = both.select(
        pl.col("job_id").n_unique(),
        recorded_mean_s=pl.col("recorded_s").mean(),
        recorded_p50_s=pl.col("recorded_s").median(),
        replayed_mean_s=pl.col("wait_s").mean(),
        replayed_p50_s=pl.col("wait_s").median(),
    ).row(0)
    return Trust(*figures)


def _by_gpu_h(group: Group) -> tuple[float, str]:
    return (-group.current.gpu_h, group.name)


def _groups(jobs: pl.DataFrame, everyone: pl.DataFrame | None = None) -> list[Group]:
    """A group for each value of `group`. Hours and counts are those of one seed: the mean of all."""
    import polars as pl

    seeds = (jobs if everyone is None else everyone)["seed"].n_unique()
    sides = [f"{side}_{name}" for side in ("current", "new") for name in KEPT]
    hours = [name for name in sides if name.endswith("_h")]
    waits = [name for name in sides if name.endswith("wait_s")]
    table = jobs.group_by("group", maintain_order=True).agg(
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
    return [
        Group(row["group"], row["jobs"], row["worse"], row["better"], _side(row, "current"), _side(row, "new"))
        for row in table.iter_rows(named=True)
    ]


def _side(row: Mapping[str, Any], side: str) -> Side:
    names = ("gpu_h", "comm_gpu_h", "restart_gpu_h", "wait_s_mean", "wait_s_0.5", "wait_s_0.95", "jct_s")
    return Side(*(row[f"{side}_{name}"] for name in names))
