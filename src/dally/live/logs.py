"""Structured logs: a line per entry, for people or for machines."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog


def prepare(as_json: bool) -> None:
    """Log to standard error."""
    shown: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _in_one_line,
            shown,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    if as_json:  # whoever parses the log finds no other lines in it
        logging.basicConfig(handlers=[_StandardLogs()], level=logging.WARNING, force=True)
        logging.captureWarnings(True)


class _StandardLogs(logging.Handler):
    """What libraries log, as entries of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        """One entry."""
        structlog.get_logger("dally").log(
            record.levelno, "library", what=record.getMessage(), logger=record.name, exc_info=record.exc_info
        )


def _in_one_line(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Whatever a cluster's users call their jobs begins no line of the log, and steers no terminal."""
    for name, value in entry.items():
        if isinstance(value, str) and not value.isprintable() and name != "exception":
            entry[name] = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in value)
    return entry
