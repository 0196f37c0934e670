"""Compiles the hot files with mypyc. Without mypyc or a C compiler the same files run as Python."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Final

from setuptools import setup

COMPILED = [
    "model.py",
    "heap.py",
    "cluster/bitset.py",
    "cluster/topology.py",
    "cluster/links.py",
    "cluster/free_gpus.py",
    "cluster/trial.py",
    "cluster/capacity.py",
    "cluster/slots.py",
    "perf/base.py",
    "perf/gang.py",
    "perf/collectives.py",
    "perf/timeline.py",
    "perf/iteration.py",
    "perf/filling.py",
    "perf/contention.py",
    "perf/adadual.py",
    "perf/candidates.py",
    "perf/least.py",
    "perf/network_model.py",
    "policies/view.py",
    "policies/part.py",
    "policies/ripeness.py",
    "policies/queue.py",
    "policies/reasons.py",
    "policies/events.py",
    "policies/delay_timers.py",
    "policies/base.py",
    "policies/prediction/base.py",
    "policies/prediction/guesses.py",
    "policies/prediction/history.py",
    "policies/prediction/features.py",
    "policies/prediction/trees.py",
    "policies/ordering/base.py",
    "policies/ordering/simple.py",
    "policies/ordering/remaining.py",
    "policies/placement/base.py",
    "policies/placement/groups.py",
    "policies/placement/best_fit.py",
    "policies/placement/closest_tier.py",
    "policies/placement/tier_bids.py",
    "policies/placement/least_workload.py",
    "policies/placement/heavy_edge.py",
    "policies/preemption/base.py",
    "policies/preemption/rules.py",
    "policies/placement/delay.py",
    "policies/ordering/discrete_las.py",
    "policies/ordering/fairness.py",
    "policies/placement/pods.py",
    "policies/composed.py",
    "policies/consolidating.py",
    "policies/gandiva.py",
    "policies/tiresias.py",
    "policies/effective_shares.py",
    "policies/gavel.py",
    "policies/ada_srsf.py",
    "policies/paper_dally.py",
    "policies/prediction/hazard.py",
    "policies/ordering/gittins.py",
    "policies/dally/limits.py",
    "policies/dally/churn.py",
    "policies/dally/ledger.py",
    "policies/dally/pricing.py",
    "policies/dally/movable.py",
    "policies/dally/retries.py",
    "policies/dally/reserved_domain.py",
    "policies/dally/context.py",
    "policies/dally/compaction.py",
    "policies/dally/preemption.py",
    "policies/dally/room.py",
    "policies/dally/migration.py",
    "policies/dally/starvation.py",
    "policies/dally/delay_overrides.py",
    "policies/dally/delay.py",
    "policies/dally/side.py",
    "policies/dally/policy.py",
    "policies/a_srpt.py",
    "policies/slurm/multifactor.py",
    "policies/slurm/machine_plan.py",
    "policies/slurm/slurm_backfill.py",
    "policies/backfill.py",
    "policies/gate/tenants.py",
    "policies/gate/fair_shares.py",
    "policies/gate/reclaim.py",
    "policies/gate/notes.py",
    "policies/gate/pools.py",
    "policies/gate/gate_ledger.py",
    "policies/gate/gate.py",
    "engine/log.py",
    "engine/rates.py",
    "engine/state.py",
    "engine/draws.py",
    "engine/failures.py",
    "engine/checking.py",
    "engine/executor.py",
    "engine/handover.py",
    "engine/cycle.py",
    "engine/simulate.py",
    "metrics/bounds/offered.py",
    "metrics/bounds/makespan.py",
    "metrics/bounds/one_machine.py",
    "metrics/bounds/grid.py",
    "metrics/bounds/busy_time.py",
    "metrics/bounds/choice.py",
    "metrics/bounds/market.py",
    "metrics/bounds/ascent.py",
    "metrics/bounds/jct.py",
]


ASKS_ONLY: Final = {"egg_info", "dist_info"}  # commands that build nothing: pip gives one of them first

# Types of what is not compiled, and packages that an isolated build does not have, are not looked into:
# to read those of a full virtual environment would take a minute, and change nothing.
MYPY: Final = (
    "--config-file=", "--explicit-package-bases", "--follow-imports=silent", "--ignore-missing-imports",
    "--no-site-packages",
)  # fmt: skip

# Nobody debugs the generated C, or reads it: writing down where each line went takes long, and to look
# whether 400,000 lines are well indented takes as long as to compile them.
QUICKLY: Final = ("-g0", "-Wno-misleading-indentation")


def sources() -> list[str]:
    """The files to compile, seen from the repository."""
    return [f"src/dally/{name}" for name in COMPILED]


def has_compiler() -> bool:
    """Whether there is a C compiler: without one there is no need to let mypyc work for a minute."""
    from distutils.ccompiler import new_compiler  # of setuptools, where Python has none any more
    from distutils.sysconfig import customize_compiler

    compiler = new_compiler()
    customize_compiler(compiler)
    return shutil.which(getattr(compiler, "compiler", ["cc"])[0]) is not None


def extensions() -> list[Any]:
    """What to build: nothing where that cannot be done, or is not wanted."""
    if os.environ.get("DALLY_COMPILE") == "0" or ASKS_ONLY & set(sys.argv):
        return []
    if not has_compiler():
        print("no C compiler: dally will run as plain Python", file=sys.stderr)
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        print("mypyc is not installed: dally will run as plain Python", file=sys.stderr)
        return []
    os.environ["MYPYPATH"] = "src"
    found = mypycify(
        [*MYPY, *sources()],
        opt_level="2",  # -O3 takes two minutes longer and gains 2 %
        group_name="dally",
    )
    for extension in found:
        extension.optional = True
        # A fused multiply-add rounds once instead of twice: results would differ from plain Python's.
        extension.extra_compile_args = [*extension.extra_compile_args, "-ffp-contract=off", *QUICKLY]
    return list(found)


if __name__ == "__main__":
    # One small module a file beside the large one: built side by side.
    setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count()}})
