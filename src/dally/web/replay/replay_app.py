"""The pages over a finished run, a Scene that knows every moment of it: no daemon, no store, no tokens, no acts."""

from __future__ import annotations

import secrets
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Final
from urllib.parse import urlencode

import polars as pl
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from dally import __version__
from dally.cluster.topology import Topology
from dally.live.history.trend_sampler import point_of
from dally.live.status import ClusterStatus
from dally.metrics.over_time import held_gpus, step_means, time_edges
from dally.metrics.record import Record
from dally.metrics.trends import Point, Trends
from dally.report.explanation.course import GONE, NONE, Latest
from dally.report.explanation.job_timeline import Explainer
from dally.report.explanation.size_spans import size_spans
from dally.report.explanation.waiting import Why
from dally.report.time_text import run_stamp
from dally.web.app import handle_problems
from dally.web.auth.middleware import AuthMiddleware, Rate
from dally.web.auth.peers import Peer
from dally.web.auth.tokens import VIEWER, Caller
from dally.web.dashboard.pages import add_pages
from dally.web.dashboard.templating import moment_of
from dally.web.replay.replay_status import StatusHistory
from dally.web.replay.run_trends import RunTrends
from dally.web.routes.bodies import AlertBody, Eta, Explanation, HistoryEntry, JobBody, job_body
from dally.web.routes.size_entries import size_entries

PROFILE: Final = 240  # spans of the whole run
MOST_CACHED: Final = 8  # a page asks for the same moment several times


class ReplayScene:
    """StatusHistory, explanations and trends of a run."""

    is_live = False

    def __init__(self, run: Record, title: str, opening_s: float | None = None) -> None:
        """`opening_s`: the moment that pages show if nobody asked for one; None: when most jobs waited."""
        self.run = run
        self.title = title
        self.policy = str(run.summary["policy"])
        self.boot = secrets.token_hex(8)
        self.topology: Topology = run.topology
        self._explainer = Explainer(run)
        self.statuses = StatusHistory(run, self._explainer.timeline)
        self._cached: OrderedDict[float, ClusterStatus] = OrderedDict()
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()  # of explanations
        loads = run.all_events.filter(pl.col("kind") == "link").select("time_s", "link", "load")
        self._loads = Latest(loads, "link", "load")
        self.epoch_s: float | None = run.summary.get("epoch_s")
        self.zone = run.scenario.zone
        self.opening_s = self._moment(self._busiest_s() if opening_s is None else opening_s)

    def _busiest_s(self) -> float:
        return self._explainer.busiest_s() if self.statuses.course.times else 0.0

    def span(self) -> tuple[float, float]:
        """From the first event to the last."""
        times = self.statuses.course.times
        return (times[0] if times else 0.0), self.run.end_s

    def _moment(self, at_s: float | None) -> float:
        first_s, last_s = self.span()
        return last_s if at_s is None else min(max(at_s, first_s), last_s)

    def status(self, at_s: float | None) -> ClusterStatus:
        """How things stood then."""
        moment_s = self._moment(at_s)
        with self._lock:
            result = self._cached.pop(moment_s, None) or self.statuses.at(moment_s)
            self._cached[moment_s] = result
            if len(self._cached) > MOST_CACHED:
                self._cached.popitem(last=False)
        return result

    def evidence(self, shown: Collection[str]) -> dict[str, str]:
        """The record of a run has none."""
        return {}

    def loads(self, at_s: float | None) -> dict[str, float]:
        """As the log last told of each link."""
        moment_s, loads = self._moment(at_s), self._loads.values["load"]
        rows = ((name, self._loads.last(name, moment_s)) for name in self._loads)
        return {name: loads[row] for name, row in rows if row != NONE}

    def find(self, caller: Caller, job_id: str, at_s: float | None) -> JobBody | None:
        """In the status, or ended by then; None: not submitted yet, or never."""
        moment_s = self._moment(at_s)
        line = self.status(moment_s).by_id.get(job_id)
        if line is not None:
            result = job_body(line)
        else:
            act = self.statuses.course.act_of(self._explainer.timeline.numbers.get(job_id, -1), moment_s)
            if act is None:
                return None
            result = self._ended(act)
        return result if caller.sees(result.spec.user) else None

    def _ended(self, act: int) -> JobBody:
        course = self.statuses.course
        line = self.statuses.line(act, course.times[act], None, Why("", ""))
        state = "finished" if self._row(course.jobs[act])["status"] == "finished" else "cancelled"
        tier = self._row(course.jobs[act])["tier"] or ""
        return job_body(line._replace(state=state, tier=str(tier)))

    def _row(self, number: int) -> dict[str, object]:
        return self.run.jobs.row(number, named=True)

    def ended(
        self, caller: Caller, user: str, offset: int, limit: int, at_s: float | None
    ) -> tuple[int, list[JobBody]]:
        """Those who had ended by then, the latest first."""
        times, acts = self._ends
        result = [
            act for act in reversed(acts[: bisect_right(times, self._moment(at_s))])
            if self._shows(caller, user, self.statuses.jobs[self.statuses.course.jobs[act]].spec.user)
        ]  # fmt: skip
        return len(result), [self._ended(act) for act in result[offset : offset + limit]]

    @staticmethod
    def _shows(caller: Caller, desired: str, owner: str) -> bool:
        return caller.sees(owner) and desired in ("", owner)

    @cached_property
    def _ends(self) -> tuple[list[float], list[int]]:
        course = self.statuses.course
        acts = sorted(act for act in course.last.values() if course.makes[act] == GONE)
        return [course.times[act] for act in acts], acts

    def explanation(self, caller: Caller, job: JobBody, at_s: float | None) -> Explanation:
        """Its history up to that moment, and nothing of what is to come."""
        moment_s = self._moment(at_s)
        with self._one_at_a_time:
            entries = self._explainer.history(job.job_id, moment_s)
        history = [
            HistoryEntry(at_s=self.statuses.wall_s(entry.time_s), kind=entry.kind, text=entry.text)
            for entry in entries
        ]
        number = self._explainer.timeline.numbers[job.job_id]
        spans = size_spans(self.statuses.course, number, moment_s)
        act = self.statuses.course.act_of(number, moment_s)
        assert act is not None  # it was found at that moment
        spent = self.statuses.progress.spent(act, moment_s)
        return Explanation(
            job=job,
            history=history,
            slowdowns=self.slowdowns(job.job_id, job.spec.model, job.spec.gpus),
            spent=spent,
            sizes=size_entries(job.spec.sizes, spans, self.statuses.wall_s),
        )

    def submitted_s(self, job_id: str) -> float | None:
        """As jobs.csv says, of jobs that the run came to."""
        number = self._explainer.timeline.numbers.get(job_id, -1)
        return self.statuses.jobs[number].submit_s if number in self.statuses.course.last else None

    def slowdowns(self, job_id: str, model: str, gpus: int) -> dict[str, float]:
        """Worked out once per model and size."""
        result = self.statuses.progress.slowdowns(model, gpus)
        return {tier: value for tier, value in zip(self.run.tiers, result, strict=False) if value > 0.0}

    def eta(self, job_id: str) -> Eta | None:
        """Nobody foresaw it, and what came is not told."""
        return None

    def moment(self, wall_s: float) -> str:
        """With the trace's date if it has dates; else the day and the time of it."""
        return self.when(wall_s - self.statuses.epoch_s)

    def when(self, at_s: float) -> str:
        """A moment of the run in words."""
        return run_stamp(self.run, at_s).partition(" (")[0]

    def alerts(self, caller: Caller) -> list[AlertBody]:
        """None: it is over."""
        return []

    def watch(self, record: Callable[[set[str]], None]) -> None:
        """Nothing happens any more."""

    @cached_property
    def _trends(self) -> RunTrends:
        return RunTrends(self.run, self.statuses)

    def trends(self, from_s: float, to_s: float, most: int) -> Trends:
        """How it fared in between."""
        return self._trends.between(self._moment(from_s), self._moment(to_s), most)

    speed = 1.0

    def point(self, at_s: float | None) -> Point:
        """At a moment."""
        return point_of(self.status(at_s), self.topology)

    @cached_property
    def profile(self) -> list[float]:
        """The mean share of the GPUs that were held, over equal spans of the run."""
        levels = held_gpus(self.run.events, self.run.jobs)
        means = step_means(levels["time_s"], levels["level"], time_edges(*self.span(), PROFILE))
        return [round(min(1.0, max(0.0, mean / self.topology.total_gpus())), 3) for mean in means]


REQUESTS_PER_S: Final = 500.0  # of one reader who plays and scrubs
PAGES: Final = ("/", "/queue", "/trends")

router = APIRouter(include_in_schema=False)


class OpenAccess:
    """Whoever can reach a run may look at it."""

    def stale(self, text: str | None) -> bool:
        """There is nothing to read anew."""
        return False

    def read(self) -> None:
        """Nor anything to read."""

    def caller(self, text: str | None, peer: Peer) -> Caller:
        """A reader."""
        return Caller("", VIEWER)


def replay_app(scene: ReplayScene) -> FastAPI:
    """The application over a run."""
    app = FastAPI(title="Dally", version=__version__, openapi_url=None)
    add_pages(app, scene)
    app.include_router(router)

    @app.middleware("http")
    async def at_a_moment(request: Request, call_next: object) -> Response:
        """Every page is of a moment that its address names, so that it can be shared."""
        requested = request.query_params
        if request.url.path in PAGES and "at" not in requested and "hx-request" not in request.headers:
            return RedirectResponse(
                f"{request.url.path}?{urlencode([*requested.multi_items(), ('at', scene.opening_s)])}"
            )
        answer: Response = await call_next(request)  # type: ignore[operator]
        return answer

    app.add_middleware(AuthMiddleware, access=OpenAccess(), rate=Rate(REQUESTS_PER_S))
    handle_problems(app)
    return app


@router.get("/replay/near.json")
async def near(request: Request) -> Response:
    """The moments before and after this one at which anything happened."""
    scene: ReplayScene = request.app.state.scene
    at_s = moment_of(request)
    before_s, after_s = scene.statuses.course.near(scene.span()[1] if at_s is None else at_s)
    return JSONResponse({"before": before_s, "after": after_s})
