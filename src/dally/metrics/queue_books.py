"""What each queue held, borrowed and lent over a run, from the event log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dally.model import CANCEL, EVICT, FINISH, HOLD, PREEMPT, RELEASE, START, SUBMIT, Job

if TYPE_CHECKING:
    from dally.metrics.simulated import Simulated
    from dally.quotas.tree import QueueTree

OTHER = "other"  # where jobs are that belong to no queue
AWAY, WAITS, RUNS = 0, 1, 2
BECOMES = {
    SUBMIT: WAITS, START: RUNS, PREEMPT: WAITS, EVICT: WAITS, FINISH: AWAY, CANCEL: AWAY, HOLD: AWAY,
    RELEASE: WAITS,
}  # fmt: skip


@dataclass
class Book:
    """One queue: GPU-seconds, and how things stand as of the latest change."""

    guarantee: float = 0.0  # GPUs, of all types
    part: float = 1.0  # its weight's part of the whole, all queues present
    gpu_s: float = 0.0
    borrowed_gpu_s: float = 0.0  # held above its guarantee
    lent_gpu_s: float = 0.0  # of its guarantee, held by others
    vied_s: float = 0.0  # it had jobs waiting, and so had another queue
    vied_gpu_s: float = 0.0  # what it held then
    held: int = 0
    waiting: int = 0
    since_s: float = 0.0
    lent_until: float = 0.0  # the clocks of `_Clocks` at `since_s`
    vied_until: float = 0.0

    def unused(self) -> float:
        """GPUs of its guarantee that it does not hold."""
        return max(0.0, self.guarantee - self.held)

    def borrowed(self) -> float:
        """GPUs it holds above its guarantee."""
        return max(0.0, self.held - self.guarantee)


class _Clocks:
    """What all queues have in common, so that a change costs the same however many there are.

    `lent` runs at the share of unused guarantees that others hold; `vied` while two queues or more wait.
    """

    def __init__(self, gpus: int, books: dict[str, Book]) -> None:
        self.books = books
        self.now = 0.0
        self.lent = 0.0
        self.vied = 0.0
        self._unsure = max(0.0, gpus - sum(book.guarantee for book in books.values()))  # guaranteed to nobody
        self._borrowed = 0.0
        self._unused = sum(book.guarantee for book in books.values())
        self._waiting = 0

    def go_on(self, now: float) -> None:
        passed_s = now - self.now
        if passed_s > 0.0:
            if self._unused > 1e-9:
                self.lent += min(1.0, max(0.0, self._borrowed - self._unsure) / self._unused) * passed_s
            self.vied += passed_s if self._waiting > 1 else 0.0
            self.now = now

    def settle(self, book: Book) -> None:
        """Bring the queue's figures up to now."""
        passed_s = self.now - book.since_s
        book.gpu_s += book.held * passed_s
        book.borrowed_gpu_s += book.borrowed() * passed_s
        book.lent_gpu_s += book.unused() * (self.lent - book.lent_until)
        if book.waiting:
            book.vied_s += self.vied - book.vied_until
            book.vied_gpu_s += book.held * (self.vied - book.vied_until)
        book.since_s, book.lent_until, book.vied_until = self.now, self.lent, self.vied

    def change(self, book: Book, held: int, waiting: int) -> None:
        """From now on the queue holds so many GPUs more, and so many jobs more wait."""
        self.settle(book)
        self._borrowed -= book.borrowed()
        self._unused -= book.unused()
        self._waiting -= book.waiting > 0
        book.held += held
        book.waiting += waiting
        self._borrowed += book.borrowed()
        self._unused += book.unused()
        self._waiting += book.waiting > 0


def queue_of(tree: QueueTree, job: Job) -> str:
    """The queue whose job it is."""
    return tree.queue_of(job) or OTHER


def queue_books(record: Simulated, tree: QueueTree) -> dict[str, Book]:
    """The books of all queues that hold jobs, as of the run's end, in the order written."""
    homes = [queue_of(tree, job) for job in record.outcomes]
    paths = [*tree.leaves(), *([OTHER] if OTHER in homes else [])]
    books = {path: Book(_guarantee(tree, path), _part(tree, path)) for path in dict.fromkeys(paths)}
    clocks = _Clocks(record.topology.total_gpus(), books)
    standing = [AWAY] * len(homes)
    log = record.log
    for time_s, kind, number in zip(log.times, log.kinds, log.jobs, strict=True):
        becomes = BECOMES.get(int(kind))
        if becomes is None or number < 0:
            continue
        was = standing[number]
        standing[number] = becomes
        clocks.go_on(time_s)
        gpus = int(record.outcomes[number].gpus)
        held = gpus * ((becomes == RUNS) - (was == RUNS))
        clocks.change(books[homes[number]], held, (becomes == WAITS) - (was == WAITS))
    clocks.go_on(record.end_s)
    for book in books.values():
        clocks.settle(book)
    return books


def _guarantee(tree: QueueTree, path: str) -> float:
    return sum(quota.guarantee for quota in tree.nodes[path].quotas.values()) if path in tree.nodes else 0.0


def _part(tree: QueueTree, path: str) -> float:
    """Its weight over its siblings', times that of every queue above it."""
    part = 1.0
    for node in tree.above(path) if path in tree.nodes else ():
        part *= node.weight / sum(tree.nodes[other].weight for other in tree.children[node.parent])
    return part
