"""What a run took: the part of summary.json that changes when a run is repeated."""

from __future__ import annotations

import resource
from time import perf_counter, process_time
from typing import Any

from dally import is_compiled


def cost(began_s: float, cpu_began_s: float = 0.0) -> dict[str, Any]:
    """Seconds since `perf_counter` and `process_time` said these, and the most memory the process held."""
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "wall_s": round(perf_counter() - began_s, 3),
        "cpu_s": round(process_time() - cpu_began_s, 3),
        "peak_rss_mb": round(peak_kb / 1024, 1),
        "compiled": is_compiled(),
    }
