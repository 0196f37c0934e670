"""Bearer tokens: who may ask for what. The store keeps only their SHA-256."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from sqlalchemy import delete, insert, select

from dally.errors import InputError, unknown
from dally.live.store import Store
from dally.live.store.schema import TOKENS

VIEWER: Final = "viewer"  # reads everything
USER: Final = "user"  # sees, submits and cancels jobs of one user
OPERATOR: Final = "operator"  # everything
ROLES: Final = (VIEWER, USER, OPERATOR)
FIRST: Final = "operator"  # the name of the token that a daemon makes itself
MADE: Final = "first_token_made"  # facts of the store
NEEDED: Final = "tokens_needed"
PREFIX: Final = "dally_"  # so that a token is known for what it is wherever it turns up


@dataclass(frozen=True)
class Token:
    """A token as the store knows it; the token itself was shown once."""

    name: str
    digest: str
    role: str
    user: str  # whose jobs it is about, if its role is USER
    created_s: float  # seconds since 1970


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    name: str
    role: str
    user: str = ""  # as whom it submits, unless it says otherwise
    sees_all: bool = False  # though it is a user
    uid: int | None = None  # if the kernel says who asks

    def sees(self, owner: str) -> bool:
        """Whether jobs of that user are its business."""
        return self.role != USER or self.sees_all or owner == self.user

    def may_touch(self, owner: str) -> bool:
        """Whether it may hold, release and cancel jobs of that user."""
        return self.role == OPERATOR or (self.role == USER and bool(owner) and owner == self.user)

    @property
    def may_act(self) -> bool:
        """Whether it may submit and cancel at all."""
        return self.role != VIEWER


def add_token(store: Store, name: str, role: str, user: str = "") -> str:
    """A new token; it cannot be shown again."""
    if role not in ROLES:
        raise unknown("role", role, ROLES)
    if not name or not name.isprintable():
        raise InputError(f"{name!r}: must be a name for the token, as alice-laptop")
    if (role == USER) != bool(user):
        problem = "needs --user, the owner of the jobs" if role == USER else "takes no --user: it sees all jobs"
        raise InputError(f"--role {role}: {problem}")
    if any(token.name == name for token in tokens(store)):
        raise InputError(f"{name}: there is a token of that name; `dally token remove {name}` takes it back")
    text = PREFIX + secrets.token_urlsafe(32)
    row = {"name": name, "digest": digest(text), "role": role, "user": user, "created_s": time.time()}
    with store.transaction() as connection:
        connection.execute(insert(TOKENS), [row])
        store.keep(connection, MADE if name == FIRST else NEEDED, True)
    return text


def tokens(store: Store) -> list[Token]:
    """All of them, by name."""
    return [Token(**row) for row in store.rows(select(TOKENS).order_by(TOKENS.c.name))]


def tokens_needed(store: Store, known: Iterable[Token]) -> bool:
    """Whether an operator has made a token, ever: then, nothing is open without one."""
    return bool(store.fact(NEEDED)) or any(token.name != FIRST for token in known)


def remove_token(store: Store, name: str) -> None:
    """From now on it opens nothing."""
    known = [token.name for token in tokens(store)]
    if name not in known:
        raise unknown("token", name, known) if known else InputError(f"{name}: there are no tokens")
    with store.transaction() as connection:
        connection.execute(delete(TOKENS).where(TOKENS.c.name == name))


def digest(text: str) -> str:
    """What the store keeps of a token. It is 256 random bits, so that no salt and no slow hash are needed."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def caller_of(text: str, known: Iterable[Token]) -> Caller | None:
    """Who holds that token. All are compared, each in the same time, so that a miss tells nothing."""
    options = digest(text)
    result = None
    for token in known:
        if hmac.compare_digest(options, token.digest):
            result = Caller(token.name, token.role, token.user)
    return result
