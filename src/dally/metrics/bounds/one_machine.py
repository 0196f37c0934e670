"""Mean JCT, bound (a): all GPUs as one fast machine that any job can use whole."""

from __future__ import annotations

from librt.vecs import vec

from dally.heap import IndexedHeap
from dally.metrics.bounds.offered import Workload


def srpt_total_s(workload: Workload) -> float:
    """The least sum of completion times on one machine: shortest remaining processing time first."""
    left = IndexedHeap()  # by seconds of work left
    total = 0.0
    now = 0.0
    submit_s: vec[float] = workload.submit_s
    for place in range(len(workload)):
        while len(left) > 0:
            first = left.first()
            done_s = now + left.key(first)
            if done_s > submit_s[place]:
                left.put(first, done_s - submit_s[place], 0.0)
                break
            left.remove(first)
            now = done_s
            total += done_s - submit_s[first]
        now = submit_s[place]
        left.put(place, workload.duration_s[place] * workload.size[place] / workload.gpus, 0.0)
    while len(left) > 0:
        first = left.first()
        now += left.key(first)
        total += now - submit_s[first]
        left.remove(first)
    return total
