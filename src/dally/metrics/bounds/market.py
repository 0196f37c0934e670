"""Mean JCT, bound (c): every job chooses its cheapest time under prices on GPU-seconds."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.heap import IndexedHeap
from dally.metrics.bounds.offered import Grid, Workload


class Choice:
    """The cheapest time to run for one job after the other, and the GPU-seconds that they use of each bin.

    A job of g GPUs and d seconds that finishes at C pays C − submission, plus g times the price of the
    cheapest d seconds between. It starts with the first d seconds and then puts C off, second by second:
    each new second takes the place of the dearest one held, if that costs more.
    """

    __slots__ = ("_bin", "_end_s", "_first", "_held", "_moved_from", "_moved_s", "_moved_to", "_paid", "_seconds",
                 "grid", "used", "visits")  # fmt: skip

    def __init__(self, grid: Grid) -> None:
        self.grid: Grid = grid
        self.used: vec[float] = vec[float]([0.0] * int(grid.bins))  # GPU-seconds
        self.visits: i64 = 0  # of bins: the CPU time it took
        self._first: i64 = 0  # the bin of the submission
        self._bin: i64 = 0  # where time stands,
        self._end_s: float = 0.0  # and when that is
        self._paid: float = 0.0  # price of the seconds held, for one GPU
        self._held: IndexedHeap = IndexedHeap()
        self._seconds: vec[float] = vec[float]()  # held in each bin, from the first on
        # What was exchanged since the best finish: undone when no better one was found.
        self._moved_from: vec[i64] = vec[i64]()
        self._moved_to: vec[i64] = vec[i64]()
        self._moved_s: vec[float] = vec[float]()

    def least_s(self, submit_s: float, size: float, duration_s: float) -> float:
        """Completion time plus what the job pays at these prices, at the least, in seconds."""
        dearest = self._take_first(submit_s, duration_s)
        best_s = self._end_s - submit_s + size * self._paid
        if size * dearest > 1.0:  # otherwise no exchange is worth the second it takes
            best_s = self._put_off(submit_s, size, best_s)
        for place in range(len(self._seconds)):
            if self._first + place < self.grid.bins:
                self.used[self._first + place] += size * self._seconds[place]
        return best_s

    def _take_first(self, submit_s: float, duration_s: float) -> float:
        """Hold the first seconds after submission; the highest price among them."""
        grid = self.grid
        self._first = grid.bin_of(submit_s)
        self._bin = self._first
        self._end_s = submit_s
        self._paid = 0.0
        self._seconds = vec[float]()
        dearest = 0.0
        left_s = duration_s
        while True:
            seconds = self._room_s(left_s)
            price = self._price()
            self._seconds = append(self._seconds, seconds)
            self._paid += price * seconds
            self._end_s += seconds
            left_s -= seconds
            self.visits += 1
            if price > dearest and seconds > 0.0:
                dearest = price
            if left_s <= 0.0 or self._bin == grid.bins:  # after the last bin there is room for all
                return dearest
            self._next_bin()

    def _put_off(self, submit_s: float, size: float, best_s: float) -> float:
        """Finish later as long as that may pay; what the best finish costs."""
        self._hold()
        self._forget()
        while True:
            top = self._held.first()
            gain = self._held.key(top) - self._price()
            late = self._end_s - submit_s >= best_s or self._bin > self.grid.bins
            if late or size * self._held.key(top) <= 1.0:
                break
            room_s = self._room_s(self._seconds[top])
            if gain <= 0.0 or room_s <= 0.0:
                self._next_bin()
                continue
            self._exchange(top, room_s, gain)
            cost_s = self._end_s - submit_s + size * self._paid
            if cost_s < best_s:
                best_s = cost_s
                self._forget()
        self._undo()
        return best_s

    def _hold(self) -> None:
        self._held = IndexedHeap(largest_first=True)
        for place in range(len(self._seconds)):
            number = self._first + place
            if self._seconds[place] > 0.0:
                self._held.put(place, self.grid.price[number] if number < self.grid.bins else 0.0, 0.0)

    def _exchange(self, top: i64, seconds: float, gain: float) -> None:
        """Give seconds of the dearest bin for the next seconds here."""
        here = self._bin - self._first
        while len(self._seconds) <= here:
            self._seconds = append(self._seconds, 0.0)
        self._seconds[top] -= seconds
        if self._seconds[top] <= 0.0:
            self._held.remove(top)
        self._seconds[here] += seconds
        self._held.put(here, self._price(), 0.0)
        self._paid -= gain * seconds
        self._end_s += seconds
        self._moved_from = append(self._moved_from, top)
        self._moved_to = append(self._moved_to, here)
        self._moved_s = append(self._moved_s, seconds)
        self.visits += 1

    def _forget(self) -> None:
        self._moved_from = vec[i64]()
        self._moved_to = vec[i64]()
        self._moved_s = vec[float]()

    def _undo(self) -> None:
        for place in range(len(self._moved_s)):
            self._seconds[self._moved_from[place]] += self._moved_s[place]
            self._seconds[self._moved_to[place]] -= self._moved_s[place]

    def _price(self) -> float:
        return self.grid.price[self._bin] if self._bin < self.grid.bins else 0.0

    def _room_s(self, most_s: float) -> float:
        """Seconds left in this bin, at most so many."""
        room_s = self.grid.end_s(self._bin) - self._end_s
        if room_s > most_s:
            return most_s
        return room_s if room_s > 0.0 else 0.0

    def _next_bin(self) -> None:
        self._end_s = max(self._end_s, self.grid.end_s(self._bin))
        self._bin += 1


class Ruling:
    """What prices come to: the bound on the sum of completion times, and by how much each bin is overdrawn."""

    __slots__ = ("overdrawn", "total_s", "visits")

    def __init__(self, total_s: float, overdrawn: vec[float], visits: i64) -> None:
        self.total_s: float = total_s
        self.overdrawn: vec[float] = overdrawn  # GPU-seconds asked for beyond those there are, by bin
        self.visits: i64 = visits


class _Gangs:
    """All gangs of one size, and what they use of each bin if they all run at once when they come."""

    __slots__ = ("durations_s", "places", "size", "used")

    def __init__(self, size: float) -> None:
        self.size: float = size
        self.places: vec[i64] = vec[i64]()  # in the workload
        self.durations_s: float = 0.0
        self.used: vec[float] = vec[float]()  # GPU-seconds


class Market:
    """A workload, ready to be asked what it does under prices."""

    __slots__ = ("_gangs", "grid", "workload")

    def __init__(self, workload: Workload, grid: Grid) -> None:
        """`grid` must cost nothing yet."""
        self.workload: Workload = workload
        self.grid: Grid = grid
        self._gangs: list[_Gangs] = _by_size(workload)
        for gangs in self._gangs:
            choice = Choice(grid)
            self._chosen_s(gangs, choice)
            gangs.used = choice.used

    def ruling(self) -> Ruling:
        """The bound that the grid's prices give; sound for any prices that are not negative."""
        choice = Choice(self.grid)
        room = self.workload.gpus * self.grid.width_s
        total_s = 0.0
        dearest = 0.0
        for price in self.grid.price:
            total_s -= price * room
            if price > dearest:
                dearest = price
        overdrawn = vec[float]([-room] * int(self.grid.bins))
        for gangs in self._gangs:
            if gangs.size * dearest > 1.0:
                total_s += self._chosen_s(gangs, choice)
                continue
            # A second later saves them less than a second: all run at once.
            total_s += gangs.durations_s
            for place in range(self.grid.bins):
                overdrawn[place] += gangs.used[place]
                total_s += gangs.used[place] * self.grid.price[place]
        for place in range(self.grid.bins):
            overdrawn[place] += choice.used[place]
        return Ruling(total_s, overdrawn, choice.visits)

    def _chosen_s(self, gangs: _Gangs, choice: Choice) -> float:
        workload = self.workload
        total_s = 0.0
        for place in gangs.places:
            total_s += choice.least_s(workload.submit_s[place], gangs.size, workload.duration_s[place])
        return total_s


def _by_size(workload: Workload) -> list[_Gangs]:
    result: dict[float, _Gangs] = {}
    for place in range(len(workload)):
        size = workload.size[place]
        gangs = result.get(size)
        if gangs is None:
            gangs = _Gangs(size)
            result[size] = gangs
        gangs.places = append(gangs.places, place)
        gangs.durations_s += workload.duration_s[place]
    return list(result.values())
