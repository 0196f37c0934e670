"""Where what a call leaves is kept: in the folder that the caller names, else as long as the result is."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from functools import cached_property
from pathlib import Path

from dally.runs.folder import prepare_folder
from dally.whole_file import write_whole


class Kept:
    """A folder, made when first needed. One that nobody named goes with the last result that needs it."""

    def __init__(self, out: str | Path | None) -> None:
        self.out = Path(out) if out is not None else None

    @cached_property
    def folder(self) -> Path:
        """The folder, there and writable."""
        if self.out is not None:
            prepare_folder(self.out)
            return self.out
        folder = Path(tempfile.mkdtemp(prefix="dally-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def file(self, name: str, text: str) -> str:
        """The path of a new file in it."""
        path = self.folder / name
        write_whole(path, text.encode())
        return str(path)
