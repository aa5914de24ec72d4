"""The command palette: commands, pages, projects, sessions, entities and memories that match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from memoryhub.access import policy
from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.accounts.permissions import ADD_MEMORY
from memoryhub.capture.segments import BOUNDARY_PREDICATE as BOUNDARY
from memoryhub.core.text import collapse_whitespace, fold, format_count
from memoryhub.models import Fact, Session
from memoryhub.models.querysets import MemoryQuerySet, live_memories
from memoryhub.stats.counts import count_values
from memoryhub.web.base.labels import make_title, session_url, title_columns
from memoryhub.web.base.navigation import SECTIONS, Page
from memoryhub.web.base.requests import page_url
from memoryhub.web.facts.views import thing_url
from memoryhub.web.saved_searches import list_saved_searches, to_list_address


@dataclass(frozen=True)
class Command:
    """A click on the element that the CSS selector ``does`` finds; offered only on pages that have it."""

    text: str
    does: str
    also: str = ""


COMMANDS = (
    Command("Switch between light and dark", "#theme-button", "theme mode"),
    Command("Print this report", "[data-print]", "paper pdf session"),
    Command("Edit this memory", "[data-edit-this]", "change"),
    Command("Move this memory to the trash", '.page-head form[action$="/trash/"] button', "delete throw"),
    Command("Copy as Markdown", '[data-copy-text="Markdown"]', "clipboard memory"),
    Command("Copy as JSON", '[data-copy-text="JSON"]', "clipboard memory"),
    Command("Copy the link", "[data-copy-self]", "address clipboard"),
    Command("Sign out", 'form[action="/logout/"] button', "log out leave"),
)


MAX_CHARS = 100
MAX_PROJECTS = 5
MAX_SAVED = 5
MAX_MEMORIES = 8
MAX_SESSIONS = 5
MAX_THINGS = 5


@dataclass(frozen=True)
class PaletteItem:
    """An entry with its address, a ``note`` and its sensitivity ``level``.

    A command has the CSS selector ``does`` instead of an address.
    """

    text: str
    href: str
    note: str = ""
    level: str = "public"
    does: str = ""


@dataclass(frozen=True)
class PaletteGroup:
    name: str
    entries: list[PaletteItem]


# Pages that the sidebar does not list.
_MORE_PAGES = (
    Page("glance", "Statistics", "at a glance charts health report"),
    Page("connect", "Connect an agent", "hooks mcp claude code token"),
    Page("searches", "Saved searches", "own lists filters bookmarks"),
    Page("memory-new", "New memory", "add write store", (), lambda user: user.has_perm(ADD_MEMORY)),
    Page("fact-conflicts", "Contradictions", "conflicting facts supersede"),
)


def find_groups(user: Any, clearance: Clearance, typed: str) -> list[PaletteGroup]:
    """Return the matching entries without empty groups; without a query, pages and the largest projects."""
    live = live_memories(clearance)
    found = [
        PaletteGroup("Saved searches", _saved_searches(user, typed)),
        PaletteGroup("Pages", _pages(user, typed)),
        PaletteGroup("Projects", _projects(live, typed)),
    ]
    if typed:
        search_url = page_url("memories", q=typed)
        found.insert(0, PaletteGroup("Commands", _commands(typed)))
        found += [
            PaletteGroup("Sessions", _sessions(clearance, typed)),
            PaletteGroup("Things", _things(clearance, typed)),
            PaletteGroup("Memories", _memories(live, typed)),
            PaletteGroup("Search", [PaletteItem(f"Search all memories for “{typed}”", search_url)]),
        ]
    return [group for group in found if group.entries]


def _pages(user: Any, typed: str) -> list[PaletteItem]:
    """Return the pages that the user may open and that match the query."""
    listed = [page for section in SECTIONS for page in section.pages] + list(_MORE_PAGES)
    entries = [
        (f"{one.text} {one.also}", PaletteItem(one.text, one.href)) for one in listed if one.is_open_to(user)
    ]
    if user.is_staff:
        entries.append(("Curation admin", PaletteItem("Admin", reverse("admin:index"))))
    return [entry for words, entry in entries if _matches_prefixes(words, typed)]


def _commands(typed: str) -> list[PaletteItem]:
    found = [command for command in COMMANDS if _matches_prefixes(f"{command.text} {command.also}", typed)]
    return [PaletteItem(command.text, "#", does=command.does) for command in found]


def _sessions(clearance: Clearance, typed: str) -> list[PaletteItem]:
    """Return the sessions whose id or title contains the query, most recently active first."""
    rows = Session.objects.visible_to(clearance).annotate(**title_columns(clearance))
    rows = rows.filter(Q(session_id__icontains=typed) | Q(summary_title__icontains=typed))
    return [
        PaletteItem(
            make_title(session) or session.session_id,
            session_url(session.session_id, session.project),
            session.project,
        )
        for session in rows.order_by("-last_at", "-pk")[:MAX_SESSIONS]
    ]


def _things(clearance: Clearance, typed: str) -> list[PaletteItem]:
    """Return the subjects and objects of facts that contain the query, shortest first."""
    facts = Fact.objects.visible_to(clearance).exclude(predicate=BOUNDARY)
    names = {name for column in ("subject", "object") for name in _matching_names(facts, column, typed)}
    by_address = {thing_url(name): name for name in sorted(names, reverse=True)}
    fitting = sorted(by_address.items(), key=lambda item: (len(item[1]), item[1]))[:MAX_THINGS]
    return [PaletteItem(name, address) for address, name in fitting]


def _matching_names(facts: QuerySet[Fact], column: str, typed: str) -> list[str]:
    fitting = facts.filter(**{f"{column}__icontains": typed}).order_by(Length(column), column)
    return list(fitting.values_list(column, flat=True).distinct()[: 4 * MAX_THINGS])


def _saved_searches(user: Any, typed: str) -> list[PaletteItem]:
    fitting = [search for search in list_saved_searches(user) if _matches_prefixes(search.name, typed)]
    found = [(search, to_list_address(search.page, search.query)) for search in fitting[:MAX_SAVED]]
    return [PaletteItem(search.name, place.href, place.title) for search, place in found if place]


def _matches_prefixes(text: str, typed: str) -> bool:
    """Return whether each typed word is the beginning of a word of the text."""
    words = fold(text).split()
    return all(any(word.startswith(prefix) for word in words) for prefix in fold(typed).split())


def _projects(live: MemoryQuerySet, typed: str) -> list[PaletteItem]:
    """Return the projects that contain the query, those with the most memories first."""
    named = live.exclude(project="")
    found = count_values(named.filter(project__icontains=typed) if typed else named, "project", MAX_PROJECTS)
    return [
        PaletteItem(name, page_url("memories", project=name), format_count(count, "memory"))
        for name, count in found.items()
    ]


def _memories(live: MemoryQuerySet, typed: str) -> list[PaletteItem]:
    """Return the memories whose title has words with these prefixes, then those that contain the query."""
    bare = live.defer("content", "overview", "abstract", "subtitle")
    found = list(bare.titled_like(typed)[:MAX_MEMORIES])
    if room := MAX_MEMORIES - len(found):
        found += bare.titled_with(typed).exclude(pk__in=[memory.pk for memory in found])[:room]
    return [
        PaletteItem(
            policy.display_name(memory),
            reverse("memory", args=[memory.uid]),
            memory.project,
            memory.sensitivity,
        )
        for memory in found
    ]


@require_safe
def palette(request: HttpRequest) -> HttpResponse:
    """Return the entries that match ``q`` as grouped listbox options."""
    typed = collapse_whitespace(request.GET.get("q", "").replace("\x00", " "))[:MAX_CHARS].strip()
    found = find_groups(request.user, request_clearance(request), typed)
    return render(request, "palette/found.html", {"groups": found})
