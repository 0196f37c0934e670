"""The jobs that environments are tried on."""

from __future__ import annotations

import random

import pytest


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    drawn = random.Random(5)
    now = 0.0
    lines = ["job_id,submit_s,gpus,duration_s,model"]
    for place in range(150):
        now += drawn.expovariate(1 / 40)
        gpus = drawn.choice((1, 1, 2, 4, 8, 12))
        lines.append(
            f"j{place},{now:.3f},{gpus},{drawn.lognormvariate(6.0, 1.2):.3f},{drawn.choice(('vgg16', 'resnet50'))}"
        )
    path = tmp_path_factory.mktemp("gym") / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)
