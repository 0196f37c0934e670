"""slots.parquet: which gangs could have started, and how fragmented the cluster was, over time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from dally.metrics.simulated import Simulated


def fragmentation_mean(record: Simulated) -> float:
    """Mean over the run of the sampled fragmentation, each sample holding until the next; 0 of nothing."""
    log = record.log
    if len(log.slot_times) == 0:
        return 0.0
    shares: list[float] = list(log.slot_fragmentation)
    times: list[float] = [*log.slot_times, record.end_s]
    if times[-1] <= times[0]:
        return shares[0]
    held_s = [end_s - start_s for start_s, end_s in pairwise(times)]
    return sum(share * length_s for share, length_s in zip(shares, held_s, strict=True)) / (times[-1] - times[0])


def slots_frame(record: Simulated) -> pl.DataFrame:
    """The samples, one row per instant, gang size and tier."""
    import polars as pl

    log = record.log
    tiers, sizes = record.tiers, record.gang_sizes
    cells = len(sizes) * len(tiers)
    rows = pl.int_range(len(log.slot_times) * cells, eager=True)
    sample, cell = rows // cells, rows % cells
    return pl.DataFrame(
        {
            "time_s": pl.Series(memoryview(log.slot_times), dtype=pl.Float64).gather(sample),
            "free_gpus": pl.Series(memoryview(log.slot_free), dtype=pl.Int32).gather(sample),
            "fragmentation": pl.Series(memoryview(log.slot_fragmentation), dtype=pl.Float64).gather(sample),
            "gpus": pl.Series(sizes, dtype=pl.Int32).gather(cell // len(tiers)),
            "tier": pl.Series(tiers, dtype=pl.Enum(tiers)).gather(cell % len(tiers)),
            "slots": pl.Series(memoryview(log.slot_counts), dtype=pl.Int32),
        }
    )
