"""The tokens as the server knows them: read anew when they may have changed. Without any, loopback is open."""

from __future__ import annotations

import time
from typing import Final

import structlog

from dally.live.store import Store
from dally.live.store.database import StoreError
from dally.web.auth.tokens import OPERATOR, Caller, Token, caller_of, tokens

FRESH_S: Final = 2.0  # a token that was removed opens nothing after this
RETRY_S: Final = 0.2  # at the earliest, the store is asked whether an unknown token is a new one

log = structlog.get_logger("dally")


class TokenCache:
    """Who holds which token. `trusting`: whoever can reach us may do everything, as long as there is no token."""

    def __init__(self, store: Store, trusting: bool) -> None:
        self._store = store
        self._trusting = trusting
        self.known: list[Token] = tokens(store)
        self._read_s = time.monotonic()

    @property
    def open(self) -> bool:
        """Whether no token is needed."""
        return self._trusting and not self.known

    def stale(self, text: str | None) -> bool:
        """Whether to `read` before `caller` is asked."""
        age_s = time.monotonic() - self._read_s
        if age_s > FRESH_S:
            return True
        return age_s > RETRY_S and text is not None and caller_of(text, self.known) is None

    def read(self) -> None:
        """Ask the store. If it does not answer, what was known holds on."""
        self._read_s = time.monotonic()
        try:
            self.known = tokens(self._store)
        except StoreError as error:
            log.warning("tokens_not_read", why=str(error))

    def caller(self, text: str | None) -> Caller | None:
        """Who asks; None: nobody we know."""
        if self.open:
            return Caller("", OPERATOR)
        return None if text is None else caller_of(text, self.known)
