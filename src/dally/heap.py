"""A binary heap of numbered items that knows where each item is: no stale entries, ever."""

from __future__ import annotations

from librt.vecs import append, pop, vec
from mypy_extensions import i64

from dally.pickles import picklable


class IndexedHeap:
    """Items 0, 1, 2 … ordered by (key, tie, item), each in the heap at most once.

    The smallest comes first, or the largest with `largest_first`.
    """

    __slots__ = ("items", "keys", "largest_first", "places", "ties")

    def __init__(self, largest_first: bool = False) -> None:
        self.largest_first: bool = largest_first
        self.items: vec[i64] = vec[i64]()
        self.places: vec[i64] = vec[i64]()
        self.keys: vec[float] = vec[float]()
        self.ties: vec[float] = vec[float]()

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, item: int) -> bool:
        return self.holds(item)

    def holds(self, item: i64) -> bool:
        return item < len(self.places) and self.places[item] >= 0

    def first(self) -> i64:
        """The first item in order, or -1 when empty."""
        if len(self.items) == 0:
            return -1
        return self.items[0]

    def key(self, item: i64) -> float:
        return self.keys[item]

    def tie(self, item: i64) -> float:
        return self.ties[item]

    def put(self, item: i64, key: float, tie: float) -> None:
        """Insert the item, or move it to its new key."""
        while len(self.places) <= item:
            self.places = append(self.places, -1)
            self.keys = append(self.keys, 0.0)
            self.ties = append(self.ties, 0.0)
        self.keys[item] = key
        self.ties[item] = tie
        place = self.places[item]
        if place < 0:
            place = len(self.items)
            self.items = append(self.items, item)
            self.places[item] = place
        self._up(place)
        self._down(self.places[item])

    def pop(self) -> i64:
        """Remove and return the first item."""
        item = self.items[0]
        self.remove(item)
        return item

    def remove(self, item: i64) -> None:
        """Remove an item that is in the heap."""
        place = self.places[item]
        self.items, last = pop(self.items)
        self.places[item] = -1
        if last != item:
            self.items[place] = last
            self.places[last] = place
            self._up(place)
            self._down(self.places[last])

    def discard(self, item: i64) -> None:
        """Remove an item if it is in the heap."""
        if self.holds(item):
            self.remove(item)

    def _before(self, a: i64, b: i64) -> bool:
        if self.largest_first:
            a, b = b, a
        key_a = self.keys[a]
        key_b = self.keys[b]
        if key_a != key_b:
            return key_a < key_b
        tie_a = self.ties[a]
        tie_b = self.ties[b]
        if tie_a != tie_b:
            return tie_a < tie_b
        return a < b

    def _up(self, place: i64) -> None:
        items = self.items
        places = self.places
        item = items[place]
        while place > 0:
            above = (place - 1) >> 1
            other = items[above]
            if not self._before(item, other):
                break
            items[place] = other
            places[other] = place
            place = above
        items[place] = item
        places[item] = place

    def _down(self, place: i64) -> None:
        items = self.items
        places = self.places
        size: i64 = len(items)
        item = items[place]
        while True:
            below = 2 * place + 1
            if below >= size:
                break
            other = items[below]
            if below + 1 < size and self._before(items[below + 1], other):
                below += 1
                other = items[below]
            if not self._before(other, item):
                break
            items[place] = other
            places[other] = place
            place = below
        items[place] = item
        places[item] = place


picklable(IndexedHeap)


class Walk:
    """The items of a heap in order, one at a time, which costs as much as it goes. The heap must not change."""

    __slots__ = ("_frontier", "_heap", "_reached")

    def __init__(self, heap: IndexedHeap) -> None:
        self._heap: IndexedHeap = heap
        self._reached: vec[i64] = vec[i64]()  # places whose parents were passed, in that order,
        self._frontier: IndexedHeap = IndexedHeap(heap.largest_first)  # and those not passed yet, by number there
        self._reach(0)

    def next(self) -> i64:
        """The next item, or -1 at the end. Those of one key and tie come in no particular order."""
        if len(self._frontier.items) == 0:
            return -1
        place = self._reached[self._frontier.pop()]
        self._reach(2 * place + 1)
        self._reach(2 * place + 2)
        return self._heap.items[place]

    def _reach(self, place: i64) -> None:
        heap = self._heap
        if place < len(heap.items):
            item = heap.items[place]
            self._frontier.put(len(self._reached), heap.keys[item], heap.ties[item])
            self._reached = append(self._reached, place)


picklable(Walk, IndexedHeap())
