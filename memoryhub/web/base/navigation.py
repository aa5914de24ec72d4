"""The places of the hub: the sections of the sidebar, and the pages that the command palette offers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from memoryhub.accounts.clearance import (
    SWITCHABLE_LEVELS,
    full_clearance,
    is_level_shown,
    may_manage_people,
    may_view_level,
)

VIEW_RUN, ADD_RUN = "memoryhub.view_maintenancerun", "memoryhub.add_maintenancerun"


def _everyone(user: Any) -> bool:
    return True


def may_review(user: Any) -> bool:
    return any(user.has_perm(f"memoryhub.change_{model}") for model in ("memory", "fact"))


@dataclass(frozen=True)
class Place:
    """A page. ``also``: more words that find it in the palette. ``below``: other pages that belong to it."""

    page: str
    text: str
    also: str = ""
    below: tuple[str, ...] = ()
    is_open_to: Callable[[Any], bool] = _everyone

    @property
    def href(self) -> str:
        return reverse(self.page)

    def matched_length(self, path: str) -> int:
        """Return how much of a path is the address of this place; 0 if none of it is."""
        addresses = [self.href, *map(reverse, self.below)]
        return max(
            (len(one) for one in addresses if path == one or (one != "/" and path.startswith(one))), default=0
        )


@dataclass(frozen=True)
class Section:
    """An entry of the sidebar. Its first place is its own page; more than one place are listed below it."""

    name: str
    text: str
    icon: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class NavigationLink:
    """A link of the sidebar. ``current``: "page" on that page, "true" on pages below it, else empty."""

    name: str
    text: str
    href: str
    current: str = ""
    icon: str = ""
    links: list[NavigationLink] = field(default_factory=list)


def can_view_runs(user: Any) -> bool:
    return bool(user.has_perm(VIEW_RUN) or user.has_perm(ADD_RUN))


SECTIONS = (
    Section("home", "Home", "home", (Place("home", "Home", "start overview statistics", ("glance",)),)),
    Section(
        "memories",
        "Memories",
        "memories",
        (
            Place("memories", "Memories", "list browse search find", ("searches",)),
            Place("duplicates", "Duplicates", "merge alike near"),
            Place("trash", "Trash", "deleted expired restore undo"),
        ),
    ),
    Section(
        "review",
        "Review",
        "check",
        (Place("review", "Review", "queue new flagged low confidence approve curate", (), may_review),),
    ),
    Section(
        "sessions",
        "Sessions",
        "session",
        (
            Place("sessions", "Sessions", "agents conversations"),
            Place("timeline", "Timeline", "days months calendar"),
            Place("injections", "Injections", "what the agents knew and why"),
        ),
    ),
    Section(
        "knowledge",
        "Knowledge",
        "fact",
        (
            Place("facts", "Facts", "table subjects predicates objects knowledge", ("thing",)),
            Place("facts-graph", "Graph", "facts nodes edges picture knowledge"),
        ),
    ),
    Section(
        "activity",
        "Activity",
        "history",
        (
            Place("journal", "Journal", "changes audit who when activity"),
            Place("runs", "Runs", "maintenance operations activity", (), can_view_runs),
        ),
    ),
    Section(
        "settings",
        "Settings",
        "tools",
        (
            Place("connect", "Agents and tokens", "connect hooks mcp claude code", ("agents",)),
            Place("people", "People", "accounts roles members invite", (), may_manage_people),
            Place("transfer", "Import and export", "files backup move"),
            Place("maintenance", "Maintenance", "consolidation compression upkeep", (), can_view_runs),
            Place("preview", "Recall test", "prompt preview agent shown checks effect", ("memory-checks",)),
            Place("language-model", "Language model", "llm budget settings", (), can_view_runs),
            Place("digests", "Notifications", "digest e-mail mail webhook slack daily weekly"),
            Place("you", "Profile", "you own password theme time zone settings signed in"),
        ),
    ),
)


def navigation_links(user: Any, path: str) -> list[NavigationLink]:
    """Return the links that the user may open; those below a section only for the current one."""
    open_places = [[place for place in section.places if place.is_open_to(user)] for section in SECTIONS]
    current = max(
        (place for places in open_places for place in places), key=lambda one: one.matched_length(path)
    )
    links = []
    for section, places in zip(SECTIONS, open_places, strict=True):
        if not places:
            continue
        is_here = current in places and current.matched_length(path) > 0
        below = [place for place in places if place.text != section.text] if is_here else []
        own_mark = _mark(places[0], path) if current == places[0] else "true"
        shown = [
            NavigationLink(one.page, one.text, one.href, _mark(one, path) if one == current else "")
            for one in below
        ]
        if places[0] in below and is_here:  # its own link is listed below it
            own_mark = "true"
        links.append(
            NavigationLink(
                section.name, section.text, places[0].href, own_mark if is_here else "", section.icon, shown
            )
        )
    return links


def _mark(place: Place, path: str) -> str:
    return "page" if path == place.href else "true"


def switches(request: HttpRequest) -> dict[str, object]:
    """Return the switches this person may use, whether each is on, and the names of those that are."""
    # A request refused before authentication (a bad host) has no user.
    if not hasattr(request, "user") or not request.user.is_authenticated:
        return {"switches": []}
    mine = [level for level in SWITCHABLE_LEVELS if may_view_level(request.user, level)]
    shown = [level for level in mine if is_level_shown(request, level)]
    return {
        "switches": [{"level": level, "on": level in shown} for level in mine],
        "levels_shown": " and ".join(shown),
    }


def person_preferences(request: HttpRequest) -> dict[str, object]:
    """Return the theme, language and time zone that the person chose, and some of their rights.

    ``sees_every_row``: pages may show numbers that count all rows, such as those of journal rows.
    """
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"may_manage_people": False}
    profile = getattr(user, "profile", None)
    chosen = {name: getattr(profile, name, "") for name in ("theme", "language", "time_zone")}
    return {
        **chosen,
        "may_manage_people": SimpleLazyObject(lambda: may_manage_people(user)),
        "sees_every_row": SimpleLazyObject(lambda: full_clearance(request).is_whole),
    }
