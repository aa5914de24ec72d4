"""Sensitivity levels, and the clearance of a request. Pure.

The levels are an allowlist: rows with any other level are hidden from everyone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Sensitivity(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"
    SECRET = "secret"  # noqa: S105 a level, not a password


LEVELS: tuple[str, ...] = tuple(level.value for level in Sensitivity)


def level_rank(level: str) -> int:
    """Return 0 for public to 2 for secret. Raise ValueError for an unknown level."""
    return LEVELS.index(level)


def stricter_level(one: str, other: str) -> str:
    """Return the stricter of two levels. An unknown level is the strictest."""
    return max(one, other, key=lambda level: level_rank(level) if level in LEVELS else len(LEVELS))


# The levels of memories that wait for approval, and the level that each gets with it. They are not in LEVELS:
# like rows of an unknown level, such memories are hidden from everyone. Only the review queue asks for them.
WAITING_LEVELS = {f"waiting-{level}": level for level in LEVELS}


def waiting_level(level: str) -> str:
    """Return the level of a memory that waits for approval to get this level."""
    return next(waiting for waiting, approved in WAITING_LEVELS.items() if approved == level)


@dataclass(frozen=True)
class Clearance:
    """The rows that a request may see.

    ``levels``: the readable sensitivity levels; unknown ones are dropped. ``owner``: the person whose
    personal memories are readable (empty: none). ``projects``: the open projects, ``None`` for all.
    ``every_owner``: everyone's personal memories are readable, for maintenance. ``grants``: (project, levels)
    for projects whose readable levels differ from ``levels``; grants for projects that are not open are
    dropped. ``every_token``: journal rows about everyone's agent tokens are readable, not only those about
    the owner's.
    """

    levels: frozenset[str] = frozenset({Sensitivity.PUBLIC.value})
    owner: str = ""
    projects: frozenset[str] | None = None
    every_owner: bool = False
    grants: tuple[tuple[str, frozenset[str]], ...] = ()
    every_token: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", self.levels.intersection(LEVELS))
        if not self.grants:
            return
        if self.projects is None:
            raise ValueError("grants need a clearance with projects")
        known = {project: levels.intersection(LEVELS) for project, levels in self.grants}
        kept = [(project, known[project]) for project in sorted(known) if project in self.projects]
        # A grant that equals ``levels`` is redundant.
        object.__setattr__(self, "grants", tuple(one for one in kept if one[1] != self.levels))

    @classmethod
    def up_to(cls, level: str, owner: str = "", projects: Iterable[str] | None = None) -> Clearance:
        """Return a clearance for all levels up to ``level``, or for none if the level is unknown."""
        levels = frozenset(LEVELS[: level_rank(level) + 1]) if level in LEVELS else frozenset()
        return cls(levels, owner, None if projects is None else frozenset(projects))

    def limited_to(self, *, private: bool = False, secret: bool = False) -> Clearance:
        """Return the clearance without the levels above public that the request does not ask for."""
        asked = {Sensitivity.PUBLIC.value}
        if private:
            asked.add(Sensitivity.PRIVATE.value)
        if secret:
            asked.add(Sensitivity.SECRET.value)
        grants = tuple((project, levels & asked) for project, levels in self.grants)
        return replace(self, levels=self.levels & asked, grants=grants)

    @property
    def is_whole(self) -> bool:
        """Whether every level of every project is visible.

        Callers with less get no numbers that count all rows: sizes, and numbers and hashes of journal rows.
        """
        return self.projects is None and self.levels == frozenset(LEVELS)

    def includes_project(self, project: str) -> bool:
        """Whether the project is open."""
        return self.projects is None or project in self.projects

    def levels_in(self, project: str) -> frozenset[str]:
        """Return the readable levels in a project, none if it is not open."""
        return dict(self.grants).get(project, self.levels) if self.includes_project(project) else frozenset()

    def allows(self, project: str, level: str) -> bool:
        """Whether rows of this level and project may be seen, apart from the owner."""
        return level in self.levels_in(project)

    def levels_in_any_project(self) -> frozenset[str]:
        """Return the levels that are readable in at least one project."""
        return frozenset().union(*(levels for levels, _ in self.parts()))

    def parts(self) -> list[tuple[frozenset[str], frozenset[str] | None]]:
        """Return pairs of levels and the projects with exactly these readable levels (``None``: all)."""
        if not self.grants or self.projects is None:
            return [(self.levels, self.projects)]
        shares: dict[frozenset[str], set[str]] = {}
        for project in self.projects:
            shares.setdefault(self.levels_in(project), set()).add(project)
        order = sorted(shares, key=sorted)
        return [(levels, frozenset(shares[levels])) for levels in order]

    def covers(self, other: Clearance) -> bool:
        """Whether the levels and projects of the other clearance are all readable with this one."""
        if other.projects is None:
            return self.projects is None and other.levels <= self.levels
        return all(
            self.includes_project(project) and other.levels_in(project) <= self.levels_in(project)
            for project in other.projects
        )

    def within(self, other: Clearance) -> Clearance:
        """Return what both clearances may read, with the owner of this one."""
        if other.projects is None and not self.grants:
            return replace(self, levels=self.levels & other.levels)
        candidates = self.projects if other.projects is None else other.projects
        projects = frozenset(project for project in candidates or () if self.includes_project(project))
        grants = tuple((one, self.levels_in(one) & other.levels_in(one)) for one in sorted(projects))
        return replace(self, levels=self.levels & other.levels, projects=projects, grants=grants)


AGENT_PREFIX = "token:"  # of the names of actors that are agents


@dataclass(frozen=True)
class Actor:
    """The caller of a change: the name for the journal, and the largest clearance.

    ``may_delete``: False for a person without permission to delete memories, whose writes evict nothing.
    """

    name: str
    clearance: Clearance = Clearance()
    may_delete: bool = True

    @property
    def owner(self) -> str:
        return self.clearance.owner


# Every known level, project and owner.
EVERYTHING = Clearance(frozenset(LEVELS), every_owner=True)


def system_actor(name: str) -> Actor:
    """Return the actor of a command or scheduled run, who sees everything."""
    return Actor(f"system:{name}", EVERYTHING)


UNREDACTED_LEVELS = (Sensitivity.PUBLIC.value, Sensitivity.PRIVATE.value)
_ID_CHARS = 6  # characters of the id
REDACTED_NOTICE = "Secret. Opening it shows the text and is recorded in the journal."


def is_redacted(level: str) -> bool:
    """Whether memories of this level are shown only on their own page. True for unknown levels."""
    return level not in UNREDACTED_LEVELS


def display_name(memory: Any) -> str:
    """Return the name of a memory on pages other than its own: its title, or else its id."""
    return format_display_name(memory.title, memory.uid, memory.sensitivity)


def format_display_name(title: str, uid: str, level: str) -> str:
    """Return the display name of a row that is not a model: ``Secret memory 1a2b3c`` for a redacted one."""
    return f"Secret memory {uid[-_ID_CHARS:]}" if is_redacted(level) else title or uid
