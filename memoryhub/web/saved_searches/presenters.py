"""Saved searches as pages show them: which lists can be saved, their addresses, what they look for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.forms import BooleanField
from django.http import HttpRequest, QueryDict
from django.urls import Resolver404, resolve, reverse
from django.utils.http import urlencode

from memoryhub.core.text import shorten
from memoryhub.models import SavedSearch
from memoryhub.web.base.filters import (
    FactFilter,
    InjectionFilter,
    JournalFilter,
    ListFilter,
    MonthFilter,
    SessionFilter,
    TimelineFilter,
)
from memoryhub.web.duplicates.presenters import DuplicatesFilter
from memoryhub.web.facts.filters import ConflictFilter, GraphFilter
from memoryhub.web.memories.list_forms import BrowseFilter, SearchFilter

# The lists that can be saved, by the name of their address, in the order of the navigation.
PAGES = {
    "search": "Search",
    "memories": "Memories",
    "duplicates": "Duplicates",
    "sessions": "Sessions",
    "injections": "Injections",
    "timeline": "Timeline, by day",
    "timeline-entries": "Timeline, entry by entry",
    "facts": "Facts",
    "facts-graph": "Graph of facts",
    "fact-conflicts": "Contradictions",
    "journal": "Journal",
    "trash": "Trash",
}
_FORMS: dict[str, type[ListFilter]] = {
    "search": SearchFilter,
    "memories": BrowseFilter,
    "duplicates": DuplicatesFilter,
    "sessions": SessionFilter,
    "injections": InjectionFilter,
    "timeline": MonthFilter,
    "timeline-entries": TimelineFilter,
    "facts": FactFilter,
    "facts-graph": GraphFilter,
    "fact-conflicts": ConflictFilter,
    "journal": JournalFilter,
    "trash": ListFilter,
}
# Where one was in a list is no part of the search.
_PLACES = {"page", "cursor", "before"}
_PLAIN = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*")
_TOLD = 160  # characters of what a search looks for


@dataclass(frozen=True)
class Place:
    """A list and what it is narrowed to: ``page`` is a key of :data:`PAGES`."""

    page: str
    query: str

    @property
    def href(self) -> str:
        address = reverse(self.page)
        return f"{address}?{self.query}" if self.query else address

    @property
    def title(self) -> str:
        return PAGES[self.page]

    @property
    def told(self) -> str:
        """What is looked for, in the words of the list's own form."""
        given = {name: str(value) for name, value in QueryDict(self.query).items() if value}
        form = _FORMS[self.page](given)
        words = [_in_words(form, name, value) for name, value in given.items()]
        return shorten(" · ".join(words), _TOLD) if words else "everything"

    @property
    def save_href(self) -> str:
        """The page that asks for a name."""
        return f"{reverse('searches')}?{urlencode({'page': self.page, 'query': self.query})}"


def _in_words(form: ListFilter, name: str, value: str) -> str:
    if name == "q":
        return value
    if name not in form.fields:
        return f"{name.replace('_', ' ')} {value}"
    label = str(form[name].label).lower()
    return label if isinstance(form.fields[name], BooleanField) else f"{label}: {form.told(name)}"


def place(page: str, query: str) -> Place | None:
    """A place to be saved; ``None`` for a page that is none of the lists."""
    return Place(page, placeless(query)) if page in PAGES else None


def place_of(request: HttpRequest) -> Place | None:
    """The page that is being shown."""
    match = request.resolver_match
    return place(str(match.url_name), request.META.get("QUERY_STRING", "")) if match else None


def place_at(address: str) -> Place | None:
    """The page at an address of this hub; its host is not looked at, a link never leads there."""
    try:
        parts = urlsplit(address)
        match = resolve(parts.path)
    except (ValueError, Resolver404):
        return None
    return None if match.namespaces else place(str(match.url_name), parts.query)


def saved_place(search: SavedSearch) -> Place | None:
    """Where a saved search leads; ``None`` when its list is not there any more."""
    return place(search.page, search.query)


def placeless(query: str) -> str:
    """A query string as it is, but for the place in the list; what cannot stand in an address is encoded."""
    parts = [part for part in query.lstrip("?").split("&") if part]
    whole = "&".join(part for part in parts if part.partition("=")[0] not in _PLACES)
    return whole if _PLAIN.fullmatch(whole) else QueryDict(whole).urlencode()
