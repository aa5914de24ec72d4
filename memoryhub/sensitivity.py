"""Who may see what: sensitivity levels, and the clearance of one request. Pure.

The gate is an allowlist: a level that is not named here is denied to everyone (fail-closed).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Sensitivity(StrEnum):
    """How far a memory may travel, from everyone to the few."""

    PUBLIC = "public"
    PRIVATE = "private"
    SECRET = "secret"  # noqa: S105 a level, not a password


LEVELS: tuple[str, ...] = tuple(level.value for level in Sensitivity)


def rank(level: str) -> int:
    """0 for public to 2 for secret; ValueError for a level that is not known."""
    return LEVELS.index(level)


def higher(one: str, other: str) -> str:
    """The stricter of two levels; one that is not known is the strictest."""
    return max(one, other, key=lambda level: rank(level) if level in LEVELS else len(LEVELS))


@dataclass(frozen=True)
class Clearance:
    """What one request may see.

    ``levels``: the sensitivities it reads; one that is not known is dropped, so nothing can open it.
    ``owner``: whose personal memories it reads (empty: nobody's). ``projects``: the projects it is confined
    to; ``None`` for all of them. ``every_owner``: everyone's personal memories, for the hub's own upkeep.
    """

    levels: frozenset[str] = frozenset({Sensitivity.PUBLIC.value})
    owner: str = ""
    projects: frozenset[str] | None = None
    every_owner: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", self.levels.intersection(LEVELS))

    @classmethod
    def up_to(cls, level: str, owner: str = "", projects: Iterable[str] | None = None) -> Clearance:
        """Everything up to ``level``; an unknown level clears nothing at all."""
        levels = frozenset(LEVELS[: rank(level) + 1]) if level in LEVELS else frozenset()
        return cls(levels, owner, None if projects is None else frozenset(projects))

    def asking(self, *, private: bool = False, secret: bool = False) -> Clearance:
        """What is left when the request asks for no more than these levels beside public."""
        asked = {Sensitivity.PUBLIC.value}
        if private:
            asked.add(Sensitivity.PRIVATE.value)
        if secret:
            asked.add(Sensitivity.SECRET.value)
        return replace(self, levels=self.levels & asked)

    def reaches(self, project: str) -> bool:
        """Whether the confinement leaves ``project`` open."""
        return self.projects is None or project in self.projects


@dataclass(frozen=True)
class Actor:
    """Who does something: the name the journal keeps, and what they may see at most."""

    name: str
    clearance: Clearance = Clearance()

    @property
    def owner(self) -> str:
        return self.clearance.owner


def system(name: str) -> Actor:
    """The hub itself at work (a command, a scheduled run): every known level of every project and owner."""
    return Actor(f"system:{name}", Clearance(frozenset(LEVELS), every_owner=True))
