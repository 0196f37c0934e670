"""What Prometheus is told: counted as turns come, the rest read off the board when it is asked for."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dally.live.assembly import Service
from dally.live.board import Board
from dally.live.scheduler import Turn

WAITS_S: Final = (1, 10, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400)
TURNS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
LARGEST_GANG: Final = 64  # of which slots are told


class Metrics:
    """The metrics of one daemon."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self._service = service
        self._waiting_since: dict[str, float] = {}
        self._waited = Histogram(
            "dally_waiting_seconds", "Waiting before a start, of the scheduler's clock", ["gpus"],
            buckets=WAITS_S, registry=self.registry,
        )  # fmt: skip
        self._turns = Histogram(
            "dally_turn_cpu_seconds", "CPU time of a turn", buckets=TURNS_S, registry=self.registry
        )
        self._events = Counter("dally_events", "What happened", ["kind"], registry=self.registry)
        self._decisions = Counter(
            "dally_decisions", "What the policy recorded as its reasons", ["kind"], registry=self.registry
        )
        self._preemptions = Counter(
            "dally_preemptions", "Jobs that lost their GPUs to others", registry=self.registry
        )
        self._refused = Counter(
            "dally_refused_orders", "Orders that the backend did not carry out", registry=self.registry
        )
        self._links = Gauge(
            "dally_link_load_ratio", "Share of time that a link is busy with our jobs, by the model", ["link"],
            registry=self.registry,
        )  # fmt: skip
        self.registry.register(OnBoard(service))
        service.daemon.watchers.append(self.turned)

    def page(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)

    def turned(self, turn: Turn, cpu_s: float) -> None:
        """Count one turn."""
        self._turns.observe(cpu_s)
        self._refused.inc(turn.refused)
        for kind, count in Tally(row["kind"] for row in turn.decisions).items():
            self._decisions.labels(kind).inc(count)
        for kind, count in Tally(row["kind"] for row in turn.log).items():
            self._events.labels(kind).inc(count)
            if kind == "preempt":
                self._preemptions.inc(count)
        for link, load in turn.loads.items():
            self._links.labels(link).set(load)
        self._started(turn, self._service.daemon.board)

    def _started(self, turn: Turn, board: Board) -> None:
        """How long jobs waited that started: since the board before said that they do, or since they came."""
        clock = self._service.clock
        for row in turn.log:
            line = board.by_id.get(row["job_id"] or "")
            if row["kind"] == "start" and line is not None:
                since_s = self._waiting_since.get(line.job_id, line.submit_s)
                waited_s = (clock.wall_s(row["time_s"]) - since_s) * clock.speed
                self._waited.labels(str(line.gpus)).observe(max(0.0, waited_s))
        self._waiting_since = {line.job_id: line.since_s for line in board.jobs if line.place is not None}


class OnBoard(Collector):
    """Gauges that the board already holds."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Those of this moment."""
        board, daemon = self._service.daemon.board, self._service.daemon
        yield _gauge("dally_gpus", "GPUs of the cluster", board.gpus)
        yield _gauge("dally_free_gpus", "GPUs that nobody holds", board.free_gpus)
        yield _gauge("dally_turn", "Turns since the daemon began", board.turn)
        yield _gauge("dally_turn_time_seconds", "When the latest turn was, in seconds since 1970", board.wall_s)
        yield _gauge("dally_failing", "Whether the latest turn did not come about", float(bool(daemon.failing)))
        yield _by("dally_jobs", "Jobs by state", ("state",), Tally((line.state,) for line in board.jobs))
        waiting: Tally[tuple[str, ...]] = Tally(
            (line.reason, str(line.gpus)) for line in board.jobs if line.place is not None
        )
        yield _by("dally_queue_jobs", "Waiting jobs by reason and demand", ("reason", "gpus"), waiting)
        yield _by("dally_nodes", "Machines by state", ("state",), Tally((node.state,) for node in board.nodes))
        yield _by(
            "dally_failed_turns", "Turns that did not come about, by whose fault it was", ("what",),
            Tally({(what,): count for what, count in daemon.failures.items()}),
        )  # fmt: skip
        yield self._slots(board)

    def _slots(self, board: Board) -> Metric:
        """Gangs that could start: by domain, but of machines only all together, as there are many."""
        names = self._service.topology.names
        found: Tally[tuple[str, ...]] = Tally()
        sizes = [2**power for power in range(7) if 2**power <= min(LARGEST_GANG, board.gpus)]
        for number, (tier, row) in enumerate(zip(board.tiers, board.free, strict=True)):
            for place, free in enumerate(row):
                domain = names[number][place] if number > 0 else "all"
                for gpus in sizes:
                    found[(tier, domain, str(gpus))] += free // gpus
        return _by("dally_free_slots", "Gangs that could start now", ("tier", "domain", "gpus"), found)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _by(name: str, about: str, labels: tuple[str, ...], counts: Tally[tuple[str, ...]]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family
