"""Which tests go together when several processes run them: those that share what is costly to start."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

# How their names begin, and what they share. Groups go first, the largest before the others: some only wait, and
# nobody shall be left with one of them at the end.
TOGETHER = {
    "tests/cli/test_compare_renderings.py": "a comparison",
    "tests/cli/test_live_commands.py": "a daemon",
    "tests/engine/test_determinism.py": "runs of both builds",
    "tests/live/test_backends.py::test_kube": "Kubernetes",
    "tests/live/test_backends.py::test_slurm": "Slurm",
    "tests/live/test_kube_filters.py": "kube-scheduler",  # each test has a cluster of its own
    "tests/live/test_kube_mixed.py": "kube-scheduler",
    "tests/live/test_kube": "Kubernetes",
    "tests/live/test_slurm": "Slurm",
    "tests/report/": "a browser and folders to report on",
    "tests/sweep/test_ray.py": "Ray",
    "tests/web/": "a browser and a dashboard",
}


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """One process for each group; all other tests one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return next((shared for start, shared in TOGETHER.items() if nodeid.startswith(start)), nodeid)
