"""AdaDUAL: when a transfer should start beside another one on the same link, and what each choice costs.

Wang, Shi, Wang, Chu: Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs (arXiv
2002.10105). With k transfers on a link, M bytes take a + k·b·M + (k - 1)·η·M seconds; the constants were
measured there on 10 Gb Ethernet.
"""

from __future__ import annotations

from typing import Final, NamedTuple

LATENCY_S: Final = 6.69e-4  # a
BYTE_S: Final = 8.53e-10  # b: seconds per byte alone
PENALTY_S: Final = 2.56e-10  # η: seconds per byte lost on top of the fair share
THRESHOLD: Final = BYTE_S / (2.0 * (BYTE_S + PENALTY_S))  # most a newcomer may bring, as a share of what is left


class Ends(NamedTuple):
    """When two transfers are through, in seconds from when the second could begin."""

    first_s: float
    second_s: float

    def sum_s(self) -> float:
        return self.first_s + self.second_s


def admits(new_bytes: float, left_bytes: float) -> bool:
    """Whether a transfer should start beside one with that much left, rather than wait for its end."""
    return new_bytes < THRESHOLD * left_bytes


def admits_to(new_bytes: float, left_bytes: list[float]) -> bool:
    """The same for a link on which these transfers are under way: with two or more, it waits."""
    if len(left_bytes) == 0:
        return True
    return len(left_bytes) == 1 and admits(new_bytes, left_bytes[0])


def ends(new_bytes: float, left_bytes: float, delay_s: float = 0.0) -> Ends:
    """Both ends when the second transfer begins after `delay_s`, at the latest when the first is through.

    The second pays its latency whichever way: it decides nothing and is added to its end.
    """
    alone_s = BYTE_S * left_bytes
    if delay_s >= alone_s:
        return Ends(alone_s, alone_s + BYTE_S * new_bytes + LATENCY_S)
    left_bytes -= delay_s / BYTE_S
    shared_bytes = new_bytes if new_bytes < left_bytes else left_bytes
    shared_s = delay_s + (2.0 * BYTE_S + PENALTY_S) * shared_bytes
    return Ends(
        shared_s + BYTE_S * (left_bytes - shared_bytes),
        shared_s + BYTE_S * (new_bytes - shared_bytes) + LATENCY_S,
    )


def ends_if_waiting(new_bytes: float, left_bytes: float) -> Ends:
    """Both ends when the second transfer waits for the first."""
    return ends(new_bytes, left_bytes, BYTE_S * left_bytes)
