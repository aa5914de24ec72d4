"""The closed vocabularies of the four documented systems, in one place. Pure."""

from __future__ import annotations

from enum import StrEnum


class MemoryType(StrEnum):
    """What kind of thing is remembered: the union of LetsGo's, Memory MCP's and Mira's types."""

    # LetsGo: observations of development work
    BUGFIX = "bugfix"
    FEATURE = "feature"
    REFACTOR = "refactor"
    CHANGE = "change"
    DISCOVERY = "discovery"
    DECISION = "decision"
    # LetsGo: made by the lifecycle
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


# Made by the lifecycle out of other memories, or where a session can go on: nothing condenses these.
SUMMARY_TYPES = (
    MemoryType.COMPRESSED_SUMMARY.value,
    MemoryType.SESSION_SUMMARY.value,
    MemoryType.CHECKPOINT.value,
)

# pigo's categories with a rule of their own for memories that are nearly the same.
NEVER_MERGED = frozenset({"events", "cases"})
ALWAYS_MERGED = "profile"


class Scope(StrEnum):
    """Who shares a memory: its owner alone, those on the project, the whole team."""

    PERSONAL = "personal"
    PROJECT = "project"
    TEAM = "team"


SCOPES: tuple[str, ...] = tuple(scope.value for scope in Scope)

# LetsGo's knowledge categories; other words are welcome, these are offered.
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
    """Why a memory lies in the trash."""

    FORGOTTEN = "forgotten"
    EVICTED = "evicted"
    COMPRESSED = "compressed"
    MERGED = "merged"


class Right(StrEnum):
    """What a token may do."""

    READ = "read"
    WRITE = "write"
    MAINTAIN = "maintain"


RIGHTS: tuple[str, ...] = tuple(right.value for right in Right)
