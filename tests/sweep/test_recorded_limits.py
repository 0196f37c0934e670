"""Limits from a record: who held how much at most, and when that explains waits."""

from __future__ import annotations

from pathlib import Path

from dally.job_spec import JobSpec
from dally.metrics.wait_fit import RecordedJob
from dally.quotas.known_formats import read_quotas
from dally.quotas.tree import ANY_TYPE
from dally.sweep.whatif.recorded_limits import RecordedLimits, queues_text, recorded_limits


def job(account: str, submit_s: float, start_s: float, gpus: int = 8, user: str = "u") -> RecordedJob:
    return RecordedJob(submit_s, start_s, start_s + 1000.0, JobSpec(gpus, account=account, user=user))


def held_back(account: str, at_once: int, jobs: int) -> list[RecordedJob]:
    """All submitted at 0, so many at a time."""
    return [job(account, 0.0, 1000.0 * (number // at_once)) for number in range(jobs)]


def test_an_account_that_never_holds_more_while_gpus_are_free() -> None:
    found = recorded_limits([*held_back("a", 2, 30), job("b", 0.0, 0.0, 32)], 64)
    assert found == RecordedLimits("account", {"a": 16})


def test_users_are_looked_at_where_accounts_explain_nothing() -> None:
    jobs = [
        RecordedJob(one.submit_s, one.start_s, one.end_s, JobSpec(8, user=user))
        for user in ("ann", "bob")
        for one in held_back("", 1, 25)
    ]
    assert recorded_limits(jobs, 64) == RecordedLimits("user", {"ann": 8, "bob": 8})


def test_waits_for_gpus_show_no_limit() -> None:
    assert recorded_limits(held_back("a", 8, 40), 64) is None, "all GPUs are in use"
    assert recorded_limits(held_back("a", 2, 10), 64) is None, "ten waits prove nothing"
    some = [job("a", 0.0, 0.0, 32), *(job("a", 2000.0 * n, 2000.0 * n + 500.0) for n in range(1, 40))]
    assert recorded_limits(some, 64) is None, "the account held more before"


def test_the_queues_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(queues_text(RecordedLimits("account", {"nlp": 16, 'odd "name/é': 8})), encoding="utf-8")
    tree = read_quotas(path)
    limits = {path: node.quotas[ANY_TYPE].limit for path, node in tree.nodes.items() if ANY_TYPE in node.quotas}
    assert limits == {"nlp": 16.0, "account-1": 8.0}


def test_small_jobs_behind_a_gang_that_the_limit_keeps_back_count() -> None:
    """A limit of 48: a gang of 32 waits behind one of 24, and jobs of one GPU behind the gang."""
    jobs = [RecordedJob(0.0, 0.0, 90000.0, JobSpec(24, account="a")), job("a", 10.0, 90000.0, 32)]
    jobs += [job("a", 100.0 * number, 91500.0, 1) for number in range(1, 30)]
    jobs += [job("a", 200000.0, 200000.0, 48)]
    found = recorded_limits(jobs, 144)
    assert found is not None
    assert list(found.gpus) == ["a"]
