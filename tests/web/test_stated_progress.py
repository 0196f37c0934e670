"""Progress that is stated through the API is on the job's page and known to the policy; nobody states another's."""

from __future__ import annotations

from tests.web.conftest import Desk


def test_progress_by_the_api(desk: Desk) -> None:
    job = desk.submit(8, user="ana")
    desk.cycle()
    headers = desk.token("loop", "user", "ana")
    path = f"/api/v1/jobs/{job}/progress"
    for step in range(1, 11):
        desk.cycle(30.0)
        answer = desk.client.request("PUT", path, json={"step": step, "total": 20}, headers=headers)
        assert (answer.status_code, answer.json()) == (202, {"step": step, "total": 20})
    desk.cycle(1.0)
    found = desk.get(f"jobs/{job}", headers=headers)
    assert (found["step"], found["total_steps"]) == (10, 20)
    assert found["end_low_s"] <= found["end_s"] <= found["end_high_s"]
    assert abs(found["end_s"] - desk.backend.now_s - 300.0) < 60.0
    scheduler = desk.service.daemon.scheduler
    assert scheduler is not None
    assert scheduler.roster.jobs[job].reported_s > 0.0


def test_progress_that_is_refused(desk: Desk) -> None:
    job, waiting = desk.submit(8, user="ana"), desk.submit(8, user="ana")
    desk.backend.refusing.add(waiting)
    desk.cycle()
    ana, ben = desk.token("a", "user", "ana"), desk.token("b", "user", "ben")
    looks = desk.token("c", "viewer")

    def put(job_id: str, headers: dict[str, str], **body: object) -> int:
        path = f"/api/v1/jobs/{job_id}/progress"
        return desk.client.request("PUT", path, json=body, headers=headers).status_code

    assert put(job, ana, step=-1) == 422
    assert put(job, ana, step=1, total=0) == 422
    assert put(job, ana, step="x") == 422
    assert put(job, ben, step=1) == 404
    assert put(job, looks, step=1) == 403
    assert put("none", ana, step=1) == 404
    assert put(waiting, ana, step=1) == 409
