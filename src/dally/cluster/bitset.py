"""Sorted sets of small integers, and the capacity buckets made of them."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64


def lowest_bit(bits: i64) -> i64:
    """Position of the lowest set bit of a non-zero 16-bit word."""
    place: i64 = 0
    if bits & 0xFF == 0:
        place += 8
        bits >>= 8
    if bits & 0xF == 0:
        place += 4
        bits >>= 4
    if bits & 0x3 == 0:
        place += 2
        bits >>= 2
    if bits & 0x1 == 0:
        place += 1
    return place


def highest_bit(bits: i64) -> i64:
    """Position of the highest set bit of a non-zero 16-bit word."""
    place: i64 = 0
    if bits > 0xFF:
        place += 8
        bits >>= 8
    if bits > 0xF:
        place += 4
        bits >>= 4
    if bits > 0x3:
        place += 2
        bits >>= 2
    if bits > 0x1:
        place += 1
    return place


class SortedBits:
    """A set of integers below `size`: neighbours are found in log16(size) steps.

    Each bit of a level says whether a word of the level below holds any bit. Words are of 16 bits:
    in the C that mypyc writes, `1 << place` is a 32-bit int.
    """

    __slots__ = ("blocks", "starts")

    def __init__(self, size: i64) -> None:
        self.starts: vec[i64] = vec[i64]()  # where each level begins in `words`
        total: i64 = 0
        width = size
        while True:
            self.starts = append(self.starts, total)
            width = (width + 15) >> 4
            total += width
            if width <= 1:
                break
        self.blocks: vec[i64] = vec[i64]([0] * int(total))

    def add(self, value: i64) -> None:
        blocks = self.blocks
        for start in self.starts:
            place = start + (value >> 4)
            before = blocks[place]
            blocks[place] = before | (1 << (value & 15))
            if before != 0:
                return
            value >>= 4

    def discard(self, value: i64) -> None:
        blocks = self.blocks
        for start in self.starts:
            place = start + (value >> 4)
            left = blocks[place] & ~(1 << (value & 15))
            blocks[place] = left
            if left != 0:
                return
            value >>= 4

    def at_least(self, value: i64) -> i64:
        """The smallest member that is not below `value`, or -1."""
        blocks = self.blocks
        levels: i64 = len(self.starts)
        level: i64 = 0
        ends: i64 = len(blocks)
        while level < levels:
            start = self.starts[level]
            stop = self.starts[level + 1] if level + 1 < levels else ends
            place = start + (value >> 4)
            if place >= stop:
                return -1
            bits = blocks[place] >> (value & 15)
            if bits != 0:
                return self._lowest_below(level, value + lowest_bit(bits))
            value = (value >> 4) + 1
            level += 1
        return -1

    def at_most(self, value: i64) -> i64:
        """The largest member that is not above `value`, or -1."""
        blocks = self.blocks
        levels: i64 = len(self.starts)
        level: i64 = 0
        while level < levels and value >= 0:
            bits = blocks[self.starts[level] + (value >> 4)] & ((2 << (value & 15)) - 1)
            if bits != 0:
                return self._highest_below(level, (value & ~15) + highest_bit(bits))
            value = (value >> 4) - 1
            level += 1
        return -1

    def _lowest_below(self, level: i64, value: i64) -> i64:
        while level > 0:
            level -= 1
            value = (value << 4) + lowest_bit(self.blocks[self.starts[level] + value])
        return value

    def _highest_below(self, level: i64, value: i64) -> i64:
        while level > 0:
            level -= 1
            value = (value << 4) + highest_bit(self.blocks[self.starts[level] + value])
        return value


class Buckets:
    """Domains sorted by how many GPUs each has free, lowest index first among equals.

    The pair (free, index) is stored as the one number free · count + index.
    """

    __slots__ = ("bits", "count", "free", "top")

    def __init__(self, free: vec[i64]) -> None:
        self.count: i64 = len(free)
        self.free: vec[i64] = free
        self.top: i64 = 0
        for gpus in free:
            if gpus > self.top:
                self.top = gpus
        self.bits: SortedBits = SortedBits((self.top + 1) * self.count)
        for index in range(self.count):
            self.bits.add(free[index] * self.count + index)

    def move(self, index: i64, free: i64) -> None:
        self.bits.discard(self.free[index] * self.count + index)
        self.free[index] = free
        self.bits.add(free * self.count + index)

    def best_fit(self, need: i64) -> i64:
        """The domain with the fewest free GPUs that still has `need`, or -1."""
        if need > self.top:
            return -1
        result = self.bits.at_least(need * self.count)
        return result % self.count if result >= 0 else -1

    def next_fit(self, index: i64) -> i64:
        """The domain that follows `index` in order of fewest free GPUs first, or -1."""
        result = self.bits.at_least(self.free[index] * self.count + index + 1)
        return result % self.count if result >= 0 else -1

    def emptiest(self) -> i64:
        """The domain with the most free GPUs."""
        return self._first_in(self.bits.at_most((self.top + 1) * self.count - 1) // self.count)

    def next_emptiest(self, index: i64) -> i64:
        """The domain that follows `index` in order of most free GPUs first, or -1."""
        free = self.free[index]
        result = self.bits.at_least(free * self.count + index + 1)
        if result >= 0 and result // self.count == free:
            return result % self.count
        result = self.bits.at_most(free * self.count - 1)
        return self._first_in(result // self.count) if result >= 0 else -1

    def _first_in(self, free: i64) -> i64:
        return self.bits.at_least(free * self.count) % self.count
