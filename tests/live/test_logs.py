"""The log of a daemon."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator

import pytest
import structlog

from dally.live.logs import prepare


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """As they were before."""
    handlers = logging.root.handlers[:]
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    logging.root.handlers[:] = handlers


def test_every_line_of_a_json_log_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """What libraries log and warn of, too."""
    prepare(as_json=True)
    structlog.get_logger("dally").info("leads", term=1)
    logging.getLogger("urllib3").warning("retrying %s", "GET\n/pods")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)  # an earlier test may have left it on, for a handler that is gone
        logging.captureWarnings(True)
        warnings.warn("unverified", UserWarning, stacklevel=1)
    rows = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [row["event"] for row in rows] == ["leads", "library", "library"]
    assert (rows[1]["what"], rows[1]["level"]) == ("retrying GET\\n/pods", "warning")
    assert "unverified" in rows[2]["what"]
