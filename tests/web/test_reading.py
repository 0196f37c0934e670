"""What the API tells is what the status says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dally.cli.live.queue import _print_nodes
from dally.cluster.slots import slots
from dally.cluster.spec import read_topology
from dally.health.suspicion import Suspect
from dally.web.auth.tokens import OPERATOR, USER, Caller
from dally.web.dashboard.event_streams import map_state
from tests.web.conftest import Desk


def test_the_queue_in_its_order_then_the_rest(desk: Desk) -> None:
    runs = desk.submit(32, name="big", user="ann")
    desk.cycle()
    first, second = desk.submit(8, user="bob"), desk.submit(16, user="ann")
    desk.cycle()
    page = desk.get("jobs")
    assert page["total"] == 3
    assert [job["job_id"] for job in page["jobs"]][2] == runs
    assert [job["place"] for job in page["jobs"]] == [1, 2, None]
    assert {job["job_id"] for job in page["jobs"][:2]} == {first, second}
    assert page["jobs"][0]["reason"] == "gpus"
    assert [job["job_id"] for job in desk.get("jobs?state=running")["jobs"]] == [runs]
    assert desk.get("jobs?user=ann")["total"] == 2
    assert [job["place"] for job in desk.get("jobs?offset=1&limit=1")["jobs"]] == [2]


def test_pages_are_kept_as_long_as_the_board_stands(desk: Desk) -> None:
    desk.submit(8)
    assert desk.get("jobs")["total"] == 0
    assert desk.get("jobs")["total"] == 0
    desk.cycle()
    assert desk.get("jobs")["total"] == 1


def test_jobs_that_have_ended(desk: Desk) -> None:
    job = desk.submit(8, 10.0, user="ann", name="short")
    desk.cycle()
    desk.cycle(60.0)
    assert desk.get("jobs")["total"] == 0
    assert desk.get(f"jobs/{job}")["state"] == "finished"
    assert [row["name"] for row in desk.get("jobs?state=finished&user=ann")["jobs"]] == ["short"]
    assert desk.get("jobs?state=finished&user=bob") == {"at_s": 62.0, "total": 0, "offset": 0, "jobs": []}
    assert desk.client.delete(f"/api/v1/jobs/{job}").status_code == 409


def test_slots_are_those_of_the_engine(desk: Desk) -> None:
    desk.submit(9)
    desk.submit(4)
    desk.cycle()
    scheduler = desk.service.daemon.scheduler
    assert scheduler is not None
    for gpus in (1, 2, 3, 8, 16, 64):
        assert list(desk.get(f"slots?gpus={gpus}")["slots"].values()) == slots(scheduler.state.cluster, gpus)


def test_nodes_and_status(desk: Desk) -> None:
    job = desk.submit(12)
    desk.cycle()
    used = [node for node in desk.get("nodes")["nodes"] if node["jobs"]]
    assert sorted((node["jobs"], node["gpus"] - node["free"]) for node in used) == [([job], 4), ([job], 8)]
    status = desk.get("status")
    assert (status["gpus"], status["free_gpus"], status["policy"]) == (32, 20, "dally")
    assert status["jobs"] == {"starting": 1}
    desk.cycle()
    assert desk.get("status")["jobs"] == {"running": 1}


def test_node_that_is_slow_by_its_jobs_is_shown_with_the_evidence(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    first = desk.get("nodes")["nodes"][0]
    assert (first["suspicion"], first["slow_factor"]) == (0.0, 1.0)
    desk.service.health.suspects = [Suspect((first["name"],), (first["name"],), 1.5, 0.93, ("1",), 1)]
    desk.cycle()
    shown = {node["name"]: (node["suspicion"], node["slow_factor"]) for node in desk.get("nodes")["nodes"]}
    assert shown.pop(first["name"]) == (0.93, 1.5)
    assert set(shown.values()) == {(0.0, 1.0)}
    assert f'dally_suspicion{{machine="{first["name"]}"}} 0.93' in desk.client.get("/metrics").text
    _print_nodes(desk.get("nodes"))
    assert "slow by the progress of jobs: 1.5 times as long" in " ".join(capsys.readouterr().out.split())


def test_evidence_names_only_jobs_that_the_reader_may_see(desk: Desk) -> None:
    job = desk.submit(8, user="bob")
    desk.cycle()
    desk.cycle()
    (first,) = [node["name"] for node in desk.get("nodes")["nodes"] if node["jobs"]]
    health = desk.service.health
    health.suspects = [Suspect((first,), (first,), 1.5, 0.93, (job,), 1)]
    health.signals.present = {first: ("xid",)}
    desk.cycle()
    about = "slow by the progress of jobs: 1.5 times as long, probability 93 %"
    for headers, text in (
        (desk.token("watch", "operator"), f"{about}; jobs {job}; by the signals of monitoring: xid"),
        (desk.token("ann", "user", "ann"), f"{about}; by the signals of monitoring: xid"),
    ):
        nodes = desk.get("nodes", headers=headers)["nodes"]
        assert {node["name"]: node["evidence"] for node in nodes if node["evidence"]} == {first: text}
    for caller, shown in ((Caller("", OPERATOR), True), (Caller("a", USER, "ann"), False)):
        scene = desk.app.state.scene
        rows = map_state(scene, caller).to_json(scene.boot)["machines"]
        (why,) = [row[2] for row in rows if len(row) > 2]
        assert (f"jobs {job}" in why) == shown
    metrics = desk.client.get("/metrics", headers=desk.token("scrape", "operator")).text
    assert f'dally_machine_signals{{machine="{first}",signal="xid"}} 1.0' in metrics


def test_ready_once_a_turn_came_about(desk: Desk) -> None:
    assert desk.client.get("/readyz").status_code == 200
    desk.service.daemon.failing = "the disk is full"
    assert desk.client.get("/readyz").status_code == 503
    assert desk.client.get("/healthz").status_code == 200
    assert desk.get("status")["failing"] == "the disk is full"


def test_submit_and_cancel(desk: Desk) -> None:
    made = desk.client.post("/api/v1/jobs", json={"gpus": 8, "duration_s": 60, "user": "ann", "model": "bert-base"})
    assert made.status_code == 201
    job = made.json()["job_id"]
    desk.cycle()
    desk.cycle()
    assert desk.get(f"jobs/{job}")["state"] == "running"
    assert desk.client.delete(f"/api/v1/jobs/{job}").status_code == 202
    desk.cycle()
    assert desk.get(f"jobs/{job}")["state"] == "cancelled"
    assert desk.client.delete("/api/v1/jobs/99").status_code == 404


def test_what_is_not_taken_in(desk: Desk) -> None:
    for body, said in (
        ({"gpus": 33, "duration_s": 1}, "gpus: 33: the cluster has 32"),
        ({"gpus": 0, "duration_s": 1}, "gpus: "),
        ({"gpus": 1}, "command: must be given"),
        ({"gpus": 1, "duration_s": 1, "name": "a\x1b[2Jb"}, "name: "),
        ({"gpus": 1, "command": ["a\0b"]}, "command.0: "),
        ({"gpus": 1, "duration_s": 1, "cores": 3}, "cores: "),
        ({"gpus": 8, "duration_s": 1, "sizes": "many"}, "sizes: 'many'"),
        ({"gpus": 8, "duration_s": 1, "sizes": "3,5"}, "sizes: '3,5': must have the 8 GPUs"),
    ):
        found = desk.client.post("/api/v1/jobs", json=body)
        assert (found.status_code, found.json()["detail"].startswith(said)) == (422, True), found.text
    desk.backend.failing = "slurmctld is down"
    found = desk.client.post("/api/v1/jobs", json={"gpus": 1, "duration_s": 1})
    assert (found.status_code, found.json()["detail"]) == (409, "slurmctld is down")


def test_sizes_that_no_backend_heeds_are_noted(desk: Desk) -> None:
    made = desk.client.post("/api/v1/jobs", json={"gpus": 8, "duration_s": 1, "sizes": "4:16"})
    assert (made.status_code, made.json()["note"]) == (
        201,
        "sizes '4:16' have no effect: the job runs on the GPUs that it asks for",
    )


def test_slowdowns_are_those_of_the_present_topology(desks: Callable[..., Desk]) -> None:
    desk = desks("dally", "slow")
    site = desk.app.state.site
    assert site.slowdowns("bert-large", 64) == {}
    desk.service.topology = read_topology("4x4x8")
    assert set(site.slowdowns("bert-large", 64)) == {"network"}


def test_a_job_that_asks_for_more_than_there_is_stops_nobody(desks: Callable[..., Desk]) -> None:
    desk = desks("dally", "slow")
    large, small = desk.submit(64), desk.submit(8)
    desk.cycle()
    assert desk.get("status")["problems"] == [f"job {large} asks for more GPUs than there are"]
    seen = desk.get(f"jobs/{large}")
    assert (seen["state"], seen["why"]) == ("unschedulable", "asks for more GPUs than there are")
    assert desk.get(f"jobs/{large}/explanation")["history"] == []
    for path in (f"/jobs/{large}", "/queue?tab=held"):
        assert "asks for more GPUs" in desk.client.get(path, headers={"accept": "text/html"}).text
    desk.backend.resize(small, 64)
    desk.cycle()
    assert desk.get(f"jobs/{small}")["state"] in ("starting", "running")
    assert desk.client.get("/queue", headers={"accept": "text/html"}).status_code == 200
    assert desk.get("status")["problems"] == [
        f"job {name} asks for more GPUs than there are" for name in (large, small)
    ]


def test_a_cluster_that_became_too_small_for_a_job_goes_on(desks: Callable[..., Desk]) -> None:
    desk = desks("dally", "slow")
    over = desk.submit(32, 10.0)
    for after_s in (1.0, 1.0, 20.0):
        desk.cycle(after_s)
    large, _ = desk.submit(32), desk.submit(32)
    desk.cycle()
    desk.service.topology = read_topology("2x8")
    desk.service.daemon._scheduler = None  # as after a restart
    desk.cycle()
    assert f"job {large} asks for more GPUs than there are" in desk.get("status")["problems"]
    assert [job["state"] for job in desk.get("jobs")["jobs"]] == ["unschedulable"] * 2
    for path in (f"jobs/{over}", f"jobs/{over}/explanation"):
        assert desk.client.get(f"/api/v1/{path}").status_code == 200, "though there was a tier more when it ran"
