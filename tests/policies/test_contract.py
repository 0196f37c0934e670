"""The contract of a policy: what must be written, and what has a default."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dally.cluster.capacity import Cluster
from dally.errors import PolicyError
from dally.model import Action, Costs
from dally.policies.base import Policy
from dally.policies.queue import Queue
from dally.testing.strategies import Case

ONE_JOB = Case([((), 8)], [(0.0, 1, 1.0)], costs=Costs(0.0, 0.0))


class Idle(Policy):
    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        return []


class Forgot(Policy):
    """Says how to rank jobs and never what to do with them."""


def test_a_policy_without_schedule_is_told_so() -> None:
    with pytest.raises(PolicyError, match=r"policy Forgot: schedule\(now, queue, cluster\) is missing"):
        ONE_JOB.run(Forgot())


def test_everything_else_has_a_default() -> None:
    assert ONE_JOB.run(Idle()).stuck
