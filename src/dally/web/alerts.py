"""What operators are alerted of: one list of rules, for Prometheus (contrib/dally-alerts.yaml) and for the pages.

usage: python -m dally.web.alerts > contrib/dally-alerts.yaml
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dally.live.cycle import CycleResult
from dally.live.daemon import Daemon
from dally.live.status import ClusterStatus

LATE_S: Final = 60.0  # cycles are at most seconds apart


@dataclass(frozen=True)
class AlertRule:
    """When to alert: as PromQL, and of this process at this moment."""

    name: str
    severity: str  # critical or warning
    expression: str
    for_s: int  # it has to hold for so long
    summary: str
    holds: Callable[[ClusterStatus, Daemon, float], str] | None  # what is the matter; None: only outside it shows


def _late(status: ClusterStatus, _daemon: Daemon, wall_s: float) -> str:
    late_s = wall_s - status.wall_s
    return f"the latest cycle was {late_s:.0f} s ago" if late_s > LATE_S else ""


def _failing(_status: ClusterStatus, daemon: Daemon, _wall_s: float) -> str:
    part = f"the {daemon.failing_part} fails: " if daemon.failing_part else ""
    return f"{part}{daemon.failing}" if daemon.failing else ""


def _problems(status: ClusterStatus, _daemon: Daemon, _wall_s: float) -> str:
    return "; ".join(status.problems)


def _nodes_down(status: ClusterStatus, _daemon: Daemon, _wall_s: float) -> str:
    names = [node.name for node in status.nodes if node.state == "down"]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}" if names else ""


def _unschedulable(status: ClusterStatus, _daemon: Daemon, _wall_s: float) -> str:
    jobs = [line.job_id for line in status.jobs if line.state == "unschedulable"]
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    return f"job {', '.join(jobs[:3])}{more}" if jobs else ""


RULES: Final = (
    AlertRule("DallyDown", "critical", 'up{job="dally"} == 0', 60, "The daemon does not answer.", None),
    AlertRule(
        "DallyCycleLate", "critical", f"time() - dally_cycle_time_seconds > {LATE_S:.0f}", 60,
        "No cycle came about lately: nothing starts.", _late,
    ),
    AlertRule(
        "DallyCycleFails", "critical", "dally_failing > 0", 60, "Cycles fail: nothing starts.", _failing
    ),
    AlertRule(
        "DallyProblems", "warning", "dally_problems > 0", 300, "The backend reports problems.", _problems
    ),
    AlertRule(
        "DallyNodesDown", "warning", 'dally_nodes{state="down"} > 0', 300, "Machines are down.", _nodes_down
    ),
    AlertRule(
        "DallyUnschedulableJobs", "warning", 'dally_jobs{state="unschedulable"} > 0', 60,
        "Jobs wait that this cluster could never run.", _unschedulable,
    ),
    AlertRule(
        "DallyOrdersRefused", "warning", "increase(dally_refused_orders_total[10m]) > 10", 0,
        "The backend refuses starts or preemptions again and again.", None,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Alert:
    """A rule that holds, for long enough."""

    name: str
    severity: str
    summary: str
    details: str
    since_s: float  # of the wall clock


class Alerts:
    """Which rules hold for how long; looked at after each cycle and whenever somebody asks."""

    def __init__(self, daemon: Daemon, wall_s: Callable[[], float]) -> None:
        self._daemon = daemon
        self._wall_s = wall_s
        self._since_s: dict[str, float] = {}
        self._lock = threading.Lock()
        daemon.watchers.append(self._on_cycle)

    def firing(self) -> list[Alert]:
        """Those that hold for as long as they have to, the gravest first."""
        now_s, details = self._look()
        return [
            Alert(rule.name, rule.severity, rule.summary, details[rule.name], self._since_s[rule.name])
            for rule in RULES
            if rule.name in details and now_s - self._since_s.get(rule.name, now_s) >= rule.for_s
        ]

    def _on_cycle(self, _result: CycleResult, _cpu_s: float) -> None:
        self._look()

    def _look(self) -> tuple[float, dict[str, str]]:
        """The moment, and what is the matter by name of the rule."""
        now_s, status = self._wall_s(), self._daemon.status
        checked = {rule.name: rule.holds(status, self._daemon, now_s) for rule in RULES if rule.holds is not None}
        details = {name: text for name, text in checked.items() if text}
        with self._lock:
            self._since_s = {name: self._since_s.get(name, now_s) for name in details}
        return now_s, details


def rules_yaml(rules: Sequence[AlertRule] = RULES) -> str:
    """The rules as Prometheus reads them."""
    lines = [
        "# Alerting rules for Prometheus (rule_files), made by `python -m dally.web.alerts`.",
        "# They take the daemon's scrape job to be named dally.",
        "groups:",
        "  - name: dally",
        "    rules:",
    ]
    for rule in rules:
        lines += [
            f"      - alert: {rule.name}",
            f"        expr: {json.dumps(rule.expression)}",
            f"        for: {rule.for_s}s",
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {json.dumps(rule.summary)}",
        ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(rules_yaml(), end="")
