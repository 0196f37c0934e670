"""Whatever is sent, with or without a token: no status that the documentation does not have, and so never 500."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dally.live.forecast.whatif.runner import Runner
from tests.web.conftest import HERE, Desk

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
MODES = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
FEW = settings(
    max_examples=3, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_only_what_is_documented(desks: Callable[..., Desk]) -> None:
    trusting, asking = desks(network="slow"), desks(network="slow")
    for desk in (trusting, asking):
        desk.submit(8, user="ann")
        desk.cycle()
        desk.service.whatifs.make_runner = Runner
    callers: dict[str, dict[str, str]] = {
        "nobody": {},
        "viewer": asking.token("v", "viewer"),
        "user": asking.token("u", "user", "ann"),
        "operator": asking.token("o", "operator"),
    }
    seen: dict[str, set[int]] = {"open": set(), **{name: set() for name in callers}}
    schema = schemathesis.openapi.from_dict(trusting.app.openapi())

    def check(name: str, desk: Desk, case: Any, header: dict[str, str]) -> None:
        sent = case.as_transport_kwargs(base_url=HERE)
        sent["headers"] = {**dict(sent["headers"]), "Host": HERE.partition("//")[2], **header}
        if not header:
            sent["headers"].pop("Authorization", None)
        sent.pop("cookies", None)
        answer = desk.client.request(sent.pop("method"), sent.pop("url"), **sent)
        seen[name].add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    def fuzz(operation: Any, mode: schemathesis.GenerationMode) -> None:
        @FEW
        @given(case=operation.as_strategy(mode))
        def ask(case: Any) -> None:
            body = case.body if mode == MODES[0] else None
            if isinstance(body, dict) and "gpus" in body:  # one that this cluster could take
                case.body = {**case.body, "gpus": 1 + case.body["gpus"] % 32, "duration_s": 60}
            check("open", trusting, case, {})
            for name, header in callers.items():
                check(name, asking, case, header)

        with suppress(Unsatisfiable):  # what takes nothing cannot be given the wrong thing
            ask()

    for found in schema.get_all_operations():
        for mode in MODES:
            fuzz(found.ok(), mode)  # type: ignore[union-attr]
    assert {200, 401} <= seen["nobody"] <= {200, 401, 503}  # 503: not ready, as no cycle comes about here
    assert all({200, 404, 422} <= seen[name] for name in ("open", "viewer", "user", "operator"))
    assert 403 in seen["viewer"]
    assert 201 in seen["operator"]
