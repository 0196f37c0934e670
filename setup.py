"""Compiles the hot files with mypyc. Without mypyc or a C compiler the same files run as Python."""

from __future__ import annotations

import os
import sys

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
    "perf/iteration.py",
    "perf/filling.py",
    "perf/contention.py",
    "perf/adadual.py",
    "perf/candidates.py",
    "perf/adadual_sharing.py",
    "perf/closest.py",
    "perf/least.py",
    "perf/network_model.py",
    "policies/view.py",
    "policies/part.py",
    "policies/ripeness.py",
    "policies/queue.py",
    "policies/reasons.py",
    "policies/base.py",
    "policies/prediction/base.py",
    "policies/prediction/oracle.py",
    "policies/prediction/none.py",
    "policies/prediction/guesses.py",
    "policies/prediction/history.py",
    "policies/prediction/features.py",
    "policies/prediction/trees.py",
    "policies/ordering/base.py",
    "policies/ordering/submit.py",
    "policies/ordering/remaining.py",
    "policies/ordering/service.py",
    "policies/placement/base.py",
    "policies/placement/groups.py",
    "policies/placement/best_fit.py",
    "policies/placement/closest_tier.py",
    "policies/placement/tier_bids.py",
    "policies/placement/hold_out.py",
    "policies/placement/least_workload.py",
    "policies/placement/heavy_edge.py",
    "policies/preemption/base.py",
    "policies/preemption/event.py",
    "policies/preemption/lease.py",
    "policies/ordering/network_sensitivity.py",
    "policies/tuning.py",
    "policies/placement/delay.py",
    "policies/ordering/discrete_las.py",
    "policies/rounds.py",
    "policies/ordering/fairness.py",
    "policies/ordering/round_robin.py",
    "policies/placement/affinity.py",
    "policies/placement/pods.py",
    "policies/placement/skew.py",
    "policies/placement/switches.py",
    "policies/preemption/slices.py",
    "policies/composed.py",
    "policies/consolidating.py",
    "policies/gandiva.py",
    "policies/gavel.py",
    "policies/ada_srsf.py",
    "policies/paper_dally.py",
    "policies/prediction/hazard.py",
    "policies/ordering/gittins.py",
    "policies/dally/limits.py",
    "policies/dally/moves.py",
    "policies/dally/kept_domain.py",
    "policies/dally/churn.py",
    "policies/dally/patience.py",
    "policies/dally/pricing.py",
    "policies/dally/movable.py",
    "policies/dally/retries.py",
    "policies/dally/compaction.py",
    "policies/dally/eviction.py",
    "policies/dally/mixing.py",
    "policies/dally/migration.py",
    "policies/dally/books.py",
    "policies/dally/losses.py",
    "policies/dally/rescue.py",
    "policies/dally/policy.py",
    "policies/virtual_machine.py",
    "policies/a_srpt.py",
    "policies/reservation.py",
    "policies/backfill.py",
    "engine/log.py",
    "engine/rates.py",
    "engine/state.py",
    "engine/draws.py",
    "engine/failures.py",
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


def extensions() -> list[object]:
    if os.environ.get("DALLY_COMPILE") == "0":
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        print("mypyc is not installed: dally will run as plain Python", file=sys.stderr)
        return []
    found = mypycify(
        ["--config-file=pyproject.toml", *(f"src/dally/{name}" for name in COMPILED)],
        opt_level="2",  # -O3 takes two minutes longer and gains 2 %
        group_name="dally",
    )
    for extension in found:
        extension.optional = True
        # A fused multiply-add rounds once instead of twice: results would differ from plain Python's.
        # And nobody debugs the generated C: writing down where each line went takes long.
        extension.extra_compile_args = [*extension.extra_compile_args, "-ffp-contract=off", "-g0"]
    return list(found)


# One small module a file beside the large one: built side by side.
setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count()}})
