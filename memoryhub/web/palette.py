"""The command palette: commands, pages, projects, sessions, entities and memories that match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from memoryhub.access import redaction
from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import clearance_of
from memoryhub.accounts.people import may_manage
from memoryhub.accounts.saved_searches import saved_by
from memoryhub.capture.segments import PREDICATE as BOUNDARY
from memoryhub.core.text import collapse, fold
from memoryhub.models import Fact, Memory, Session
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats.counts import counts
from memoryhub.web.saved_searches.presenters import saved_place
from memoryhub.web.templatetags.pages import session_url, thing_url


@dataclass(frozen=True)
class Command:
    """``does``: a CSS selector of what is clicked; a page that has none does not offer the command."""

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


MOST_CHARS = 100
MOST_PROJECTS = 5
MOST_SAVED = 5
MOST_MEMORIES = 8
MOST_SESSIONS = 5
MOST_THINGS = 5
_RUNS = ("memoryhub.view_maintenancerun", "memoryhub.add_maintenancerun")


@dataclass(frozen=True)
class Place:
    """Somewhere to go. ``note`` says more about it, ``level`` how far it may travel.

    ``does``: of a command, the CSS selector of what it clicks; it goes nowhere itself.
    """

    text: str
    href: str
    note: str = ""
    level: str = "public"
    does: str = ""


@dataclass(frozen=True)
class Group:
    name: str
    places: list[Place]


@dataclass(frozen=True)
class _Page:
    """``also``: words by which it is found too. ``needs``: permissions, one of which opens it."""

    name: str
    text: str
    also: str = ""
    needs: tuple[str, ...] = ()


_PAGES = (
    _Page("home", "Home", "start overview statistics"),
    _Page("glance", "At a glance", "charts health report statistics"),
    _Page("search", "Search", "find"),
    _Page("searches", "Saved searches", "own lists filters bookmarks"),
    _Page("memories", "Memories", "list browse"),
    _Page("memory-new", "New memory", "add write store", ("memoryhub.add_memory",)),
    _Page("review", "Review", "queue new flagged low confidence approve curate"),
    _Page("duplicates", "Duplicates", "merge alike near"),
    _Page("preview", "Recall", "prompt preview what an agent is told"),
    _Page("sessions", "Sessions", "agents conversations"),
    _Page("injections", "Injections", "what the agents knew and why"),
    _Page("timeline", "Timeline", "days months calendar"),
    _Page("facts", "Facts", "subjects predicates objects table"),
    _Page("facts-graph", "Graph of facts", "nodes edges picture"),
    _Page("fact-conflicts", "Contradictions", "conflicting facts supersede"),
    _Page("journal", "Journal", "changes audit who when"),
    _Page("trash", "Trash", "deleted expired restore undo"),
    _Page("maintenance", "Maintenance", "consolidation compression upkeep", _RUNS),
    _Page("connect", "Connect an agent", "tokens hooks mcp claude code"),
    _Page("transfer", "Import and export", "files backup move"),
    _Page("you", "You", "own tokens password theme time zone settings signed in"),
)


def groups(user: Any, clearance: Clearance, typed: str) -> list[Group]:
    """What fits, without empty groups; for nothing typed the pages and the largest projects."""
    live = Memory.objects.visible_to(clearance).live()
    found = [
        Group("Saved searches", _saved(user, typed)),
        Group("Pages", _pages(user, typed)),
        Group("Projects", _projects(live, typed)),
    ]
    if typed:
        found.insert(0, Group("Commands", _commands(typed)))
        found += [
            Group("Sessions", _sessions(clearance, typed)),
            Group("Things of facts", _things(clearance, typed)),
            Group("Memories", _memories(live, typed)),
            Group("Search", [_search(typed)]),
        ]
    return [group for group in found if group.places]


def _pages(user: Any, typed: str) -> list[Place]:
    """Those that this person may open and whose name or other words have words that begin like these."""
    shown = [page for page in _PAGES if not page.needs or any(map(user.has_perm, page.needs))]
    places = [(f"{page.text} {page.also}", Place(page.text, reverse(page.name))) for page in shown]
    if may_manage(user):
        places.append(("People rights roles accounts members", Place("People", reverse("people"))))
    if user.is_staff:
        places.append(("Curation admin", Place("Curation (admin)", reverse("admin:index"))))
    return [place for words, place in places if _begin_alike(words, typed)]


def _commands(typed: str) -> list[Place]:
    fitting = [one for one in COMMANDS if _begin_alike(f"{one.text} {one.also}", typed)]
    return [Place(one.text, "#", does=one.does) for one in fitting]


def _sessions(clearance: Clearance, typed: str) -> list[Place]:
    """By a part of their id, those active last first."""
    rows = Session.objects.visible_to(clearance).filter(session_id__icontains=typed)
    return [
        Place(one.session_id, session_url(one.session_id, one.project), one.project)
        for one in rows.order_by("-last_at", "-pk")[:MOST_SESSIONS]
    ]


def _things(clearance: Clearance, typed: str) -> list[Place]:
    """Subjects and objects of facts by a part of their name, the shortest first: they fit best."""
    facts = Fact.objects.visible_to(clearance).exclude(predicate=BOUNDARY)
    names = {name for column in ("subject", "object") for name in _named(facts, column, typed)}
    by_address = {thing_url(name): name for name in sorted(names, reverse=True)}
    fitting = sorted(by_address.items(), key=lambda one: (len(one[1]), one[1]))[:MOST_THINGS]
    return [Place(name, address) for address, name in fitting]


def _named(facts: QuerySet[Fact], column: str, typed: str) -> list[str]:
    fitting = facts.filter(**{f"{column}__icontains": typed}).order_by(Length(column), column)
    return list(fitting.values_list(column, flat=True).distinct()[: 4 * MOST_THINGS])


def _saved(user: Any, typed: str) -> list[Place]:
    """One's own, by words of their names that begin like these."""
    fitting = [search for search in saved_by(user) if _begin_alike(search.name, typed)]
    places = [(search, saved_place(search)) for search in fitting[:MOST_SAVED]]
    return [Place(search.name, place.href, place.title) for search, place in places if place]


def _begin_alike(words: str, typed: str) -> bool:
    there = fold(words).split()
    return all(any(word.startswith(one) for word in there) for one in fold(typed).split())


def _projects(live: MemoryQuerySet, typed: str) -> list[Place]:
    """Those with most memories first."""
    named = live.exclude(project="")
    found = counts(named.filter(project__icontains=typed) if typed else named, "project", MOST_PROJECTS)
    at = reverse("memories")
    return [
        Place(name, f"{at}?{urlencode({'project': name})}", f"{count:,} memor{'y' if count == 1 else 'ies'}")
        for name, count in found.items()
    ]


def _memories(live: MemoryQuerySet, typed: str) -> list[Place]:
    """By words that begin like these, then by a part of the title; the newest first."""
    bare = live.defer("content", "overview", "abstract", "subtitle")
    found = list(bare.titled_like(typed)[:MOST_MEMORIES])
    if room := MOST_MEMORIES - len(found):
        found += bare.titled_with(typed).exclude(pk__in=[memory.pk for memory in found])[:room]
    return [
        Place(
            redaction.name_of(memory),
            reverse("memory", args=[memory.uid]),
            memory.project,
            memory.sensitivity,
        )
        for memory in found
    ]


def _search(typed: str) -> Place:
    return Place(f"Search all memories for “{typed}”", f"{reverse('search')}?{urlencode({'q': typed})}")


@require_safe
def palette(request: HttpRequest) -> HttpResponse:
    """``q``: what was typed; the options of a listbox, in groups."""
    typed = collapse(request.GET.get("q", "").replace("\x00", " "))[:MOST_CHARS].strip()
    found = groups(request.user, clearance_of(request), typed)
    return render(request, "palette/found.html", {"groups": found})
