"""Saved searches: one's own list of them, the menu on the pages that can be saved, rename, delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub.accounts import saved_searches
from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.models import SavedSearch
from memoryhub.web.base.htmx import HtmxHttpRequest, patch_vary
from memoryhub.web.saved_searches import presenters

_MENU = 20  # of one list in its menu


@dataclass(frozen=True)
class Shown:
    """A saved search and where it leads."""

    search: SavedSearch
    place: presenters.Place


@require_http_methods(["GET", "HEAD", "POST"])
def searches(request: HtmxHttpRequest) -> HttpResponse:
    """All of one's own; with ``page`` and ``query`` in the address a form that saves these. POST saves."""
    if request.method == "POST":
        return _save(request)
    place = presenters.place(request.GET.get("page", ""), request.GET.get("query", ""))
    return _page(request, place)


@require_safe
def menu(request: HtmxHttpRequest) -> HttpResponse:
    """The menu of the page that asks for it, by the address that htmx names."""
    place = presenters.place_at(request.htmx.current_url or "") if request.htmx else None
    return _menu(request, place) if place else redirect("searches")


@require_POST
def rename(request: HttpRequest, uid: str) -> HttpResponse:
    name = request.POST.get("name", "")
    try:
        search = saved_searches.rename(_user(request), uid, name)
    except NotFound:
        raise Http404 from None
    except StoreError as refusal:
        return _page(request, None, wrong={"uid": uid, "name": name, "error": _sentence(refusal)}, status=422)
    messages.success(request, f"It is called “{search.name}” now.")
    return redirect("searches")


@require_POST
def delete(request: HttpRequest, uid: str) -> HttpResponse:
    """The message on the next page has a button that brings it back."""
    try:
        gone = saved_searches.forget(_user(request), uid)
    except NotFound:
        raise Http404 from None
    messages.success(request, render_to_string("saved/undo.html", {"search": gone}, request=request))
    return redirect("searches")


def _save(request: HtmxHttpRequest) -> HttpResponse:
    place = presenters.place(request.POST.get("page", ""), request.POST.get("query", ""))
    if place is None:
        raise BadRequest("there is no such list to be saved")
    name, replace = request.POST.get("name", ""), bool(request.POST.get("replace"))
    show = _menu if request.htmx else _page
    try:
        search = saved_searches.save(_user(request), name, place.page, place.query, replace=replace)
    except StoreError as refusal:
        there = saved_searches.saved_by(_user(request)).filter(name=" ".join(name.split()))
        taken = isinstance(refusal, Conflict) and there.exists()
        return show(request, place, status=422, name=name, error=_sentence(refusal), taken=taken)
    if request.htmx:
        return _menu(request, place, done=search)
    messages.success(request, f"Saved as “{search.name}”.")
    return redirect("searches")


def _page(
    request: HttpRequest, place: presenters.Place | None, status: int = 200, **more: Any
) -> HttpResponse:
    """In the order of the lists that they open, then of their names."""
    shown = _shown(saved_searches.saved_by(_user(request)))
    groups = [
        (title, [one for one in shown if one.place.page == page]) for page, title in presenters.PAGES.items()
    ]
    context = {
        "place": place,
        "groups": [group for group in groups if group[1]],
        "search_href": reverse("search"),
        **more,
    }
    return render(request, "saved/page.html", context, status=status)


def _menu(request: HttpRequest, place: presenters.Place, status: int = 200, **more: Any) -> HttpResponse:
    of_page = saved_searches.saved_by(_user(request)).filter(page=place.page)
    context = {"place": place, "shown": _shown(of_page[:_MENU]), **more}
    response = render(request, "saved/menu.html", context, status=status)
    patch_vary(response)
    return response


def _shown(searches: Any) -> list[Shown]:
    found = ((search, presenters.saved_place(search)) for search in searches)
    return [Shown(search, place) for search, place in found if place]


def _sentence(refusal: StoreError) -> str:
    text = refusal.message if isinstance(refusal, Conflict) else f"The {refusal.field} {refusal.message}"
    return f"{text[:1].upper()}{text[1:]}."


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 the middleware asks for a login before any page
    return request.user
