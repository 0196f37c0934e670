"""Where a measurement was made: the GPU, its driver, the versions, the date."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime

from dally.profiling.measuring import MAX_ISA

KNOWN = re.compile(r"(?:^|[^a-z0-9])((?:gh|gb|rtx|gtx|mi|[abhlptv])\s?\d{1,4}(?:s|x|ti)?)(?:[^a-z0-9]|$)")


def short_name(device_name: str) -> str:
    """The GPU type as catalogues call it: `h200` of `NVIDIA H200`, `a100` of `NVIDIA A100-SXM4-80GB`."""
    result = KNOWN.search(device_name.lower())
    return result[1].replace(" ", "") if result else re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-")


def where(device: str) -> dict[str, str]:
    """What stands beside every figure; of a CPU also to which instructions it was limited."""
    import torch

    limit = os.environ.get(MAX_ISA, "") if device == "cpu" else ""
    return {
        "gpu": short_name(torch.cuda.get_device_name()) if device == "cuda" else "cpu",
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
        "driver": _driver() if device == "cuda" else "none",
        "torch": str(torch.__version__),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    } | ({"max_isa": limit} if limit else {})


def _driver() -> str:
    request = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(request, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return said.strip().splitlines()[0]
