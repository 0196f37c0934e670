"""The indexed heap against a sorted list."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.heap import IndexedHeap, Walk

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "discard", "pop"]), st.integers(0, 12), st.integers(0, 3), st.integers(0, 2))
)


@pytest.mark.parametrize("largest_first", [False, True])
@given(steps=STEPS)
def test_behaves_like_a_sorted_list(steps: list[tuple[str, int, int, int]], largest_first: bool) -> None:
    heap = IndexedHeap(largest_first)
    model: dict[int, tuple[float, float, int]] = {}
    for action, item, key, tie in steps:
        if action == "put":
            heap.put(item, float(key), float(tie))
            model[item] = (float(key), float(tie), item)
        elif action == "discard":
            heap.discard(item)
            model.pop(item, None)
        elif model:
            assert heap.pop() == (max if largest_first else min)(model.values())[2]
            model = {item: row for item, row in model.items() if item in heap}
        ordered = sorted(model.values(), reverse=largest_first)
        assert len(heap) == len(model)
        assert heap.first() == (ordered[0][2] if ordered else -1)
        assert all((item in heap) == (item in model) for item in range(15))


@pytest.mark.parametrize("largest_first", [False, True])
@given(keys=st.lists(st.integers(0, 9), max_size=40))
def test_a_walk_goes_down_in_order_and_changes_nothing(keys: list[int], largest_first: bool) -> None:
    heap = IndexedHeap(largest_first)
    for item, key in enumerate(keys):
        heap.put(item, float(key), -float(item))
    walk = Walk(heap)
    found = [int(walk.next()) for _ in range(len(keys) + 1)]
    assert found[-1] == -1
    assert found[:-1] == [int(heap.pop()) for _ in range(len(keys))]


def test_pops_in_order() -> None:
    heap = IndexedHeap()
    for item, key in enumerate([5.0, 1.0, 3.0, 1.0]):
        heap.put(item, key, 0.0)
    heap.put(0, 2.0, 0.0)
    assert [heap.pop() for _ in range(4)] == [1, 3, 0, 2]


def test_survives_pickling() -> None:
    heap = IndexedHeap(largest_first=True)
    for item, key in [(4, 1.0), (2, 9.0), (7, 9.0)]:
        heap.put(item, key, 0.5)
    copy = pickle.loads(pickle.dumps(heap))
    assert [copy.pop() for _ in range(3)] == [7, 2, 4]
