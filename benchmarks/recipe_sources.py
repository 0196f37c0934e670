"""The public traces behind the recipes of `dally trace generate`, and what is known of them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dally.traces.table import rows_of

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
DAY_S = 86400
LENDER = "venus-like"  # gives its users to recipes whose source does not know any
UNKNOWN_S = 30.0  # taken for a duration of 0


class Source(NamedTuple):
    """A trace, and what the trace itself does not say."""

    file: str
    about: str
    source: str
    cluster_gpus: int
    arrivals: str = "rhythm"
    from_day: int = 0
    knows_users: bool = True  # and how jobs end

    def borrowed(self) -> str:
        """What comes from another recipe."""
        if self.knows_users:
            return ""
        return f"from {LENDER}: users" + (", how many recur, how jobs end" if self.arrivals == "rhythm" else "")


SOURCES = {
    "philly-like": Source(
        "philly.csv.gz",
        "many single GPUs, long tails, retries in bursts",
        "Microsoft Philly, 2017, from day 40 (msr-fiddle/philly-traces, CC-BY-4.0); users are its virtual clusters",
        2490,
        from_day=40,
    ),
    "venus-like": Source(
        "helios_venus_window20d.csv.gz",
        "most GPU-hours in gangs over 8 GPUs, busy days and quiet nights",
        "SenseTime Helios, cluster Venus, 2020, 20 days (S-Lab-System-Group/HeliosData, CC-BY-4.0)",
        968,
    ),
    "lingjun-like": Source(
        "alibaba_lingjun2023.csv.gz",
        "large language models: nearly all GPU-hours in gangs over 8 GPUs",
        "Alibaba Lingjun, 2023 (alibaba/alibaba-lingjun-dataset-2023, Apache-2.0)",
        6776,
        knows_users=False,
    ),
    "itp-like": Source(
        "ms_itp2021_cluster04.csv.gz",
        "long jobs in large bursts, half of the GPU-hours in gangs over 8 GPUs",
        "Microsoft ITP, 2021, cluster 04 (MIT); its size is not known, 640 GPUs fit the demand",
        640,
        knows_users=False,
    ),
    "batch": Source(
        "paper_batch500.csv",
        "all jobs at once",
        "the batch of 500 published with the Dally paper's simulator; durations without communication",
        512,
        arrivals="batch",
        knows_users=False,
    ),
    "poisson": Source(
        "paper_poisson_week.csv",
        "gangs only, Poisson arrivals",
        "the week of Poisson arrivals published with the Dally paper's simulator; durations without communication",
        512,
        arrivals="poisson",
        knows_users=False,
    ),
}


class SourceJob(NamedTuple):
    """A row of a trace, as far as it counts here."""

    user: str
    submit_s: float
    gpus: int
    duration_s: float
    status: str


def read_source(folder: Path, source: Source) -> list[SourceJob]:
    """The jobs of a source in order of submission, on a clock that starts with the recipe's first day."""
    rows = rows_of(folder / source.file)
    _, header = next(rows)
    length = "duration_s" if "duration_s" in header else "ideal_jct_s"
    start_s = source.from_day * DAY_S
    found = []
    for _, fields in rows:
        row = dict(zip(header, fields, strict=True))
        submit_s = float(row["submit_s"]) - start_s
        if submit_s >= 0:
            duration_s = float(row[length]) or UNKNOWN_S
            found.append(
                SourceJob(row.get("user", ""), submit_s, int(float(row["gpus"])), duration_s, row.get("status", ""))
            )
    return sorted(found, key=lambda job: job.submit_s)
