"""Stories of live jobs: what happened, why, and nothing of it that is not the reader's business."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dally.live.backends import base
from tests.web.conftest import Desk


def told(desk: Desk, job: str, **more: object) -> list[tuple[str, str]]:
    return [(line["kind"], line["text"]) for line in desk.get(f"jobs/{job}/explanation", **more)["story"]]


@pytest.mark.parametrize("policy", ["dally", "dally-paper", "srtf", "fifo", "easy-backfill"])
def test_from_submission_to_its_end(policy: str, desks: Callable[..., Desk]) -> None:
    desk = desks(policy, "slow")
    first = desk.submit(32, 100.0, model="gpt2-xl")
    desk.turn()
    second = desk.submit(12, 50.0)
    desk.turn()
    waits = told(desk, second)
    assert waits[0] == ("submit", "submitted; asks for 12 GPUs")
    found = desk.get(f"jobs/{second}/explanation")
    assert found["job"]["why"] == "first in line; no GPUs free, it asks for 12" or policy == "srtf"
    assert list(found["slowdowns"]) == ["rack", "network"]
    for _ in range(40):
        desk.turn(10.0)
    assert [kind for kind, _ in told(desk, first)][-1] == "finish"
    kinds = [kind for kind, _ in told(desk, second)]
    assert (kinds[0], kinds[-1]) == ("submit", "finish")
    assert "start" in kinds
    assert told(desk, first)[0][1] == "submitted; asks for 32 GPUs, trains gpt2-xl"


def test_what_others_did(desk: Desk) -> None:
    job = desk.submit(8, 600.0)
    desk.backend.hold(job)
    desk.turn()
    desk.backend.release(job)
    desk.backend.refusing.add(job)
    for _ in range(12):
        desk.turn(30.0)
    desk.backend.refusing.clear()
    for _ in range(5):
        desk.turn(30.0)
    elsewhere = next(name for name, gpus in desk.backend.free().items() if gpus == 8)
    desk.backend.requeue(job)
    desk.backend.put(job, {elsewhere: 8})
    desk.turn()
    desk.backend.cancel(job)
    desk.turn()
    story = told(desk, job)
    kinds = [kind for kind, _ in story]
    assert [kind for kind in kinds if kind in ("hold", "release", "adopt", "cancel")] == [
        "hold", "release", "adopt", "cancel",
    ]  # fmt: skip
    refused = next(text for kind, text in story if kind == "start_failed")
    assert refused.startswith(f"could not be started: job {job} cannot be started")
    assert dict(story)["adopt"].startswith(f"found running on {elsewhere}:8")


def test_failures_are_not_called_finished(desk: Desk) -> None:
    job = desk.submit(8, 600.0)
    desk.turn()
    desk.turn()
    desk.backend._become(job, base.FAILED)
    desk.turn()
    assert told(desk, job)[-1][1].startswith("failed 3.0 s after submission: waited 1.0 s, ran 2.0 s")


def test_users_hear_no_names_of_others(desks: Callable[..., Desk]) -> None:
    desk = desks("srtf")
    loser = desk.submit(32, 5000.0, user="ann")
    desk.turn()
    desk.submit(32, 10.0, user="bob")
    desk.turn()
    ann = desk.token("ann", "user", "ann")
    assert any("in favour of another1" in text for _, text in told(desk, loser, headers=ann))
