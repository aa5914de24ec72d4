"""Compare the processor time of a function for hostile and for ordinary input."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 40


def cost_ratio(run: Callable[[Any], object], hostile: Any, ordinary: Any, enough: float) -> float:
    """Return how many times as long the hostile input takes.

    Both are measured in turns and the shortest time of each counts, so that other work on the machine
    matters little. Stop at the first round after which the ratio is at most ``enough``.
    """
    shortest = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for number, value in enumerate((hostile, ordinary)):
            start = time.thread_time()
            run(value)
            shortest[number] = min(shortest[number], time.thread_time() - start)
        if shortest[0] <= enough * shortest[1]:
            break
    return shortest[0] / shortest[1]


def repeat(part: str, length: int) -> str:
    return (part * (length // len(part) + 1))[:length]


def ordinary_text(length: int) -> str:
    """Return memories of the demo, up to a length."""
    path = Path(__file__).parents[1] / "fixtures" / "demo" / "memories.jsonl"
    lines = path.read_text("utf-8").splitlines()
    return repeat("\n\n".join(json.loads(line)["content"] for line in lines), length)
