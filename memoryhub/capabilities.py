"""The registry of capabilities (LetsGo's memory guide): each is optional but the store.

Switched off in the configuration, or failing, one is noted and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from django.conf import settings

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Capability:
    """``setting``: the tunable that switches it off; empty where nothing does."""

    name: str
    setting: str
    doc: str


STORE = "memory.store"
MEMORABILITY = "memory.memorability"
BOUNDARIES = "memory.boundaries"
TEMPORAL = "memory.temporal"
CONSOLIDATION = "memory.consolidation"
COMPRESSION = "memory.compression"
CAPABILITIES: dict[str, Capability] = {
    one.name: one
    for one in (
        Capability(STORE, "", "keeps memories and facts; everything else needs it"),
        Capability(MEMORABILITY, "capability_memorability", "the gate before capture"),
        Capability(BOUNDARIES, "capability_boundaries", "a session falls into segments"),
        Capability(TEMPORAL, "capability_temporal", "injections balance the four scales"),
        Capability(CONSOLIDATION, "capability_consolidation", "importance follows use"),
        Capability(COMPRESSION, "capability_compression", "old alike memories become one"),
    )
}


def is_enabled(name: str) -> bool:
    """Whether the configuration leaves a capability switched on."""
    setting = CAPABILITIES[name].setting
    return not setting or bool(getattr(settings.MEMORYHUB, setting))


def disabled_message(name: str) -> str:
    """How a report says so."""
    return f"{name} is switched off"


def call_capability(name: str, ask: Callable[[], T], notes: list[str]) -> T | None:
    """What a capability says; ``None``, and a line in ``notes``, when it is switched off or fails."""
    if not is_enabled(name):
        notes.append(disabled_message(name))
        return None
    try:
        return ask()
    except Exception:
        logger.exception("capability %s failed", name)
        notes.append(f"{name} failed; the log has the details")
        return None
