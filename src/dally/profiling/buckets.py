"""The buckets in which gradients are all-reduced, and the few stages that tell their timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

FIRST_BUCKET_BYTES: Final = 1 << 20  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
BUCKET_BYTES: Final = 25 << 20  # DistributedDataParallel(bucket_cap_mb=25)
TOLERANCE: Final = 0.01  # of the backward pass and of all bytes, by which stages may miss a bucket


class Gradient(NamedTuple):
    """One tensor's gradient: bytes that are all-reduced, and when it is ready as a share of the backward pass."""

    nbytes: float
    ready: float


class Bucket(NamedTuple):
    """Gradients that are all-reduced together, once the last of them is ready."""

    nbytes: float
    ready: float


class Stage(NamedTuple):
    """Buckets one after the other, ready at equal distances: how many, bytes of all, first and last ready."""

    buckets: int
    nbytes: float
    first: float
    last: float


def buckets_of(
    gradients: Sequence[Gradient], first_bytes: int = FIRST_BUCKET_BYTES, most_bytes: int = BUCKET_BYTES
) -> list[Bucket]:
    """DistributedDataParallel's: filled in the order of arrival; the tensor that fills a bucket closes it."""
    result: list[Bucket] = []
    nbytes, ready, cap = 0.0, 0.0, first_bytes
    for gradient in sorted(gradients, key=lambda one: one.ready):
        if gradient.nbytes <= 0.0:
            continue
        nbytes += gradient.nbytes
        ready = gradient.ready
        if nbytes >= cap:
            result.append(Bucket(nbytes, ready))
            nbytes, cap = 0.0, most_bytes
    if nbytes > 0.0:
        result.append(Bucket(nbytes, ready))
    return result


def stages_of(buckets: Sequence[Bucket], tolerance: float = TOLERANCE) -> list[Stage]:
    """As few stages as tell when each bucket is ready, and how much was before it, to the tolerance."""
    total = sum(one.nbytes for one in buckets)
    stages: list[Stage] = []
    start = 0
    for end in range(1, len(buckets) + 1):
        if end == len(buckets) or not _even(buckets[start : end + 1], total, tolerance):
            run = buckets[start:end]
            stages.append(Stage(len(run), sum(one.nbytes for one in run), run[0].ready, run[-1].ready))
            start = end
    return stages


def _even(run: Sequence[Bucket], total: float, tolerance: float) -> bool:
    """Whether these come at about equal distances, and with about the same bytes each."""
    step = (run[-1].ready - run[0].ready) / (len(run) - 1)
    mean = sum(one.nbytes for one in run) / len(run)
    before = 0.0
    for place, one in enumerate(run):
        late = abs(one.ready - run[0].ready - place * step)
        if late > tolerance or abs(before - place * mean) > tolerance * total:
            return False
        before += one.nbytes
    return True
