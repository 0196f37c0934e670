"""Sorted bits and capacity buckets against plain Python."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.bitset import Buckets, SortedBits, highest_bit, lowest_bit


def test_bits_of_every_16_bit_word() -> None:
    for word in range(1, 1 << 16):
        assert lowest_bit(word) == (word & -word).bit_length() - 1
        assert highest_bit(word) == word.bit_length() - 1


@given(
    size=st.sampled_from([1, 15, 16, 17, 255, 256, 257, 5000]),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 4999), st.integers(0, 4999)), max_size=60),
)
def test_neighbours(size: int, steps: list[tuple[bool, int, int]]) -> None:
    bits = SortedBits(size)
    members: set[int] = set()
    for put, value, probe in steps:
        value, probe = value % size, probe % size
        if put:
            bits.add(value)
            members.add(value)
        else:
            bits.discard(value)
            members.discard(value)
        assert bits.at_least(probe) == min((m for m in members if m >= probe), default=-1)
        assert bits.at_most(probe) == max((m for m in members if m <= probe), default=-1)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.data())
def test_buckets(free: list[int], data: st.DataObject) -> None:
    top = max(free)
    buckets = Buckets(vec[i64](free))
    free = list(free)
    for _ in range(data.draw(st.integers(0, 10))):
        index, level = data.draw(st.integers(0, len(free) - 1)), data.draw(st.integers(0, top))
        buckets.move(index, level)
        free[index] = level
    ranked = sorted(range(len(free)), key=lambda index: (-free[index], index))
    walked = [int(buckets.emptiest())]
    while (following := int(buckets.next_emptiest(walked[-1]))) >= 0:
        walked.append(following)
    assert walked == ranked
    for need in range(12):
        fitting = [(level, index) for index, level in enumerate(free) if level >= need]
        assert buckets.best_fit(need) == (min(fitting)[1] if fitting else -1)
