"""Writing a workload as a plain trace, whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dally.errors import InputError
from dally.traces.generate.workload import GeneratedJob, Workload


def write_workload(path: Path, workload: Workload) -> None:
    """Write csv, or csv.gz by the name; the file appears only when it is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            if path.name.endswith(".gz"):
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                    packed.writelines(_lines(workload))
            else:
                file.writelines(_lines(workload))
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):  # it is not there, or where it should be is no folder
            temporary.unlink()


def _lines(workload: Workload) -> Iterator[bytes]:
    yield (",".join(GeneratedJob._fields) + "\n").encode()
    for job in workload.jobs:
        yield (",".join(map(str, job)) + "\n").encode()
