"""What a person or a script gets to see of a run. Called, `dally.report(step, total)` tells a job's progress."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableFolder(ModuleType):
    """This package is also the function that training scripts call, and imports nothing until one does."""

    def __call__(self, *values: Any, **named: Any) -> bool:
        from dally.progress.training import report

        return report(*values, **named)


sys.modules[__name__].__class__ = _CallableFolder
