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


def level_rank(level: str) -> int:
    """0 for public to 2 for secret; ValueError for a level that is not known."""
    return LEVELS.index(level)


def stricter_level(one: str, other: str) -> str:
    """The stricter of two levels; one that is not known is the strictest."""
    return max(one, other, key=lambda level: level_rank(level) if level in LEVELS else len(LEVELS))


@dataclass(frozen=True)
class Clearance:
    """What one request may see.

    ``levels``: the sensitivities it reads; one that is not known is dropped, so nothing can open it.
    ``owner``: whose personal memories it reads (empty: nobody's). ``projects``: the projects it is confined
    to; ``None`` for all of them. ``every_owner``: everyone's personal memories, for the hub's own upkeep.
    ``grants``: (project, levels) for those of ``projects`` where other levels are read than ``levels``; they
    stand in the place of these there, be they more or fewer. One for a project outside is dropped.
    ``every_token``: what the journal tells of everyone's agent tokens, beside the owner's own.
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
            raise ValueError("levels of a project are for who is confined to projects")
        known = {project: levels.intersection(LEVELS) for project, levels in self.grants}
        kept = [(project, known[project]) for project in sorted(known) if project in self.projects]
        # One that says the same as ``levels`` says nothing.
        object.__setattr__(self, "grants", tuple(one for one in kept if one[1] != self.levels))

    @classmethod
    def up_to(cls, level: str, owner: str = "", projects: Iterable[str] | None = None) -> Clearance:
        """Everything up to ``level``; an unknown level clears nothing at all."""
        levels = frozenset(LEVELS[: level_rank(level) + 1]) if level in LEVELS else frozenset()
        return cls(levels, owner, None if projects is None else frozenset(projects))

    def asking(self, *, private: bool = False, secret: bool = False) -> Clearance:
        """What is left when the request asks for no more than these levels beside public."""
        asked = {Sensitivity.PUBLIC.value}
        if private:
            asked.add(Sensitivity.PRIVATE.value)
        if secret:
            asked.add(Sensitivity.SECRET.value)
        grants = tuple((project, levels & asked) for project, levels in self.grants)
        return replace(self, levels=self.levels & asked, grants=grants)

    @property
    def is_whole(self) -> bool:
        """Whether every level of every project is visible."""
        return self.projects is None and self.levels == frozenset(LEVELS)

    def reaches(self, project: str) -> bool:
        """Whether the confinement leaves ``project`` open."""
        return self.projects is None or project in self.projects

    def levels_in(self, project: str) -> frozenset[str]:
        """The levels that are read in a project; none in one that is out of reach."""
        return dict(self.grants).get(project, self.levels) if self.reaches(project) else frozenset()

    def opens(self, project: str, level: str) -> bool:
        """Whether what is of this level and project may be seen, but for whose it is."""
        return level in self.levels_in(project)

    def somewhere(self) -> frozenset[str]:
        """The levels that are read in one project at least."""
        return frozenset().union(*(levels for levels, _ in self.parts()))

    def parts(self) -> list[tuple[frozenset[str], frozenset[str] | None]]:
        """Levels, and the projects where just these are read (``None``: all of them); at least one part."""
        if not self.grants or self.projects is None:
            return [(self.levels, self.projects)]
        shares: dict[frozenset[str], set[str]] = {}
        for project in self.projects:
            shares.setdefault(self.levels_in(project), set()).add(project)
        order = sorted(shares, key=sorted)
        return [(levels, frozenset(shares[levels])) for levels in order]

    def covers(self, other: Clearance) -> bool:
        """Whether all levels that another reads, in all projects where it does, are read here too."""
        if other.projects is None:
            return self.projects is None and other.levels <= self.levels
        return all(
            self.reaches(project) and other.levels_in(project) <= self.levels_in(project)
            for project in other.projects
        )

    def within(self, other: Clearance) -> Clearance:
        """What both of them read; whose personal memories stays as it is here."""
        if other.projects is None and not self.grants:
            return replace(self, levels=self.levels & other.levels)
        wide = self.projects if other.projects is None else other.projects
        projects = frozenset(project for project in wide or () if self.reaches(project))
        grants = tuple((one, self.levels_in(one) & other.levels_in(one)) for one in sorted(projects))
        return replace(self, levels=self.levels & other.levels, projects=projects, grants=grants)


@dataclass(frozen=True)
class Actor:
    """Who does something: the name the journal keeps, and what they may see at most.

    ``may_delete``: false for a person without permission to delete memories. Their writes evict nothing.
    """

    name: str
    clearance: Clearance = Clearance()
    may_delete: bool = True

    @property
    def owner(self) -> str:
        return self.clearance.owner


def system_actor(name: str) -> Actor:
    """The hub itself at work (a command, a scheduled run): every known level of every project and owner."""
    return Actor(f"system:{name}", Clearance(frozenset(LEVELS), every_owner=True))
