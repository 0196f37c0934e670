"""Why a job waits, under every registered policy: some reason in words for everybody, exact sentences by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dally.policies.registry import POLICIES
from dally.report.explanation.job_timeline import Explainer
from dally.runs.scenario import Scenario
from tests.report.test_explain import simulate, trace_of

# Two machines of 8. a and b leave 3 + 3 GPUs, which c wants at 3; d wants a machine at 5, e everything at 6.
BUSY = [("a", 0.0, 5, 12.0), ("b", 0.0, 5, 22.0), ("c", 3.0, 6, 9.0), ("d", 5.0, 8, 5.0), ("e", 6.0, 16, 5.0)]
REASON = re.compile(
    r"(first in the queue|\d+ jobs? ahead of it: .+?); "
    r"(it needs \d+ GPUs |\d+ GPUs are free|the closest free placement|waits for a closer placement"
    r"|not admitted yet|\w+ does not fit)"
)


def run(folder: Path, policy: str, settings: dict[str, str] | None = None, cluster: str = "1x2x8") -> Explainer:
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
        story = records.history(job_id)
        assert story[-1].kind == "finish"
        assert all(line.text.startswith("preempted for ") for line in story if line.kind == "preempt")


NONE = "and none is free (in use by c (6), a (5), b (5))"
TABLE = [
    # c takes the 3 + 3; d is first and does not fit.
    ("fifo", {}, "d", f"first in the queue; it needs 8 GPUs {NONE}"),
    ("fifo", {}, "e", "1 job ahead of it: d; d does not fit, and no job behind it may start"),
    ("fifo-backfill", {}, "e", f"1 job ahead of it: d; it needs 16 GPUs {NONE}"),
    # a and c end at 12: a machine of 8 for d.
    ("easy-backfill", {}, "d",
     f"first in the queue; it needs 8 GPUs {NONE}; its reservation begins at day 0 00:00:12"),
    # 6 GPUs fit a machine and are one pod, and the machines have 3 free each.
    ("kueue-required", {}, "c",
     "first in the queue; the closest free placement is one rack, which it never accepts"),
    ("dally-paper-consolidated", {}, "c",
     "first in the queue; the closest free placement is one rack, which it never accepts"),
    ("dally-paper-manual", {"lease_s": "10", "floors": "0.4,0.8"}, "c",
     "first in the queue; waits for a closer placement than one rack, which it accepts at day 0 00:00:07"),
    # GPUs that are free in a round stand idle until the next.
    ("gavel", {"round_s": "60"}, "c",
     "first in the queue; 6 GPUs are free; GPUs are assigned next at day 0 00:01:00"),
    ("gandiva", {}, "d",
     "1 job ahead of it: c; it needs 8 GPUs and 6 are free (in use by a (5), b (5)); "
     "GPUs are assigned next at day 0 00:01:00"),
    # The virtual machine does 16 GPU-s a second: a's 60, from 3.75 on c's 54. Left at 6: c 18, d 40, e 80, b 110.
    ("a-srpt", {"predictor": "oracle"}, "e", "2 jobs ahead of it: c, d; not admitted yet: "
     "the policy's virtual machine is still working on it"),
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
    story = records.history("c")
    assert [line.text for line in story[1:3]] == [
        "first in the queue; waits for a closer placement than GPUs across the network, which it accepts "
        "at day 0 00:00:05",
        "started on GPUs across the network after waiting 2 s, its delay of 2 s for that had passed: "
        "rack0-m1,rack1-m1 (3 GPUs each)",
    ]


def test_times_carry_the_traces_dates(tmp_path: Path) -> None:
    records = run(tmp_path, "dally-paper-manual", {"lease_s": "10", "floors": "0.4,0.8"})
    records.run.summary["epoch_s"] = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
    assert records.history("c")[1].text.endswith("which it accepts at 2023-11-14 22:13:27")
    records.run.scenario.zone = "Asia/Shanghai"
    assert records.stamp(7.0) == "2023-11-15 06:13:27 (7 s)"
