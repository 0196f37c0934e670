"""Which machines of a live cluster are lemons: counted over restarts, and not for being drained."""

from __future__ import annotations

from pathlib import Path

from dally.live.lemon_list import DAY_S, LemonList
from dally.live.store import open_store

NAMES = [f"m{number}" for number in range(20)]


def test_machine_that_goes_down_again_and_again_is_a_lemon_also_after_a_restart(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'store'}")
    now = 0.0
    up = dict.fromkeys(NAMES, "up")
    for turn in range(8):
        if turn % 2 == 0:
            made = LemonList(store)  # the daemon starts again
        made.look(up, now)
        made.look({**up, "m3": "down", "m5": "draining"}, now + 60.0)
        made.look({**up, "m3": "down", "m5": "down"}, now + 120.0)  # switched off by those who drained it
        now += DAY_S
    assert made.failures == {"m3": 8}
    later = LemonList(store)
    later.look(up, now)
    assert later.failures == {"m3": 8}
    later.look({**up, "m4": "down"}, now + 95 * DAY_S)
    assert later.failures == {}  # most are long ago
    store.close()


def test_one_outage_of_many_machines_makes_no_lemon(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'store'}")
    made = LemonList(store)
    for turn in range(5):
        made.look(dict.fromkeys(NAMES, "up"), 100.0 * turn)
        made.look(dict.fromkeys(NAMES, "down"), 100.0 * turn + 50.0)
    assert made.failures == {}
    store.close()
