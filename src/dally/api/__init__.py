"""Dally from Python: paths or DataFrames in, small objects with frames out. `import dally` offers all of it."""

from dally.api.comparing import compare
from dally.api.comparison_result import ComparisonResult
from dally.api.job_history import JobHistory
from dally.api.run_result import RunResult
from dally.api.simulating import go_on, read_run, simulate
from dally.api.what_if import whatif
from dally.api.what_if_result import WhatIfResult

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
