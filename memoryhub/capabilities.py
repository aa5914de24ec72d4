"""The registry of capabilities (LetsGo's memory guide). All but the store are optional.

A capability that is switched off or fails is reported, and the others continue.
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
    """A capability. ``setting``: the tunable that switches it off, empty if it cannot be switched off."""

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
    """Whether the configuration enables a capability."""
    setting = CAPABILITIES[name].setting
    return not setting or bool(getattr(settings.MEMORYHUB, setting))


def disabled_message(name: str) -> str:
    """Return the report for a capability that is switched off."""
    return f"{name} is switched off"


def call_capability(name: str, ask: Callable[[], T], notes: list[str]) -> T | None:
    """Return the result of a capability. If it is off or fails, return None and add a line to ``notes``."""
    if not is_enabled(name):
        notes.append(disabled_message(name))
        return None
    try:
        return ask()
    except Exception:
        logger.exception("capability %s failed", name)
        notes.append(f"{name} failed; the log has the details")
        return None
