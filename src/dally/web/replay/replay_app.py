"""The pages over a finished run: no daemon, no store, no tokens, nothing to act upon."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from dally import __version__
from dally.web.app import handle_problems
from dally.web.auth.middleware import AuthMiddleware, Rate
from dally.web.auth.tokens import VIEWER, Caller
from dally.web.dashboard.pages import add_pages
from dally.web.dashboard.templating import moment_of
from dally.web.replay.replay_scene import ReplayScene

REQUESTS_PER_S: Final = 500.0  # of one reader who plays and scrubs
PAGES: Final = ("/", "/queue", "/trends")

router = APIRouter(include_in_schema=False)


class Anybody:
    """Whoever can reach a run may look at it."""

    open = True

    def stale(self, text: str | None) -> bool:
        """There is nothing to read anew."""
        return False

    def read(self) -> None:
        """Nor anything to read."""

    def caller(self, text: str | None) -> Caller:
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

    app.add_middleware(AuthMiddleware, tokens=Anybody(), rate=Rate(REQUESTS_PER_S))
    handle_problems(app)
    return app


@router.get("/replay/near.json")
async def near(request: Request) -> Response:
    """The moments before and after this one at which anything happened."""
    scene: ReplayScene = request.app.state.scene
    at_s = moment_of(request)
    before_s, after_s = scene.statuses.course.near(scene.span()[1] if at_s is None else at_s)
    return JSONResponse({"before": before_s, "after": after_s})
