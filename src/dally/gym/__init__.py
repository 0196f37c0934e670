"""Environments in the form of Gymnasium on the engine itself: `dally.gym.make("OrderJobs-v0", trace=…, cluster=…)`.

With gymnasium installed they are also `gymnasium.make("dally/OrderJobs-v0", …)` once this module is imported.
"""

from __future__ import annotations

from typing import Any

from dally.errors import unknown
from dally.extras import need

need("numpy", "dally.gym")

from dally.gym.decisions import DecisionEnv, InspectEnv  # noqa: E402
from dally.gym.spaces import HAS_GYMNASIUM  # noqa: E402
from dally.gym.tuning import TuneEnv  # noqa: E402
from dally.gym.window_env import WindowEnv  # noqa: E402

DECISIONS = {
    "OrderJobs-v0": "order",
    "PlaceJobs-v0": "place",
    "TunePolicy-v0": "tune",
    "InspectDecision-v0": "inspect",
}
_CLASSES: dict[str, type[WindowEnv]] = {
    "order": DecisionEnv,
    "place": DecisionEnv,
    "tune": TuneEnv,
    "inspect": InspectEnv,
}


def make(name: str, **fields: Any) -> WindowEnv:
    """The environment of that name, with or without `dally/` before it."""
    short = name.removeprefix("dally/")
    if short not in DECISIONS:
        raise unknown("environment", short, DECISIONS)
    return _CLASSES[DECISIONS[short]](DECISIONS[short], **fields)


def _register() -> None:
    from gymnasium.envs.registration import register, registry

    for name, decisions in DECISIONS.items():
        if f"dally/{name}" not in registry:
            register(f"dally/{name}", _CLASSES[decisions], kwargs={"decisions": decisions})


if HAS_GYMNASIUM:
    _register()
