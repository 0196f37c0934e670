"""Questions to a Prometheus that an operator names in dally.toml, and which machine an answer is about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

TIMEOUT_S: Final = 3.0
MOST_BYTES: Final = 4_000_000


class PrometheusError(Exception):
    """Prometheus says nothing that can be used; the text is for operators."""


class _NoRedirects(HTTPRedirectHandler):
    """Only the address that the operator named is asked."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """None."""


class Prometheus:
    """One server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opener = build_opener(ProxyHandler({}), _NoRedirects())

    def ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        """The series of an instant query, each with its labels and value; PrometheusError if there is no answer."""
        body = urlencode({"query": query}).encode()
        try:
            with self._opener.open(f"{self.url}/api/v1/query", body, TIMEOUT_S) as answer:
                series = json.loads(answer.read(MOST_BYTES))["data"]["result"]
            return [
                ({str(name): str(text) for name, text in one["metric"].items()}, float(one["value"][1]))
                for one in series
            ]
        except (URLError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise PrometheusError(f"{self.url}: {error}") from None


def machine_named(labels: Mapping[str, str], machines: set[str]) -> str:
    """The machine that a label names, whatever the label is called; its domain or a port may stand behind it."""
    for text in labels.values():
        for name in (text, text.rpartition(":")[0], text.partition(".")[0]):
            if name in machines:
                return name
    return ""
