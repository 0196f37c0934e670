"""The table of sbatch's options, in a smaller form: `python -m benchmarks.slurm_options` has all of it."""

from __future__ import annotations

from pathlib import Path

from tests.live.slurm_option_rows import PARTITION_ROWS, ROWS, STARTS, OptionBench, report
from tests.live.slurm_rollback_rows import RollbackBench
from tests.live.slurm_site import SlurmSite

CHOSEN = (
    "--gpus=8", "-N2 --gpus-per-node=1 --ntasks-per-node=2 -c2", "--gres=gpu:1 -w n03", "--gres=gpu:1 -p old",
    "--gres=gpu:4 --account=small", "--gres=gpu:2 --qos=limited", "--gres=gpu:1 --begin=now+1hour", "--gres=gpu:0",
    "--gres=gpu:1 --contiguous", "--gres=gpu:1 --exclusive -p old", "-N2 --gpus=6",
)  # fmt: skip


BACK = (
    "--gpus=8", "-N2 --gpus=4", "--gres=gpu:1 -w n03", "--gres=gpu:1 -p gpu,old -w n08",
    "--gres=gpu:1 -n40 --overcommit",
    "-N2-8 --gpus-per-node=2", "--gres=gpu:1 --begin=now+1hour", "-N2 --gpus=5",
)  # fmt: skip


def test_rolled_back_options(site: SlurmSite, tmp_path: Path) -> None:
    rows = [row for row in ROWS if row.options in BACK]
    outcomes = RollbackBench(site, tmp_path).run(rows)
    assert len(outcomes) == len(BACK)
    assert all(outcome.fine for outcome in outcomes), report(outcomes)


def test_options_of_sbatch(site: SlurmSite, tmp_path: Path) -> None:
    rows = [row for row in ROWS if row.options in CHOSEN]
    rows += [row for row in PARTITION_ROWS if row.outcome == STARTS]
    outcomes = OptionBench(site, tmp_path).run(rows)
    assert len(outcomes) == len(CHOSEN) + 3
    assert all(outcome.fine for outcome in outcomes), report(outcomes)
