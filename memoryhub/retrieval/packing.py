"""What of an index and of details fits into a number of tokens. Pure.

The index may take :data:`INDEX_SHARE` of the room, and what the details leave; the details have the rest, and
what the index leaves. Of the details the best one that fits beside the index's first entry is shown in any
case: where it does not fit beside that share of the index, the index shrinks for it. Beside the best one
those are shown whose scores add up to most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

INDEX_SHARE = 0.4
_STEPS = 2000  # into which the room is divided where it has more tokens than that


@dataclass(frozen=True)
class Packed:
    """``entries``: how many of the index, from the first; ``details``: which ones, best first."""

    entries: int
    details: list[int]


def pack(index: Sequence[int], details: Sequence[int], scores: Sequence[float], room: int) -> Packed:
    """Choose from the costs in tokens of entries and details, which come best first, within the room."""
    room = max(room, 0)
    if sum(index) + sum(details) <= room:
        return Packed(len(index), list(range(len(details))))
    entries = _first(index, int(room * INDEX_SHARE))
    chosen = worthiest(details, scores, room - sum(index[:entries]))
    beside = room - sum(index[:1])
    best = [number for number, cost in enumerate(details) if cost <= beside][:1]
    if best != chosen[:1]:
        chosen = best
    return Packed(_first(index, room - sum(details[number] for number in chosen)), chosen)


def worthiest(costs: Sequence[int], scores: Sequence[float], room: int) -> list[int]:
    """The first that fits, and beside it those that have the highest total score within the room."""
    fitting = [number for number, cost in enumerate(costs) if cost <= room]
    if sum(costs[number] for number in fitting) <= room:
        return fitting
    first, *others = fitting
    chosen = {first, *_knapsack(others, costs, scores, room - costs[first])}
    left = room - sum(costs[number] for number in chosen)
    for number in fitting:  # what the steps have cost
        if number not in chosen and costs[number] <= left:
            chosen.add(number)
            left -= costs[number]
    return sorted(chosen)


def _knapsack(numbers: Sequence[int], costs: Sequence[int], scores: Sequence[float], room: int) -> list[int]:
    """The set with the highest total score; costs are rounded up to steps where there is much room."""
    step = max(1, -(-room // _STEPS))
    places = room // step
    best = np.zeros(places + 1)
    taken = np.zeros((len(numbers), places + 1), dtype=bool)
    weights = [-(-costs[number] // step) for number in numbers]
    for row, number in enumerate(numbers):
        weight = weights[row]
        if weight <= places:
            tried = best[: places + 1 - weight] + scores[number]
            taken[row, weight:] = tried > best[weight:]
            best[weight:] = np.maximum(best[weight:], tried)
    chosen, place = [], places
    for row in range(len(numbers) - 1, -1, -1):
        if taken[row, place]:
            chosen.append(numbers[row])
            place -= weights[row]
    return chosen


def _first(costs: Sequence[int], room: int) -> int:
    """How many from the first fit."""
    return sum(1 for total in accumulate(costs) if total <= room)
