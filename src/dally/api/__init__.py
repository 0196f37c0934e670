"""Dally from Python: paths or DataFrames in, small objects with frames out. `import dally` offers all of it."""

from dally.api.comparing import ComparisonResult, compare
from dally.api.simulating import JobHistory, RunResult, go_on, read_run, simulate
from dally.api.what_if import WhatIfResult, whatif

__all__ = [
    "ComparisonResult",
    "JobHistory",
    "RunResult",
    "WhatIfResult",
    "compare",
    "go_on",
    "read_run",
    "simulate",
    "whatif",
]
