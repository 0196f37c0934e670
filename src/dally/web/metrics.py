"""What Prometheus is told: counted as cycles come, the rest read off the status when it is asked for."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dally.live.assembly import Service
from dally.live.cycle import CycleResult
from dally.live.status import ClusterStatus

WAITS_S: Final = (1, 10, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400)
CYCLES_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
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
        self._cycles = Histogram(
            "dally_cycle_cpu_seconds", "CPU time of a cycle", buckets=CYCLES_S, registry=self.registry
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
        self.registry.register(StatusGauges(service))
        service.daemon.watchers.append(self.on_cycle)

    def page(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)

    def on_cycle(self, result: CycleResult, cpu_s: float) -> None:
        """Count one result."""
        if cpu_s > 0.0:  # 0: there was no cycle
            self._cycles.observe(cpu_s)
        self._refused.inc(result.refused)
        for kind, count in Tally(row["kind"] for row in result.decisions).items():
            self._decisions.labels(kind).inc(count)
        for kind, count in Tally(row["kind"] for row in result.log).items():
            self._events.labels(kind).inc(count)
            if kind == "preempt":
                self._preemptions.inc(count)
        for link, load in result.loads.items():
            self._links.labels(link).set(load)
        self._started(result, self._service.daemon.status)

    def _started(self, result: CycleResult, status: ClusterStatus) -> None:
        """How long jobs waited that started: since the status before said that they do, or since they came."""
        clock = self._service.clock
        for row in result.log:
            line = status.by_id.get(row["job_id"] or "")
            if row["kind"] == "start" and line is not None:
                since_s = self._waiting_since.get(line.job_id, line.submit_s)
                waited_s = (clock.wall_s(row["time_s"]) - since_s) * clock.speed
                self._waited.labels(str(line.spec.gpus)).observe(max(0.0, waited_s))
        self._waiting_since = {line.job_id: line.since_s for line in status.jobs if line.place is not None}


class StatusGauges(Collector):
    """Gauges that the status already holds."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Those of this moment."""
        status, daemon, health = self._service.daemon.status, self._service.daemon, self._service.health
        yield _gauge("dally_gpus", "GPUs of the cluster", status.gpus)
        yield _gauge("dally_free_gpus", "GPUs that no job holds", status.free_gpus)
        yield _gauge("dally_cycle", "Cycles since the daemon began", status.cycle)
        yield _gauge("dally_cycle_time_seconds", "When the latest cycle was, in seconds since 1970", status.wall_s)
        yield _gauge("dally_failing", "Whether the latest cycle failed", float(bool(daemon.failing)))
        yield _gauge("dally_problems", "Problems of the latest cycle", len(status.problems))
        yield _by("dally_jobs", "Jobs by state", ("state",), Tally((line.state,) for line in status.jobs))
        waiting: Tally[tuple[str, ...]] = Tally(
            (line.reason, str(line.spec.gpus)) for line in status.jobs if line.place is not None
        )
        yield _by("dally_queue_jobs", "Waiting jobs by reason and demand", ("reason", "gpus"), waiting)
        yield _by("dally_nodes", "Machines by state", ("state",), Tally((node.state,) for node in status.nodes))
        yield _by(
            "dally_suspicion", "Probability that a machine is slow, by the progress of jobs", ("machine",),
            {(suspect.name,): suspect.probability for suspect in health.suspects},
        )  # fmt: skip
        yield _by(
            "dally_machine_signals", "Signals of monitoring that speak against a machine", ("machine", "signal"),
            {(machine, name): 1.0 for machine, names in health.signals.present.items() for name in names},
        )  # fmt: skip
        yield _by(
            "dally_lemon_failures", "How often a machine went down that does so more than the others", ("machine",),
            {(machine,): float(count) for machine, count in health.lemon_failures().items()},
        )  # fmt: skip
        yield _by(
            "dally_failed_cycles", "Failed cycles by cause", ("what",),
            Tally({(what,): count for what, count in daemon.failures.items()}),
        )  # fmt: skip
        yield self._slots(status)

    def _slots(self, status: ClusterStatus) -> Metric:
        """Gangs that could start: by domain, but of machines only all together, as there are many."""
        names = self._service.topology.names
        result: Tally[tuple[str, ...]] = Tally()
        sizes = [2**power for power in range(7) if 2**power <= min(LARGEST_GANG, status.gpus)]
        for number, (tier, row) in enumerate(zip(status.tiers, status.free, strict=True)):
            for place, free in enumerate(row):
                domain = names[number][place] if number > 0 else "all"
                for gpus in sizes:
                    result[(tier, domain, str(gpus))] += free // gpus
        return _by("dally_free_slots", "Gangs that could start now", ("tier", "domain", "gpus"), result)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _by(name: str, about: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family
