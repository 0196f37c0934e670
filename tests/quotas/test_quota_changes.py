"""Quotas changed one at a time."""

from __future__ import annotations

import pytest

from dally.errors import InputError
from dally.quotas.quota_changes import check_types, with_changes
from dally.quotas.tree import QueueNode, QueueTree, Quota

TREE = QueueTree(
    [QueueNode("a", {"": Quota(4.0, 8.0)}), QueueNode("a/b"), QueueNode("c", weight=2.0)], "queues.toml"
)


def test_numbers_with_a_sign_change_what_is_there() -> None:
    changes = ["a.guarantee=+2", "a.limit=16", "c.weight=-0.5", "a/b.guarantee:A100=3", "c.priority=5"]
    found = with_changes(TREE, changes).nodes
    assert found["a"].quotas == {"": Quota(6.0, 16.0)}
    assert found["a/b"].quotas == {"A100": Quota(3.0)}
    assert (found["c"].weight, found["c"].priority) == (1.5, 5.0)
    assert TREE.nodes["a"].quotas == {"": Quota(4.0, 8.0)}, "the tree itself stays"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("a.guarantee=+8", "limit"),
        ("d.limit=3", "queue 'd'"),
        ("a.size=3", "size"),
        ("a.limit=few", "'few': must be a number"),
        ("a.guarantee=-5", "negative"),
        ("c.weight=0", "0 or negative"),
        ("c.limit=-4", "c has no limit to change; give the number without a sign"),
        ("guarantee=3", "QUEUE.KEY=VALUE"),
    ],
)
def test_what_cannot_be_is_refused(change: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        with_changes(TREE, [change])


def test_types_that_the_cluster_does_not_have_are_refused() -> None:
    check_types(["a.limit=4", "a.limit:a100=4", "a.limit:*=4"], ["a100", "V100"])
    with pytest.raises(InputError, match=r"--quota a.limit:v100=4: GPU type 'v100'; did you mean 'a100'\?"):
        check_types(["a.limit:v100=4"], ["a100"])
    with pytest.raises(InputError, match="known: none, as the cluster states no types"):
        check_types(["a.limit:H=4"], [""])
