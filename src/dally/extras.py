"""Packages that not every install has: which extra brings them, told before a run and not after it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from dally.errors import InputError

EXTRAS: Final = {  # by the name that is imported
    "alembic": "live",
    "altair": "figures",
    "fastapi": "live",
    "kubernetes": "kubernetes",
    "numpy": "learn",
    "polars": "report",
    "prometheus_client": "live",
    "psycopg": "postgresql",
    "ray": "ray",
    "sklearn": "policies",
    "sqlalchemy": "live",
    "structlog": "live",
    "torch": "profile",
    "torchvision": "profile",
    "transformers": "profile",
    "uvicorn": "live",
    "vl_convert": "figures",
}


class MissingExtraError(InputError):
    """Something needs a package that is not installed."""


def need(package: str, what: str) -> None:
    """MissingExtraError, which says what needs the package and how to install it, unless it is there."""
    if find_spec(package) is None:
        raise missing(package, what)


def missing(package: str, what: str) -> MissingExtraError:
    """The error for a package that is not there."""
    return MissingExtraError(f"{what}: {package} is missing; pip install 'dally[{EXTRAS[package]}]' brings it")
