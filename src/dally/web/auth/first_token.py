"""The operator's token that a daemon makes when it first starts on a real cluster."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dally.errors import InputError
from dally.live.private_folder import TOKEN, make_file
from dally.live.store import Store
from dally.web.auth.tokens import FIRST, MADE, OPERATOR, add_token, tokens


def make_first_token(store: Store, folder: Path) -> str:
    """The new token, written to a file that the daemon's user alone can read; empty: there was one already.

    Only once in the life of a store: an operator who removes it does not want it back.
    """
    if tokens(store) or store.fact(MADE):
        return ""
    text = add_token(store, FIRST, OPERATOR)
    path = folder / TOKEN
    with suppress(FileNotFoundError):
        path.unlink()  # of another store
    try:
        make_file(path, f"{text}\n".encode())
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return text
