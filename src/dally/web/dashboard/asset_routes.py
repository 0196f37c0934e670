"""Scripts, styles and the icon: they tell nothing of the cluster, so that everybody may have them."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, HTTPException, Response

from dally.web.dashboard.templating import asset

KINDS: Final = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "txt": "text/plain"}
FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}

router = APIRouter(include_in_schema=False)


@router.get("/assets/{version}/{name:path}")
async def one_asset(version: str, name: str) -> Response:
    """A file; its version is there for browsers only."""
    found = asset(name)
    if found is None:
        raise HTTPException(404, f"{name!r}: there is no such file")
    kind = KINDS.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(found, media_type=kind, headers=FOR_EVER)
