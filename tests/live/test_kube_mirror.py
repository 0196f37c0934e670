"""A watch that goes on whatever the server answers; needs no server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import mirror as module
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi, RefusedError
from dally.live.backends.kubernetes.mirror import Mirror
from tests.live.kube_cluster import until


def thing(name: str, version: int) -> Entry:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


class Server:
    """Answers lists page by page, and watches as it was told to, one after another."""

    def __init__(self, *watches: Any) -> None:
        self.watches = list(watches)
        self.asked: list[str] = []

    def get(self, path: str, limit: int, timeout_s: float = 0.0, **query: str) -> Entry:
        second = "continue" in query
        self.asked.append("list")
        about = {"resourceVersion": "10", **({} if second else {"continue": "more"})}
        return {"metadata": about, "items": [thing("b", 5)] if second else [thing("broken", 4), thing("a", 5)]}

    def watch(self, path: str, version: str, seconds: int, stop: threading.Event) -> Iterator[Entry]:
        self.asked.append(f"watch {version}")
        answer = self.watches.pop(0) if self.watches else None
        if isinstance(answer, Exception):
            raise answer
        return _quiet(stop) if answer is None else iter(answer)


def _quiet(stop: threading.Event) -> Iterator[Entry]:
    stop.wait(5.0)
    yield from ()


class Names:
    """The names of what is there."""

    def __init__(self) -> None:
        self.here: set[str] = set()

    def put(self, entry: Entry) -> None:
        if entry["metadata"]["name"] == "broken":
            raise KeyError("spec")
        self.here.add(entry["metadata"]["name"])

    def drop(self, entry: Entry) -> None:
        self.here.discard(entry["metadata"]["name"])

    def only(self, entries: list[Entry]) -> None:
        self.here &= {entry["metadata"]["name"] for entry in entries}


def test_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumed after a cut and at a bookmark's version; listed again after 410 and after an answer of no sense."""
    monkeypatch.setattr(module, "PAUSES_S", (0.0,))
    added = {"type": "ADDED", "object": thing("c", 11)}
    bookmark = {"type": "BOOKMARK", "object": thing("", 20)}
    gone = {"type": "DELETED", "object": thing("a", 21)}
    broken = {"type": "ADDED", "object": {}}
    old = RefusedError("watch", 410, {"message": "too old"})
    server = Server([added], BackendError("cut"), RefusedError("watch", 403, {}), [bookmark], [gone], old, [broken])
    names = Names()
    mirror = Mirror(cast(KubeApi, server), "/things", names)
    with pytest.raises(BackendError, match="not listed yet"):
        mirror.wait_ready(0.0)
    mirror.start()
    expected = ["list", "list", "watch 10", "watch 11", "watch 11", "watch 11", "watch 20", "watch 21"]
    expected += ["list", "list", "watch 10", "list", "list", "watch 10"]
    until(lambda: server.asked == expected)
    mirror.wait_ready(1.0)
    assert names.here == {"a", "b"}
    assert mirror.lists == 3
    mirror.stop()


def test_one_object_that_nobody_understands() -> None:
    """It is left out and told of; those before and after it are there, and the copy is whole."""
    broken, more = ({"type": "ADDED", "object": thing(name, 22)} for name in ("broken", "c"))
    gone = {"type": "DELETED", "object": thing("broken", 23)}
    server, names = Server([broken, more], [gone]), Names()
    mirror = Mirror(cast(KubeApi, server), "/things", names)
    mirror._put(thing("broken", 1))
    assert mirror.problems() == ["/things: broken: KeyError: 'spec'"]
    mirror.start()
    until(lambda: names.here == {"a", "b", "c"} and len(server.asked) == 5)
    mirror.wait_ready(1.0)
    mirror.stop()
    assert mirror.problems() == []
    assert mirror.lists == 1


def test_a_first_list_may_take_longer_than_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large clusters: the server is about to answer."""
    server, names, go_on = Server(), Names(), threading.Event()
    answer = server.get

    def slow(path: str, limit: int, timeout_s: float, **query: str) -> Entry:
        assert go_on.wait(20.0)
        return answer(path, limit, timeout_s, **query)

    monkeypatch.setattr(server, "get", slow)
    mirror = Mirror(cast(KubeApi, server), "/things", names)
    mirror.start()
    until(lambda: mirror._listing_s > 0.0)
    threading.Timer(0.5, go_on.set).start()
    mirror.wait_ready(0.1)
    assert names.here == {"a", "b"}
    mirror.stop()


def test_a_server_that_refuses_at_once_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a right that was never granted, however often it is asked again."""
    monkeypatch.setattr(module, "PAUSES_S", (0.01,))
    server = Server()

    def refuse(*_: object, **__: object) -> Entry:
        raise RefusedError("GET /things", 403, {"message": "forbidden"})

    monkeypatch.setattr(server, "get", refuse)
    copy = Mirror(cast(KubeApi, server), "/things", Names())
    copy.start()
    until(lambda: "forbidden" in copy.trouble)
    with pytest.raises(BackendError, match="forbidden"):
        copy.wait_ready(0.3)
    copy.stop()
