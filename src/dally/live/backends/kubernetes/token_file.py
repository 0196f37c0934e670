"""A token in a file that others write anew from time to time."""

from __future__ import annotations

import os
from pathlib import Path


class TokenFile:
    """Reads the file again whenever it has changed; one that cannot be read leaves the token as it was."""

    def __init__(self, path: str) -> None:
        """`path`: empty if there is none."""
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = ""

    def read(self) -> str:
        """The token; empty: there is none."""
        if not self._path:
            return ""
        try:
            status = os.stat(self._path)
            seen = (status.st_mtime_ns, status.st_ino, status.st_size)
            if seen != self._seen:
                self._token, self._seen = Path(self._path).read_text().strip(), seen
        except OSError:
            pass
        return self._token
