"""The constants of the policy, each of which `--set` changes."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """What the policy puts up with. Prices are slowdowns against the best the job can hope for."""

    near_price: float = 1.02  # phase 1, at the closest tier a gang fits into
    far_price: float = 1.0  # phase 1, farther away: only where the network does not feel it
    leftover_near_price: float = 2.0  # phase 2
    leftover_far_price: float = 1.01
    patient_price: float = 1.1  # phase 2, once the wait has paid for it
    stick: float = 0.7  # a running job's rank counts so many times
    least_hold_s: float = 60.0  # for which a job keeps what it got,
    hold: float = 10.0  # at least so many restarts
    least_excess: float = 1.02  # slowdown over the best from which on a gang may move
    least_saving_s: float = 60.0  # that a move must bring,
    saving: float = 2.0  # at least so many restarts
    most_moves: int = 12  # tried per pass
    wake_s: float = 300.0  # between two passes while somebody waits
    migration: bool = True
    compaction: bool = True
    preemption: bool = True


SLACK = 5e-4  # prices are rounded
