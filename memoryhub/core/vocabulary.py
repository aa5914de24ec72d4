"""The closed vocabularies of the four documented systems. Pure."""

from __future__ import annotations

from enum import StrEnum


class MemoryType(StrEnum):
    """The type of a memory: the union of the types of LetsGo, Memory MCP and Mira."""

    # LetsGo: observations of development work
    BUGFIX = "bugfix"
    FEATURE = "feature"
    REFACTOR = "refactor"
    CHANGE = "change"
    DISCOVERY = "discovery"
    DECISION = "decision"
    # LetsGo: generated
    SESSION_SUMMARY = "session_summary"
    COMPRESSED_SUMMARY = "compressed_summary"
    CHECKPOINT = "checkpoint"
    # Memory MCP
    FACT = "fact"
    ENTITY = "entity"
    RELATIONSHIP = "relationship"
    SELF = "self"
    # Mira
    PREFERENCE = "preference"
    CONTEXT = "context"
    GENERAL = "general"


TYPES: tuple[str, ...] = tuple(kind.value for kind in MemoryType)


# Generated from other memories or to resume a session. Never summarised again.
SUMMARY_TYPES = (
    MemoryType.COMPRESSED_SUMMARY.value,
    MemoryType.SESSION_SUMMARY.value,
    MemoryType.CHECKPOINT.value,
)

# pigo's categories, and those with a special rule for near-duplicates.
CATEGORIES = ("profile", "preferences", "entities", "events", "cases", "patterns")
NEVER_MERGED = frozenset({"events", "cases"})
ALWAYS_MERGED = "profile"


class Scope(StrEnum):
    """The people who share a memory: its owner, the members of the project, the whole team."""

    PERSONAL = "personal"
    PROJECT = "project"
    TEAM = "team"


SCOPES: tuple[str, ...] = tuple(scope.value for scope in Scope)


class ProjectMode(StrEnum):
    """What capture does in a project: nothing, count events, ask a person first, or store at once."""

    OFF = "off"
    OBSERVE = "observe"
    APPROVE = "approve"
    AUTOMATIC = "automatic"


PROJECT_MODES: tuple[str, ...] = tuple(mode.value for mode in ProjectMode)

# LetsGo's knowledge categories, offered as suggestions. Other words are valid too.
CONCEPTS: tuple[str, ...] = (
    "how-it-works",
    "why-it-exists",
    "what-changed",
    "problem-solution",
    "gotcha",
    "pattern",
    "trade-off",
)


class TrashReason(StrEnum):
    """Why a memory is in the trash."""

    FORGOTTEN = "forgotten"
    EVICTED = "evicted"
    COMPRESSED = "compressed"
    MERGED = "merged"
    UNDONE = "undone"


class Right(StrEnum):
    """The permissions of a token."""

    READ = "read"
    WRITE = "write"
    MAINTAIN = "maintain"


RIGHTS: tuple[str, ...] = tuple(right.value for right in Right)
