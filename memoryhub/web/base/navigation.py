"""The pages of the hub: the sections of the sidebar with the review badge, and the pages of the palette."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import (
    SWITCHABLE_LEVELS,
    full_clearance,
    is_level_shown,
    may_manage_people,
    may_view_level,
    request_actor,
    request_clearance,
)
from memoryhub.accounts.permissions import ADD_RUN, CHANGE_FACT, CHANGE_MEMORY, VIEW_RUN
from memoryhub.facts import contradictions
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet, live_memories
from memoryhub.stats.counts import ALL_REASONS, Reviewer, count_waiting
from memoryhub.web.base.requests import cached_until_change

CONTRADICTIONS = "contradictions"  # a list of the review queue
WAITING = "waiting"  # another one: memories that wait for approval, hidden from everyone else
DEFAULT_NEW_DAYS = 14  # for a reviewer who has never opened the queue
MAX_BADGE = 99  # larger counts show as "99+"


def may_review(user: Any) -> bool:
    return any(map(user.has_perm, (CHANGE_MEMORY, CHANGE_FACT)))


@dataclass(frozen=True)
class Page:
    """A page. ``also``: more words that find it in the palette. ``below``: other pages that belong to it.

    ``of_each``: pages below it whose address ends with a name.
    """

    url_name: str
    text: str
    also: str = ""
    below: tuple[str, ...] = ()
    is_open_to: Callable[[Any], bool] = lambda user: True
    of_each: tuple[str, ...] = ()

    @property
    def href(self) -> str:
        return reverse(self.url_name)

    def matched_length(self, path: str) -> int:
        """Return how much of a path is the address of this page; 0 if none of it is."""
        return max(
            (len(one) for one in self._addresses if path == one or (one != "/" and path.startswith(one))),
            default=0,
        )

    @cached_property
    def _addresses(self) -> list[str]:
        of_each = (reverse(one, args=["-"]).removesuffix("-/") for one in self.of_each)
        return [self.href, *map(reverse, self.below), *of_each]


@dataclass(frozen=True)
class Section:
    """An entry of the sidebar, which opens its first page. If there are more, all are listed below it."""

    name: str
    text: str
    icon: str
    pages: tuple[Page, ...]


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
    Section(
        "home",
        "Home",
        "home",
        (
            Page(
                "home",
                "Home",
                "start overview statistics",
                ("glance",),
                of_each=("project-page", "project-settings"),
            ),
        ),
    ),
    Section(
        "memories",
        "Memories",
        "memories",
        (
            Page("memories", "Memories", "list browse search find", ("searches",)),
            Page("duplicates", "Duplicates", "merge alike near"),
            Page("trash", "Trash", "deleted expired restore undo"),
        ),
    ),
    Section(
        "review",
        "Review",
        "check",
        (Page("review", "Review", "queue new flagged low confidence approve curate", (), may_review),),
    ),
    Section(
        "sessions",
        "Sessions",
        "session",
        (
            Page("sessions", "Sessions", "agents conversations"),
            Page("timeline", "Timeline", "days months calendar"),
            Page("injections", "Injections", "what the agents knew and why"),
        ),
    ),
    Section(
        "knowledge",
        "Knowledge",
        "fact",
        (
            Page("facts", "Facts", "table subjects predicates objects knowledge", ("thing",)),
            Page("facts-graph", "Graph", "facts nodes edges picture knowledge"),
        ),
    ),
    Section(
        "activity",
        "Activity",
        "history",
        (
            Page("journal", "Journal", "changes audit who when activity"),
            Page("runs", "Runs", "maintenance operations activity", (), can_view_runs),
        ),
    ),
    Section(
        "settings",
        "Settings",
        "tools",
        (
            Page("agents", "Agents and tokens", "list last seen errors", ("connect",)),
            Page("people", "People", "accounts roles members invite", (), may_manage_people),
            Page("transfer", "Import and export", "files backup move"),
            Page("maintenance", "Maintenance", "consolidation compression upkeep", (), can_view_runs),
            Page("preview", "Recall test", "prompt preview agent shown checks effect", ("memory-checks",)),
            Page("language-model", "Language model", "llm budget settings", (), can_view_runs),
            Page("digests", "Notifications", "digest e-mail mail webhook slack daily weekly"),
            Page("you", "Profile", "you own password theme time zone settings signed in"),
        ),
    ),
)


def navigation_links(user: Any, path: str) -> list[NavigationLink]:
    """Return the links that the user may open; those below a section only for the current one."""
    open_pages = [[page for page in section.pages if page.is_open_to(user)] for section in SECTIONS]
    current = max((page for pages in open_pages for page in pages), key=lambda one: one.matched_length(path))
    links = []
    for section, pages in zip(SECTIONS, open_pages, strict=True):
        if not pages:
            continue
        is_here = current in pages and current.matched_length(path) > 0
        below = [page for page in pages if page.text != section.text] if is_here else []
        is_listed_below = pages[0] in below
        own_mark = _mark(pages[0], path) if current == pages[0] and not is_listed_below else "true"
        shown = [
            NavigationLink(one.url_name, one.text, one.href, _mark(one, path) if one == current else "")
            for one in below
        ]
        links.append(
            NavigationLink(
                section.name, section.text, pages[0].href, own_mark if is_here else "", section.icon, shown
            )
        )
    return links


def _mark(page: Page, path: str) -> str:
    return "page" if path == page.href else "true"


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


def current_reviewer(request: HttpRequest) -> Reviewer:
    """Return the reviewer of a request."""
    return Reviewer(request_actor(request).name, new_since(last_reviewed_at(request), timezone.now()))


def last_reviewed_at(request: HttpRequest) -> datetime | None:
    """Return when the person last marked the new memories as seen; None for never."""
    profile = getattr(request.user, "profile", None)
    return profile.looked_at if profile is not None else None


def new_since(looked_at: datetime | None, now: datetime) -> datetime:
    """Return since when memories are new. The default is a whole hour, so that counts can be cached."""
    return looked_at or now.replace(minute=0, second=0, microsecond=0) - timedelta(days=DEFAULT_NEW_DAYS)


def count_contradictions(request: HttpRequest, project: str = "") -> int:
    """Count the open contradictions of facts."""
    clearance = request_clearance(request)
    return cached_until_change(
        request,
        "contradictions",
        clearance,
        lambda: len(contradictions.find_contradictions(clearance, project=project).open),
        project,
    )


def waiting_memories(clearance: Clearance, project: str = "") -> MemoryQuerySet:
    """Return the memories that wait for approval, the oldest first."""
    waiting = Memory.objects.waiting(clearance).live().order_by("pk")
    return waiting.filter(project=project) if project else waiting


def badge_text(request: HttpRequest) -> str:
    """Return the number of memories and contradictions to review, for the badge; empty for none."""
    counts: dict[str, int] | None = getattr(request, "review_counted", None)
    if counts is None:
        total = _count_waiting(request)
    else:
        total = counts[ALL_REASONS] + counts[CONTRADICTIONS] + counts[WAITING]
    return f"{MAX_BADGE}+" if total > MAX_BADGE else str(total or "")


def _count_waiting(request: HttpRequest) -> int:
    clearance, reader = request_clearance(request), current_reviewer(request)
    # Counting stops at one more than the badge shows.
    found = cached_until_change(
        request,
        "review",
        clearance,
        lambda: count_waiting(live_memories(clearance), reader, MAX_BADGE + 1, waiting_memories(clearance)),
        reader,
    )
    return found + count_contradictions(request)
