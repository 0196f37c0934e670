"""Why a job waits, under every registered policy: some reason in words for everybody, exact sentences by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dally.policies.registry import POLICIES
from dally.report.explanation.history import Stories
from dally.runs.scenario import Scenario
from tests.report.test_explain import simulate, trace_of

# Two machines of 8. a and b leave 3 + 3 GPUs, which c wants at 3; d wants a machine at 5, e everything at 6.
BUSY = [("a", 0.0, 5, 12.0), ("b", 0.0, 5, 22.0), ("c", 3.0, 6, 9.0), ("d", 5.0, 8, 5.0), ("e", 6.0, 16, 5.0)]
REASON = re.compile(
    r"(first in line|\d+ ahead of it: .+?); "
    r"((no|\d+) GPUs? free, |one \S+ on offer|GPUs across|not admitted yet|\w+ does not fit)"
)


def run(folder: Path, policy: str, settings: dict[str, str] | None = None, cluster: str = "1x2x8") -> Stories:
    scenario = Scenario(trace_of(folder, list(BUSY)), cluster, policy, settings or {})
    scenario.restart_per_gpu_s = 0.0
    return simulate(folder / "run", scenario)


@pytest.mark.parametrize("policy", list(POLICIES))
def test_everybody_who_waits_is_told_why(tmp_path: Path, policy: str) -> None:
    records = run(tmp_path, policy)
    waits = records.waiting(records.busiest_s())
    assert len(waits) >= 2
    for place, wait in enumerate(waits, 1):
        assert wait.place == place
        assert REASON.match(wait.why), wait.why
    for job_id in "abcde":
        story = records.story(job_id)
        assert story[-1].kind == "finish"
        assert all(" in favour of " in line.text for line in story if line.kind == "preempt")


HELD = "held by c (6), a (5), b (5)"
TABLE = [
    # c takes the 3 + 3; d is first and does not fit.
    ("fifo", {}, "d", f"first in line; no GPUs free, it asks for 8; {HELD}"),
    ("fifo", {}, "e", "1 ahead of it: d; d does not fit, and nobody behind it is offered GPUs"),
    ("fifo-backfill", {}, "e", f"1 ahead of it: d; no GPUs free, it asks for 16; {HELD}"),
    # a and c end at 12: a machine of 8 for d.
    ("easy-backfill", {}, "d",
     f"first in line; no GPUs free, it asks for 8; {HELD}; kept for it from day 0 00:00:12 (12 s) on"),
    # 6 GPUs fit a machine and are one pod, and the machines have 3 free each.
    ("kueue-required", {}, "c", "first in line; one rack on offer at best: declined, it never takes that"),
    ("dally-paper-consolidated", {}, "c",
     "first in line; one rack on offer at best: declined, it never takes that"),
    ("dally-paper-manual", {"lease_s": "10", "floors": "0.4,0.8"}, "c",
     "first in line; one rack on offer at best: declined until day 0 00:00:07 (7 s)"),
    # GPUs that are free in a round stand idle until the next.
    ("gavel", {"round_s": "60"}, "c", "first in line; 6 GPUs free, shared out next at day 0 00:01:00 (60 s)"),
    ("gandiva", {}, "d",
     "1 ahead of it: c; 6 GPUs free, it asks for 8; held by a (5), b (5); "
     "shared out next at day 0 00:01:00 (60 s)"),
    # The virtual machine does 16 GPU-s a second: a's 60, from 3.75 on c's 54. Left at 6: c 18, d 40, e 80, b 110.
    ("a-srpt", {"predictor": "oracle"}, "e", "2 ahead of it: c, d; not admitted yet: "
     "the policy's virtual machine still works on it"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "settings", "job_id", "why"), TABLE, ids=[f"{row[0]} {row[2]}" for row in TABLE]
)
def test_sentences_by_hand(tmp_path: Path, policy: str, settings: dict[str, str], job_id: str, why: str) -> None:
    found = {wait.job_id: wait.why for wait in run(tmp_path, policy, settings).waiting(6.0)}
    assert found.get(job_id) == why, found


def test_one_switch_until_a_moment(tmp_path: Path) -> None:
    # Two racks of two machines of 4: c is offered 3 GPUs in each at 3, and takes them 2 s later.
    records = run(tmp_path, "slurm-switches", {"max_wait_s": "2"}, cluster="2x2x4")
    story = records.story("c")
    assert [line.text for line in story[1:3]] == [
        "first in line; GPUs across the network on offer at best: declined until day 0 00:00:05 (5 s)",
        "started on GPUs across the network after waiting 2.0 s, its 2.0 s timer for that had run out: "
        "rack0-m1:3+rack1-m1:3",
    ]


def test_times_carry_the_traces_dates(tmp_path: Path) -> None:
    records = run(tmp_path, "dally-paper-manual", {"lease_s": "10", "floors": "0.4,0.8"})
    records.run.summary["epoch_s"] = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
    assert records.story("c")[1].text.endswith("declined until 2023-11-14 22:13:27 (7 s)")
    records.run.scenario.zone = "Asia/Shanghai"
    assert records.stamp(7.0) == "2023-11-15 06:13:27 (7 s)"
