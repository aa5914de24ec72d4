"""The registry of capabilities (LetsGo's memory guide). All but the store are optional.

A capability that is switched off or fails is reported, and the others continue. The app registers an object
for each (``apps.py``); docs/python.md lists their methods.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

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
        Capability(STORE, "", "stores memories and facts; everything else needs it"),
        Capability(MEMORABILITY, "capability_memorability", "only memorable observations are stored"),
        Capability(BOUNDARIES, "capability_boundaries", "sessions are split into segments"),
        Capability(TEMPORAL, "capability_temporal", "injections balance the four scales"),
        Capability(CONSOLIDATION, "capability_consolidation", "importance depends on use"),
        Capability(COMPRESSION, "capability_compression", "similar old memories become one"),
    )
}


class CapabilityUnavailable(LookupError):
    """The capability is unknown or switched off."""


_objects: dict[str, Any] = {}  # by capability; a text is the path of an object that is not imported yet


def register(name: str, provider: Any, setting: str = "", doc: str = "") -> None:
    """Register the object of a capability, or its dotted path, which is imported when it is first used.

    A later registration replaces an earlier one. ``setting``: the tunable that switches a new one off.
    """
    CAPABILITIES.setdefault(name, Capability(name, setting, doc))
    _objects[name] = provider


def get(name: str) -> Any:
    """Return the object of a capability. Raise CapabilityUnavailable if it is unknown or switched off."""
    if name not in _objects:
        raise CapabilityUnavailable(f"{name} is unknown; use one of {', '.join(sorted(_objects))}")
    if not is_enabled(name):
        raise CapabilityUnavailable(disabled_message(name))
    if isinstance(_objects[name], str):
        _objects[name] = pkgutil.resolve_name(_objects[name])
    return _objects[name]


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
