"""Trends: a sample a minute, kept over a restart, thinned out when there are many."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.live.history import trend_sampler
from dally.live.history.trend_sampler import TrendSampler
from dally.live.store import open_store
from dally.live.store.database import StoreError
from dally.live.store.trend_rows import read_points, width_for, write_point
from dally.metrics.trends import Point
from tests.web.conftest import Desk


def test_a_sample_a_minute_tells_how_things_stand(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "a", "fifo", network="slow")
    desk.submit(12, 6000.0, user="ann", model="vgg16")
    desk.submit(24, 6000.0, user="bob")
    for after_s in (1.0, 1.0, 60.0, 5.0, 60.0):
        desk.cycle(after_s)
    found = desk.get("trends")
    assert found["times_s"] == [0.0, 60.0, 120.0]
    values = {one["name"]: one["values"] for one in found["series"]}
    assert values["gpus_up"] == [32.0] * 3
    assert values["gpus_used"] == [0.0, 12.0, 12.0]
    assert 0.0 < values["gpus_useful"][2] <= 12.0
    assert values["waiting_jobs_17"] == [0.0, 1.0, 1.0]
    assert values["waiting_gpus_17"][2] == 24.0
    assert (values["slots_8"][0], values["slots_16"][0], values["slots_32"][0]) == (4.0, 2.0, 1.0)
    assert "slots_64" not in values
    assert values["fragmentation"][2] == pytest.approx(100.0 * 4 / 20)
    assert all(one > 0.0 for one in values["cycle_ms"])
    units = {one["name"]: one["unit"] for one in found["series"]}
    assert (units["gpus_used"], units["cycle_ms"]) == ("GPUs", "ms")
    desk.service.close()
    again = Desk(tmp_path / "b", store=desk.config.store_address())
    again.cycle(200.0)
    assert again.get("trends")["times_s"][:3] == [0.0, 60.0, 120.0]
    again.service.close()


def test_a_restart_within_a_minute_keeps_its_sample(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "a", "srtf")
    desk.submit(32, 6000.0)
    desk.cycle(30.0)
    desk.submit(32, 10.0)
    desk.cycle(5.0)  # stops the first
    desk.cycle(30.0)
    assert preemptions(desk) == [0.0, 1.0]
    service = desk.service
    service.daemon.watchers.clear()
    service.trends = TrendSampler(service.store, service.daemon, lambda: service.topology)
    desk.cycle(1.0)
    assert preemptions(desk) == [0.0, 1.0]
    service.close()


def test_what_happened_counts_once_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path / "a", "srtf")
    desk.submit(32, 6000.0)
    desk.cycle(30.0)
    desk.submit(32, 10.0)
    desk.cycle(5.0)

    def fail(*_: object) -> None:
        raise StoreError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(trend_sampler, "write_point", fail)
        desk.cycle(30.0)
    desk.cycle(60.0)
    assert preemptions(desk) == [0.0, 1.0]
    desk.service.close()


def preemptions(desk: Desk) -> list[float]:
    found: list[float] = next(one["values"] for one in desk.get("trends")["series"] if one["name"] == "preemptions")
    return found


def test_many_minutes_become_few_points(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/a.db")
    for minute in range(100):
        busy = {"gpus_used": float(minute), "preemptions": 1.0, "longest_cycle_ms": float(minute % 7)}
        write_point(store, 1000 + minute, 60.0 * minute, Point(busy, {8: (None, float(minute))}))
    at_s, minutes, width, points = read_points(store, 0.0, 5999.0, 30)
    assert (width, len(points), minutes[0], at_s[0]) == (5, 20, 1004, 240.0)
    assert points[0] == Point({"gpus_used": 2.0, "preemptions": 5.0, "longest_cycle_ms": 4.0}, {8: (None, 4.0)})
    assert len(read_points(store, 0.0, 5999.0, 100)[3]) == 100
    assert read_points(store, 7000.0, 8000.0, 100)[3] == []
    assert [width_for(minutes, 600) for minutes in (60, 1440, 10080, 43200)] == [1, 5, 30, 120]
    store.close()


def test_what_is_older_than_a_month_goes(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "a")
    desk.cycle(31 * 86400.0)
    assert desk.get("trends", params={"from_s": 0})["times_s"] == [31 * 86400.0]
    desk.service.close()


def test_a_store_that_fails_costs_a_sample_and_no_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path / "a")
    scheduler = desk.service.daemon.scheduler
    desk.service.trends._store = open_store(f"sqlite:///{tmp_path}/gone.db")
    with desk.service.trends._store.transaction() as connection:
        connection.exec_driver_sql("DROP TABLE trends")
    desk.cycle(90.0)
    assert desk.service.daemon.scheduler is scheduler
    assert desk.client.get("/api/v1/trends").status_code == 503
    desk.service.trends._store.close()
    desk.service.close()
