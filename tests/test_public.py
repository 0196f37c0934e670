"""What `import dally` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dally


def test_the_public_names() -> None:
    assert dally.__all__ == [
        "Action", "Allocation", "BestFit", "Cluster", "ComposedPolicy", "InputError", "Job", "Migrate",
        "NoPreemption", "Order", "Param", "Placement", "Policy", "PolicyEvent", "Preempt", "Preemption", "Profile",
        "Queue", "Reason", "Resize", "Start", "SubmitOrder", "View", "__version__", "best_fit", "collective_time",
        "compare", "events", "go_on", "is_compiled", "iteration_times", "make_allocation", "read_run", "report",
        "simulate", "whatif",
    ]  # fmt: skip
    assert dir(dally) == sorted(dally.__all__)
    for name in dally.__all__:
        assert getattr(dally, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dally.nothing  # noqa: B018


def test_importing_it_is_cheap() -> None:
    code = "import sys, dally; print(sorted(m for m in sys.modules if m.startswith('dally.')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
