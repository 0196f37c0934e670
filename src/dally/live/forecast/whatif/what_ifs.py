"""What-ifs of one daemon: asked, carried out one at a time, remembered for a while."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from dally.cluster.delta import change as resized
from dally.errors import InputError, unknown
from dally.live.forecast.estimator import Effort
from dally.live.forecast.outlook import BusyError, content_of
from dally.live.forecast.whatif.from_now import USUAL_EFFORT, FutureQuestion
from dally.live.forecast.whatif.runner import Period, ProcessRunner, Runner, StoppedError, WhatIfTask
from dally.model import HELD
from dally.policies.registry import all_policies, find
from dally.sweep.whatif.change import Change, WhatIfAnswer, WhatIfSide, changed, check_sizes, today

if TYPE_CHECKING:
    from dally.cluster.topology import Topology
    from dally.live.config import Config, Setup
    from dally.live.daemon import Daemon
    from dally.live.wall_clock import WallClock

NOW: Final = "now"
HISTORY: Final = "history"
REMEMBERED: Final = 20
MOST_TIMES: Final = 10  # as large as today may the other cluster be
RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"
DAY_S: Final = 86400.0

log = structlog.get_logger("dally")


@dataclass(frozen=True)
class WhatIf:
    """One question and how far it is."""

    number: str
    change: Change
    start: str  # NOW or HISTORY
    requested_by: str
    requested_s: float  # seconds since 1970
    before: str  # what the two sides are called
    after: str
    state: str = RUNNING
    done: int = 0
    total: int = 0
    why: str = ""  # it failed
    answer: WhatIfAnswer | None = None


@dataclass(frozen=True)
class WhatIfRequest:
    """A change, and what it is asked of: futures from now on, or the jobs that ended in the last days."""

    change: Change
    start: str = NOW
    effort: Effort = USUAL_EFFORT
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

    def ask(self, request: WhatIfRequest, requested_by: str = "") -> WhatIf:
        """Begin to work on it. InputError: it cannot be asked; BusyError: another one is being worked on."""
        with self._lock:
            busy = next((one for one in self._known.values() if one.state == RUNNING), None)
            if busy is not None:
                raise BusyError(f"another what-if is being worked on ({busy.after}): wait for it, or cancel it")
            before = today(self._config.setup, self._topology())
            check_allowed(request.change, before)
            after = changed(request.change, before)
            begin_question = self._question_of(request, after)
            task = WhatIfTask(request.change, before, begin_question, self._config.store_address())
            result = WhatIf(
                secrets.token_hex(6), request.change, request.start, requested_by,
                self._clock().wall_s(self._clock().now()), before.label, after.label,
            )  # fmt: skip
            self._known[result.number] = result
            for number in list(self._known)[:-REMEMBERED]:
                del self._known[number]
            self._runner = self.make_runner()
            self._thread = threading.Thread(
                target=self._work, args=(result.number, task, self._runner), name="whatif", daemon=True
            )
            self._thread.start()
            log.info("whatif", number=result.number, start=result.start, after=result.after, by=requested_by)
            return result

    def _question_of(self, request: WhatIfRequest, after: WhatIfSide[Setup]) -> FutureQuestion | Period:
        if request.start == HISTORY:
            now = self._clock().now()
            return Period(now - request.days * DAY_S, now + 1.0)
        with self._daemon.lock:
            scheduler = self._daemon.scheduler
            if scheduler is None:
                raise BusyError("the scheduler is not ready")
            sizes = [(job.job_id, int(job.gpus)) for job in scheduler.roster if job.status != HELD]
            content = content_of(scheduler)
        if not sizes:
            raise InputError("no job runs or waits: there is nothing to forecast")
        check_sizes(sizes, after)
        return FutureQuestion(content, request.effort)

    def find(self, number: str) -> WhatIf | None:
        """That question; None: nobody asked it, or too long ago."""
        return self._known.get(number)

    def latest(self) -> WhatIf | None:
        """The one asked last."""
        return next(reversed(self._known.values()), None)

    def cancel(self, number: str) -> WhatIf | None:
        """Stop working on it."""
        with self._lock:
            result = self._known.get(number)
            if result is not None and result.state == RUNNING and self._runner is not None:
                self._known[number] = replace(result, state=CANCELLED)
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

    def _work(self, number: str, task: WhatIfTask, runner: Runner) -> None:
        try:
            answer = runner.run(task, lambda *at: self._update(number, at))
            self._update(number, state=DONE, answer=answer)
        except StoppedError:
            pass
        except InputError as error:
            self._update(number, state=FAILED, why=str(error))
        except Exception as error:  # a bug of ours costs the answer and no more
            log.error("whatif_failed", why=repr(error))
            self._update(number, state=FAILED, why="an error of the server; its log says more")

    def _update(self, number: str, at: tuple[int, ...] = (), **fields: object) -> None:
        with self._lock:
            result = self._known.get(number)
            if result is not None and result.state == RUNNING:
                counted = {"done": at[0], "total": at[1]} if at else {}
                self._known[number] = replace(result, **counted, **fields)  # type: ignore[arg-type]


def check_allowed(change: Change, now: WhatIfSide[Setup]) -> None:
    """InputError for what only the command may ask: the daemon reads no code or file that it does not use yet."""
    known, setup = all_policies()[0], now.config
    policy = change.policy or setup.policy
    if policy != setup.policy and policy not in known:
        raise unknown("policy", policy, list(known))
    for name in find(policy).files:
        file = change.settings.get(name)
        if file and file != setup.settings.get(name):
            raise InputError(f"--set {name}={file}: names a file: only `dally whatif` reads those")
    if change.cluster_delta:
        most = MOST_TIMES * now.topology.total_gpus()
        if resized(now.topology, change.cluster_delta).total_gpus() > most:
            raise InputError(f"--cluster-delta {change.cluster_delta!r}: makes more than {most:,} GPUs")
