"""Lower bounds that no scheduler can beat, on any placement and with free preemption; see docs/bounds.md."""

from dally.metrics.bounds.jct import jct_bound_s, makespan_bound_s

__all__ = ["jct_bound_s", "makespan_bound_s"]
