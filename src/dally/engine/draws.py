"""Random numbers that depend on what is drawn, not on how often something else was."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

JITTER_S: Final = 1e-6  # by which a restart differs at most from one replication to the next


def jitter_s(seed: i64, replication: i64, job: i64) -> float:
    """What is added to the restarts of a job: up to 1 µs more or less; nothing in replication 0."""
    if replication == 0:
        return 0.0
    return (2.0 * uniform(seed, -replication, job) - 1.0) * JITTER_S


def uniform(seed: i64, one: i64, other: i64) -> float:
    """A number in [0, 1) that depends on these three alone (splitmix64's mixing, in 32-bit steps)."""
    state = seed & 0xFFFFFFFF
    for value in (seed >> 32, one, other):
        state = _mix((state ^ (value & 0xFFFFFFFF)) & 0xFFFFFFFF)
    low = _mix(state ^ 0x85EBCA6B)
    return (float(state) * 67108864.0 + float(low >> 6)) / (4294967296.0 * 67108864.0)


def _mix(token: i64) -> i64:
    """A bijection of 32-bit words that leaves no pattern (the finaliser of MurmurHash3)."""
    token = (token + 0x9E3779B9) & 0xFFFFFFFF
    token ^= token >> 16
    token = (token * 0x85EBCA6B) & 0xFFFFFFFF
    token ^= token >> 13
    token = (token * 0xC2B2AE35) & 0xFFFFFFFF
    return token ^ (token >> 16)
