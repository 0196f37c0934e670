"""The jobs that ended in the last days, replayed on two stages: what `dally whatif` says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dally.cluster.formats.to_toml import to_toml
from dally.cluster.links import has_links
from dally.errors import InputError
from dally.live.forecast.whatif.answer import SECONDS, Affected, Figure, WhatIfAnswer
from dally.live.forecast.whatif.change import AskedChange, Stage
from dally.metrics.row import Row
from dally.runs.scenario import Scenario
from dally.sweep.batch import Headway, carry_out
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run
from dally.sweep.store import Store as RunStore
from dally.sweep.whatif import NO_NETWORK, NewSide
from dally.sweep.whatif_posed import Asked, pose, tell
from dally.sweep.workers.this_process import ThisProcess
from dally.traces import read_history
from dally.whole_file import write_whole

SEEDS = (1, 2, 3)
TOP = 8
FIGURES = {
    "wait_mean_s": ("waiting, mean", SECONDS),
    "wait_p50_s": ("waiting, median", SECONDS),
    "wait_p95_s": ("waiting, 95 %", SECONDS),
    "jct_mean_s": ("mean JCT", SECONDS),
    "gpu_h": ("GPU-hours held by jobs", "GPU-hours"),
    "comm_gpu_h": ("lost to communication", "GPU-hours"),
    "restart_gpu_h": ("lost to restarts", "GPU-hours"),
}
Report = Callable[[int, int], None]


@dataclass
class LookBack:
    """The question: jobs that ended between two moments of the engine's clock, today and with that change."""

    from_s: float
    to_s: float
    before: Stage
    after: Stage
    change: AskedChange

    def answer(self, history: str, folder: Path, report: Report) -> WhatIfAnswer:
        """What comes of it for these jobs, as `history_csv` writes them; files go into the folder."""
        write_whole(folder / "jobs.csv", history.encode())
        write_whole(folder / "today.toml", to_toml(self.before.topology).encode())
        today = self.before.setup.world_values()
        base = Scenario(str(folder / "jobs.csv"), str(folder / "today.toml"), **today, durations="recorded")
        jobs = read_history(Path(base.trace), base.trace_format, base.strict, base.zone)
        posed = pose(self._asked(base), jobs)

        def carry(runs: list[Run]) -> list[Row]:
            def show(headway: Headway) -> None:
                report(headway.done, headway.total)

            with RunStore(folder) as store:
                outcome = carry_out(runs, ThisProcess(), store, show)
            if outcome.failures:
                raise InputError("; ".join(outcome.failures))
            return outcome.rows

        told = tell(posed, folder, carry, TOP)
        return answer_of(told.values)

    def _asked(self, base: Scenario) -> Asked:
        change, later = self.change, self.after.setup
        new = NewSide("", change.cluster_delta, change.network, change.network_settings)
        stated = has_links(self.before.topology) or base.network_settings
        network = base.network or ("" if stated else NO_NETWORK)
        return Asked(base, True, network, Chosen(later.policy, later.settings), SEEDS, new)


def answer_of(values: dict[str, Any]) -> WhatIfAnswer:
    """What whatif.json says, as the other what-ifs tell it."""
    total = values["total"]
    return WhatIfAnswer(
        values["answer"],
        values["current"],
        values["new"],
        [_figure(total, name, *told) for name, told in FIGURES.items()],
        [],
        [
            Affected(
                job["job_id"], "", job["user"], job["gpus"], "ended", job["current_jct_s"], job["new_jct_s"]
            )
            for job in values["losing_jobs"][:TOP]
        ],
        total["jobs"],
        total["better"],
        total["worse"],
        len(values["seeds"]),
        "over seeds",
        [f"{reason[:1].upper()}{reason[1:]}." for reason in values["verdict"]["reasons"]],
        values["verdict"]["text"],
    )  # fmt: skip


def _figure(total: dict[str, Any], name: str, label: str, unit: str) -> Figure:
    before, after = total["current"][name], total["new"][name]
    low, high = total["ranges"].get(f"saved_{name}", (before - after, before - after))
    return Figure(name, label, unit, before, after, after - before, -high, -low)
