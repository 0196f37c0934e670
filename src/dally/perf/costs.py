"""What a collective asks of the network."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.pickles import picklable


class Cost:
    """What one collective asks of the network, all in seconds."""

    __slots__ = ("algorithm", "fixed_s", "links", "private_s", "seconds")

    def __init__(self) -> None:
        self.algorithm: str = ""
        self.fixed_s: float = 0.0  # latency, the √S term, and phases that wait for one another
        self.private_s: float = 0.0  # the busiest resource nobody else uses: the gang's own fabric and NIC queues
        self.links: vec[i64] = vec[i64]()
        self.seconds: vec[float] = vec[float]()  # of each link, background taken off

    def alone_s(self) -> float:
        """Seconds the collective takes when nobody else uses its links."""
        busiest = self.private_s
        for seconds in self.seconds:
            if seconds > busiest:
                busiest = seconds
        return self.fixed_s + busiest


picklable(Cost)
