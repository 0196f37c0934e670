"""What-ifs of one daemon: asked, carried out one at a time, remembered for a while."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import structlog

from dally.errors import InputError
from dally.live.forecast.outlook import BusyError, content_of
from dally.live.forecast.whatif.answer import WhatIfAnswer
from dally.live.forecast.whatif.change import AskedChange, Stage, changed, check_sizes, today
from dally.live.forecast.whatif.from_history import LookBack
from dally.live.forecast.whatif.from_now import LookAhead, Looking
from dally.live.forecast.whatif.runner import ProcessRunner, Runner, StoppedError, Task
from dally.model import HELD

if TYPE_CHECKING:
    from dally.cluster.topology import Topology
    from dally.live.config import Config
    from dally.live.daemon import Daemon
    from dally.live.wall_clock import WallClock

AHEAD: Final = "ahead"
BACK: Final = "back"
REMEMBERED: Final = 20
RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"
DAY_S: Final = 86400.0

log = structlog.get_logger("dally")


@dataclass(frozen=True)
class WhatIf:
    """One question and how far it is."""

    number: str
    change: AskedChange
    over: str  # AHEAD or BACK
    asked_by: str
    asked_s: float  # seconds since 1970
    before: str  # what the two sides are called
    after: str
    state: str = RUNNING
    done: int = 0
    total: int = 0
    why: str = ""  # it failed
    answer: WhatIfAnswer | None = None


@dataclass(frozen=True)
class Wanted:
    """What to look at: futures from now on, or the jobs that ended in the last days."""

    change: AskedChange
    over: str = AHEAD
    effort: Looking = field(default_factory=Looking)
    days: float = 7.0


class WhatIfs:
    """Takes questions; never touches what the daemon works with, beyond copying it between two cycles."""

    def __init__(
        self, config: Config, daemon: Daemon, clock: Callable[[], WallClock],
        topology: Callable[[], Topology],
    ) -> None:  # fmt: skip
        self.make_runner: Callable[[], Runner] = ProcessRunner
        self._config = config
        self._daemon = daemon
        self._clock = clock
        self._topology = topology
        self._known: dict[str, WhatIf] = {}
        self._lock = threading.Lock()
        self._runner: Runner | None = None
        self._thread: threading.Thread | None = None

    def ask(self, wanted: Wanted, asked_by: str = "") -> WhatIf:
        """Begin to work on it. InputError: it cannot be asked; BusyError: another one is being worked on."""
        with self._lock:
            busy = next((one for one in self._known.values() if one.state == RUNNING), None)
            if busy is not None:
                raise BusyError(f"another what-if is being worked on ({busy.after}): wait for it, or cancel it")
            before = today(self._config.setup, self._topology())
            after = changed(wanted.change, before)
            task = Task(self._question(wanted, before, after), self._config.store_address())
            found = WhatIf(
                secrets.token_hex(6), wanted.change, wanted.over, asked_by,
                self._clock().wall_s(self._clock().now()), before.label, after.label,
            )  # fmt: skip
            self._known[found.number] = found
            for number in list(self._known)[:-REMEMBERED]:
                del self._known[number]
            self._runner = self.make_runner()
            self._thread = threading.Thread(
                target=self._work, args=(found.number, task, self._runner), name="whatif", daemon=True
            )
            self._thread.start()
            log.info("whatif", number=found.number, over=found.over, after=found.after, by=asked_by)
            return found

    def _question(self, wanted: Wanted, before: Stage, after: Stage) -> LookAhead | LookBack:
        if wanted.over == BACK:
            now = self._clock().now()
            return LookBack(now - wanted.days * DAY_S, now + 1.0, before, after, wanted.change)
        with self._daemon.lock:
            scheduler = self._daemon.scheduler
            if scheduler is None:
                raise BusyError("the scheduler is not ready")
            sizes = [(job.job_id, int(job.gpus)) for job in scheduler.roster if job.status != HELD]
            content = content_of(scheduler)
        if not sizes:
            raise InputError("nobody runs or waits: there is nothing to look ahead with")
        check_sizes(sizes, after)
        return LookAhead(content, before, after, wanted.effort)

    def find(self, number: str) -> WhatIf | None:
        """That question; None: nobody asked it, or too long ago."""
        return self._known.get(number)

    def latest(self) -> WhatIf | None:
        """The one asked last."""
        return next(reversed(self._known.values()), None)

    def cancel(self, number: str) -> WhatIf | None:
        """Stop working on it."""
        with self._lock:
            found = self._known.get(number)
            if found is not None and found.state == RUNNING and self._runner is not None:
                self._known[number] = replace(found, state=CANCELLED)
                self._runner.stop()
            return self._known.get(number)

    def wait(self) -> None:
        """Until nothing is being worked on."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """No more questions."""
        for number in list(self._known):
            self.cancel(number)
        self.wait()

    def _work(self, number: str, task: Task, runner: Runner) -> None:
        try:
            self._tell(number, state=DONE, answer=runner.run(task, lambda *at: self._tell(number, at)))
        except StoppedError:
            pass
        except InputError as error:
            self._tell(number, state=FAILED, why=str(error))
        except Exception as error:  # a bug of ours costs the answer and no more
            log.error("whatif_failed", why=repr(error))
            self._tell(number, state=FAILED, why="an error of the server; its log says more")

    def _tell(self, number: str, at: tuple[int, ...] = (), **news: object) -> None:
        with self._lock:
            found = self._known.get(number)
            if found is not None and found.state == RUNNING:
                counted = {"done": at[0], "total": at[1]} if at else {}
                self._known[number] = replace(found, **counted, **news)  # type: ignore[arg-type]
