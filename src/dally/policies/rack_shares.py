"""How many GPUs each gang has in each rack, and exchanges that bound the gangs which leave a rack."""

from __future__ import annotations

from typing import Final

from dally.pickles import picklable

Shares = dict[int, int]  # GPUs by rack
MOST_STEPS: Final = 200


class Exchange:
    """New shares of some gangs, and the GPUs that move for it."""

    __slots__ = ("cost", "shares")

    def __init__(self, cost: int, shares: dict[int, Shares]) -> None:
        self.cost: int = cost
        self.shares: dict[int, Shares] = shares


class RackShares:
    """Running gangs by rack. `bounded` moves them until at most `most` of those in any rack span several racks.

    Greedy: of all exchanges that leave fewer gangs too many, the one that moves the fewest GPUs; again until none
    is too many or no exchange helps. An exchange gives a gang one rack or two instead of its own, or takes its part
    out of a rack; gangs that lie in a single rack make room where free GPUs do not suffice.
    """

    __slots__ = ("_fixed", "_most", "free", "jobs")

    def __init__(self, free: list[int], most: int) -> None:
        self.free: list[int] = free
        self.jobs: dict[int, Shares] = {}
        self._fixed: set[int] = set()
        self._most: int = most

    def add(self, job: int, shares: Shares, fixed: bool) -> None:
        """A running gang; one that is fixed stays where it is."""
        self.jobs[job] = shares
        if fixed:
            self._fixed.add(job)

    def excess(self) -> int:
        """Gangs too many, over all racks."""
        counts = [0] * len(self.free)
        for shares in self.jobs.values():
            if len(shares) > 1:
                for rack in shares:
                    counts[rack] += 1
        return sum(count - self._most for count in counts if count > self._most)

    def bounded(self) -> list[int]:
        """Exchange until the bound holds or nothing helps; the gangs that moved."""
        before = {job: dict(shares) for job, shares in self.jobs.items()}
        for _ in range(MOST_STEPS):
            excess = self.excess()
            if excess == 0:
                break
            best = self._best(excess)
            if best is None:
                break
            self._apply(best.shares)
        return [job for job, shares in self.jobs.items() if shares != before[job]]

    def _best(self, excess: int) -> Exchange | None:
        best: Exchange | None = None
        for job in self._spread():
            for shares in self._targets(job):
                exchange = self._exchange(job, shares)
                if exchange is None or (best is not None and exchange.cost >= best.cost):
                    continue
                if self._excess_after(exchange.shares) < excess:
                    best = exchange
        return best

    def _spread(self) -> list[int]:
        """Gangs that may move and have a part in a rack with too many."""
        counts = [0] * len(self.free)
        for shares in self.jobs.values():
            if len(shares) > 1:
                for rack in shares:
                    counts[rack] += 1
        return [
            job
            for job, shares in self.jobs.items()
            if len(shares) > 1 and job not in self._fixed and any(counts[rack] > self._most for rack in shares)
        ]

    def _targets(self, job: int) -> list[Shares]:
        """Shares that the gang could have instead: one rack; or its own without one of them."""
        own = self.jobs[job]
        gpus = sum(own.values())
        result: list[Shares] = [{rack: gpus} for rack in range(len(self.free))]
        for gone in own:
            part = own[gone]
            for other in range(len(self.free)):
                if other != gone:
                    shares = {rack: count for rack, count in own.items() if rack != gone}
                    shares[other] = shares.get(other, 0) + part
                    if len(shares) > 1:
                        result.append(shares)
        return result

    def _exchange(self, job: int, target: Shares) -> Exchange | None:
        """What else must move so that the gang gets these shares; None if that is impossible."""
        own = self.jobs[job]
        room = [free + own.get(rack, 0) - target.get(rack, 0) for rack, free in enumerate(self.free)]
        changed: dict[int, Shares] = {job: target}
        cost = _moved(own, target)
        for rack in target:
            if room[rack] >= 0:
                continue
            for other in self._local(rack, job, -room[rack]):
                if room[rack] >= 0:
                    break
                size = self.jobs[other][rack]
                place = _snuggest(room, size)
                if place < 0:
                    continue
                room[rack] += size
                room[place] -= size
                changed[other] = {place: size}
                cost += size
            if room[rack] < 0:
                return None
        return Exchange(cost, changed)

    def _local(self, rack: int, job: int, need: int) -> list[int]:
        """Gangs of that rack alone that may move: those of about that size first."""
        local = [
            (abs(shares[rack] - need), other)
            for other, shares in self.jobs.items()
            if other != job and len(shares) == 1 and rack in shares and other not in self._fixed
        ]
        local.sort()
        return [other for _, other in local]

    def _excess_after(self, changed: dict[int, Shares]) -> int:
        before = {job: self.jobs[job] for job in changed}
        self.jobs.update(changed)
        result = self.excess()
        self.jobs.update(before)
        return result

    def _apply(self, changed: dict[int, Shares]) -> None:
        for job, shares in changed.items():
            for rack, count in self.jobs[job].items():
                self.free[rack] += count
            for rack, count in shares.items():
                self.free[rack] -= count
            self.jobs[job] = shares


picklable(RackShares, [], 1)


def _moved(own: Shares, target: Shares) -> int:
    return sum(max(0, count - own.get(rack, 0)) for rack, count in target.items())


def _snuggest(room: list[int], size: int) -> int:
    """The rack with the least room that is enough, or -1."""
    best = -1
    for rack, free in enumerate(room):
        if free >= size and (best < 0 or free < room[best]):
            best = rack
    return best
