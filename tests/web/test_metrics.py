"""What Prometheus is told, and that the dashboard asks for nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.web.conftest import Desk

DASHBOARD = Path(__file__).parents[2] / "contrib" / "grafana-dashboard.json"


def samples(desk: Desk) -> dict[tuple[str, ...], float]:
    """By name, and values of labels in the order of theirs."""
    text = desk.client.get("/metrics").text
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value for sample in found
    }


def test_counts_and_gauges(desks: Callable[..., Desk]) -> None:
    desk = desks("srtf", "slow")
    desk.submit(32, 5000.0)
    desk.cycle()
    desk.cycle(100.0)
    desk.submit(16, 50.0)
    desk.submit(12, 60.0)
    desk.submit(32, 70.0)
    desk.cycle()
    desk.cycle()
    found = samples(desk)
    assert found["dally_gpus",] == 32
    assert found["dally_preemptions_total",] == 1
    assert found["dally_events_total", "start"] == 3
    assert found["dally_jobs", "waiting"] == 2
    assert found["dally_queue_jobs", "32", "gpus"] == 2
    assert found["dally_free_slots", "all", "4", "machine"] == 1
    assert found["dally_free_slots", "rack1", "1", "rack"] == 4
    assert found["dally_waiting_seconds_count", "16"] == 1
    assert found["dally_cycle_cpu_seconds_count",] == 5
    assert found["dally_failed_cycles", "backend"] == 0
    assert max(value for key, value in found.items() if key[0] == "dally_link_load_ratio") > 0.05
    assert found["dally_decisions_total", "wait"] == 5


def test_a_wait_is_from_when_it_began_to_wait(desks: Callable[..., Desk]) -> None:
    desk = desks("fifo")
    desk.submit(32, 100.0)
    desk.cycle()
    desk.submit(8, 10.0)
    for _ in range(3):
        desk.cycle(50.0)
    desk.cycle(5.0)
    assert samples(desk)["dally_waiting_seconds_sum", "8"] == 100.0  # from 2 to 102


def test_the_dashboard_names_metrics_that_there_are(desks: Callable[..., Desk]) -> None:
    desk = desks("srtf", "slow")
    desk.submit(12, 50.0)
    desk.submit(32, 60.0)
    desk.cycle()
    there = {name for name, *_ in samples(desk)}
    asked = set(re.findall(r"\bdally_\w+", DASHBOARD.read_text()))
    assert asked
    assert asked <= there
    board = json.loads(DASHBOARD.read_text())
    assert all(panel["targets"] for panel in board["panels"] if panel["type"] != "row")
