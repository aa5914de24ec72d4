"""Operations of higher floors, by the places where they are found: loaded when a run of one is met.

No page, tool or schedule offers these; their own floors start them in their own ways.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.utils.module_loading import import_string

_places: dict[str, str] = {}


def register(name: str, place: str) -> None:
    """Let runs of an operation be worked on; ``place`` is the dotted path of the object."""
    _places[name] = place


def find(name: str) -> Any:
    """The operation of this name, or None."""
    return _load(_places[name]) if name in _places else None


@cache
def _load(place: str) -> Any:
    return import_string(place)
