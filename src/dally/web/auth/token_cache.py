"""The tokens as the server knows them: read anew when they may have changed."""

from __future__ import annotations

import time
from typing import Final

import structlog

from dally.live.store import Store
from dally.live.store.database import StoreError
from dally.web.auth.tokens import Caller, Token, caller_of, tokens, tokens_needed

FRESH_S: Final = 2.0  # a token that was removed opens nothing after this
RETRY_S: Final = 0.2  # at the earliest, the store is asked whether an unknown token is a new one

log = structlog.get_logger("dally")


class TokenCache:
    """Who holds which token. `needed`: an operator has made one, ever; from then on, nothing is open without."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.known: list[Token] = tokens(store)
        self.needed = tokens_needed(store, self.known)
        self._read_s = time.monotonic()

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
            known = tokens(self._store)
            self.needed = self.needed or tokens_needed(self._store, known)
            self.known = known
        except StoreError as error:
            log.warning("tokens_not_read", why=str(error))

    def caller(self, text: str) -> Caller | None:
        """Who holds that token; None: nobody we know."""
        return caller_of(text, self.known)
