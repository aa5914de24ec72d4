"""Saved searches: the lists that can be saved, their page, and the menu on other pages."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest, TooManyFieldsSent
from django.db.models import QuerySet
from django.forms import BooleanField
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub.core.database import write_transaction
from memoryhub.core.form_fields import to_sentence
from memoryhub.core.text import shorten
from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.models import SavedSearch
from memoryhub.web.base.forms import (
    InjectionFilter,
    JournalFilter,
    ListFilter,
    MonthFilter,
    SessionFilter,
    TimelineFilter,
)
from memoryhub.web.base.requests import SCOPED_PAGES, HtmxHttpRequest, show_success, signed_in_user
from memoryhub.web.duplicates.presenters import DuplicatesFilter
from memoryhub.web.facts.views import ContradictionFilter, FactFilter, GraphFilter
from memoryhub.web.memories.filters import MemoryListFilter

# The lists that can be saved, by URL name, in the order of the navigation: title and form of the filters.
LISTS: dict[str, tuple[str, type[ListFilter]]] = {
    "memories": ("Memories", MemoryListFilter),
    "duplicates": ("Duplicates", DuplicatesFilter),
    "sessions": ("Sessions", SessionFilter),
    "injections": ("Injections", InjectionFilter),
    "timeline": ("Timeline, by day", MonthFilter),
    "timeline-entries": ("Timeline, entry by entry", TimelineFilter),
    "facts": ("Facts", FactFilter),
    "facts-graph": ("Graph of facts", GraphFilter),
    "fact-conflicts": ("Contradictions", ContradictionFilter),
    "journal": ("Journal", JournalFilter),
    "trash": ("Trash", ListFilter),
}
# Parameters for the position in a list, which are not saved.
_POSITION_PARAMETERS = {"page", "cursor", "before"}
_URL_SAFE = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*")
_MAX_DESCRIPTION_CHARS = 160
_NO_FILTERS = "everything"


@dataclass(frozen=True)
class ListAddress:
    """A list with its filters. ``page`` is a key of :data:`LISTS`."""

    page: str
    query: str

    @property
    def href(self) -> str:
        address = reverse(self.page)
        return f"{address}?{self.query}" if self.query else address

    @property
    def title(self) -> str:
        return LISTS[self.page][0]

    @property
    def description(self) -> str:
        """Describe the filters with the labels of the list's form."""
        given = {name: str(value) for name, value in QueryDict(self.query).items() if value}
        form = LISTS[self.page][1](given)
        words = [_describe_filter(form, name, value) for name, value in given.items()]
        return shorten(" · ".join(words), _MAX_DESCRIPTION_CHARS) if words else _NO_FILTERS

    @property
    def save_href(self) -> str:
        """The address of the form that saves this list."""
        return reverse("searches", query={"page": self.page, "query": self.query})


def _describe_filter(form: ListFilter, name: str, value: str) -> str:
    if name == "q":
        return value
    if name not in form.fields:
        return f"{name.replace('_', ' ')} {value}"
    label = str(form[name].label).lower()
    return label if isinstance(form.fields[name], BooleanField) else f"{label}: {form.display_value(name)}"


def to_list_address(page: str, query: str) -> ListAddress | None:
    """Return the address to save; None for a page that cannot be saved."""
    return ListAddress(page, without_position(query)) if page in LISTS else None


def list_address_of(request: HttpRequest) -> ListAddress | None:
    """Return the list that this request shows."""
    match = request.resolver_match
    return to_list_address(str(match.url_name), request.META.get("QUERY_STRING", "")) if match else None


def describe_filters(request: HttpRequest) -> str:
    """Describe the filters of a list, or the project of another page in scope; empty without any."""
    name = str(request.resolver_match.url_name) if request.resolver_match else ""
    with suppress(TooManyFieldsSent):  # the error page for the same address is printed too
        if place := to_list_address(name, request.GET.urlencode()):
            words = place.description
            return "" if words == _NO_FILTERS else words
        if name in SCOPED_PAGES and (project := request.GET.get("project")):
            return f"project: {project}"
    return ""


def list_address_at(address: str) -> ListAddress | None:
    """Return the list at an address. The host is ignored, because only the path and the query are used."""
    try:
        parts = urlsplit(address)
        match = resolve(parts.path)
    except (ValueError, Resolver404):
        return None
    return None if match.namespaces else to_list_address(str(match.url_name), parts.query)


def without_position(query: str) -> str:
    """Return a query string without the position in the list, encoded if it contains unsafe characters."""
    parts = [part for part in query.lstrip("?").split("&") if part]
    whole = "&".join(part for part in parts if part.partition("=")[0] not in _POSITION_PARAMETERS)
    return whole if _URL_SAFE.fullmatch(whole) else QueryDict(whole).urlencode()


_MAX_MENU_ITEMS = 20


@dataclass(frozen=True)
class SavedListItem:
    search: SavedSearch
    place: ListAddress


@require_http_methods(["GET", "HEAD", "POST"])
def searches(request: HtmxHttpRequest) -> HttpResponse:
    """List the user's saved searches, with a form to save ``page`` and ``query``. POST saves them."""
    if request.method == "POST":
        return _save_search(request)
    place = to_list_address(request.GET.get("page", ""), request.GET.get("query", ""))
    return _render_page(request, place)


@require_safe
def searches_menu(request: HtmxHttpRequest) -> HttpResponse:
    """Return the menu of the page that htmx requests it from."""
    place = list_address_at(request.htmx.current_url or "") if request.htmx else None
    return _render_menu(request, place) if place else redirect("searches")


@require_POST
def search_rename(request: HttpRequest, uid: str) -> HttpResponse:
    name = request.POST.get("name", "")
    try:
        search = rename_search(signed_in_user(request), uid, name)
    except NotFound:
        raise
    except StoreError as refusal:
        return _render_page(
            request, None, wrong={"uid": uid, "name": name, "error": _error_sentence(refusal)}, status=422
        )
    messages.success(request, f"Renamed to “{search.name}”.")
    return redirect("searches")


@require_POST
def search_delete(request: HttpRequest, uid: str) -> HttpResponse:
    """Delete a saved search and offer to undo that on the next page."""
    deleted = delete_search(signed_in_user(request), uid)
    show_success(request, "saved/page.html#undo", {"search": deleted})
    return redirect("searches")


def _save_search(request: HtmxHttpRequest) -> HttpResponse:
    place = to_list_address(request.POST.get("page", ""), request.POST.get("query", ""))
    if place is None:
        raise BadRequest("this list cannot be saved")
    name, replace = request.POST.get("name", ""), bool(request.POST.get("replace"))
    render_form = _render_menu if request.htmx else _render_page
    try:
        search = save_search(signed_in_user(request), name, place.page, place.query, replace=replace)
    except StoreError as refusal:
        same_name = list_saved_searches(signed_in_user(request)).filter(name=" ".join(name.split()))
        taken = isinstance(refusal, Conflict) and same_name.exists()
        return render_form(request, place, status=422, name=name, error=_error_sentence(refusal), taken=taken)
    if request.htmx:
        return _render_menu(request, place, done=search)
    messages.success(request, f"Saved as “{search.name}”.")
    return redirect("searches")


def _render_page(
    request: HttpRequest, place: ListAddress | None, status: int = 200, **more: Any
) -> HttpResponse:
    """Show the saved searches grouped by list, each group sorted by name."""
    items = saved_items(request.user)
    groups = [
        (title, [item for item in items if item.place.page == page]) for page, (title, _) in LISTS.items()
    ]
    context = {"place": place, "groups": [group for group in groups if group[1]], **more}
    return render(request, "saved/page.html", context, status=status)


def _render_menu(request: HttpRequest, place: ListAddress, status: int = 200, **more: Any) -> HttpResponse:
    context = {"place": place, "saved": saved_items(request.user, place.page), **more}
    return render(request, "saved/page.html#menu", context, status=status)


def saved_items(user: Any, page: str = "") -> list[SavedListItem]:
    """Return a person's saved searches by name: those of one list, or all."""
    rows = list_saved_searches(user)
    searches = rows.filter(page=page)[:_MAX_MENU_ITEMS] if page else rows
    found = ((search, to_list_address(search.page, search.query)) for search in searches)
    return [SavedListItem(search, place) for search, place in found if place]


def _error_sentence(refusal: StoreError) -> str:
    text = refusal.message if isinstance(refusal, Conflict) else f"The {refusal.field} {refusal.message}"
    return to_sentence(text)


MAX_SAVED_SEARCHES = 200  # per person
LONGEST_NAME, LONGEST_QUERY = 100, 2000


def list_saved_searches(user: User) -> QuerySet[SavedSearch]:
    """Return the searches of a person, by name."""
    return SavedSearch.objects.filter(user=user).order_by("name")


def save_search(user: User, name: str, page: str, query: str, *, replace: bool = False) -> SavedSearch:
    """Save a search. ``page``: the list that it opens; ``query``: its query string.

    Conflict about ``name`` if the person has a different search of this name and ``replace`` is false;
    StoreError names a value over its limit.
    """
    name = _clean_name(name)
    if len(query) > LONGEST_QUERY:
        raise StoreError(f"has more than {LONGEST_QUERY} characters; remove some filters", "query")
    with write_transaction():
        existing = list_saved_searches(user).filter(name=name).first()
        if existing and not replace and (existing.page, existing.query) != (page, query):
            raise Conflict(
                "you already have a search with this name; choose another name, or replace it", "name"
            )
        if not existing and list_saved_searches(user).count() >= MAX_SAVED_SEARCHES:
            raise Conflict(f"you have {MAX_SAVED_SEARCHES} saved searches already; delete one first", "name")
        search = existing or SavedSearch(user=user, name=name)
        search.page, search.query = page, query
        search.save()
    return search


def rename_search(user: User, uid: str, name: str) -> SavedSearch:
    """Rename a search; NotFound if the person has none with this id."""
    name = _clean_name(name)
    with write_transaction():
        search = _find_own(user, uid)
        if list_saved_searches(user).filter(name=name).exclude(pk=search.pk).exists():
            raise Conflict("you already have a search with this name; choose another", "name")
        search.name = name
        search.save(update_fields=["name"])
    return search


def delete_search(user: User, uid: str) -> SavedSearch:
    """Delete and return a search, so that it can be saved again."""
    with write_transaction():
        search = _find_own(user, uid)
        search.delete()
    return search


def _find_own(user: User, uid: str) -> SavedSearch:
    search = list_saved_searches(user).filter(uid=uid).first()
    if search is None:
        raise NotFound("this saved search does not exist")
    return search


def _clean_name(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise StoreError(f"must be 1 to {LONGEST_NAME} printable characters", "name")
    return name
