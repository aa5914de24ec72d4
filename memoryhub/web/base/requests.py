"""What views do with a request: user, redirect targets, htmx fragments, selected project, caches, polls.

The project becomes the filter ``project`` of a page in its scope, so that it narrows what the person may see
and never widens it. An address with a project of its own shows that one.

Expensive results are cached until the store changes. A page that polls (``static/js/live.js``) describes its
content by an ETag. Polled with that ETag, it responds 304 while it would show the same: after one cheap query
while nothing changed anywhere, else after rendering the page for this person again. No response waits for
changes, so polling blocks no worker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.decorators import user_passes_test
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied, TooManyFieldsSent
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.http import push_url, replace_url
from django_htmx.middleware import HtmxDetails

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.backends import statements
from memoryhub.backends.statements import ChangeToken
from memoryhub.core.pagination import page_number, paginate
from memoryhub.stats.counts import facets_and_days

View = TypeVar("View", bound=Callable[..., HttpResponseBase])
Rows = TypeVar("Rows", bound=Sequence[Any])


def require(test: Callable[[Any], bool]) -> Callable[[View], View]:
    """Decorate a view to answer 403 to users for whom the test is false."""

    def check(user: Any) -> bool:
        if not test(user):
            raise PermissionDenied
        return True

    return user_passes_test(check)


class HtmxHttpRequest(HttpRequest):
    """A request that passed :class:`django_htmx.middleware.HtmxMiddleware`."""

    htmx: HtmxDetails


def wants_fragment(request: HtmxHttpRequest, target: str) -> bool:
    """Whether htmx swaps the response into the element with this id only."""
    htmx = request.htmx
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request and htmx.target == target


def page_or_fragment(
    request: HtmxHttpRequest,
    page: str,
    context: dict[str, Any],
    *,
    target: str,
    status: int = 200,
) -> HttpResponse:
    """Render the partial named ``target`` if htmx fills the element of this id, else the whole ``page``."""
    name = f"{page}#{target}" if wants_fragment(request, target) else page
    return render(request, name, context, status=status)


def cursor_page(request: HttpRequest, rows: QuerySet[Any], column: str, limit: int) -> dict[str, Any]:
    """Return the context of a list with a cursor: the page, the next one, and whether it is the first."""
    cursor = request.GET.get("cursor")
    page = paginate(rows, column, limit, cursor)
    return {"page": page, "next_cursor": page.next_cursor, "first": not cursor}


def numbered_page(request: HttpRequest, rows: Rows, size: int) -> tuple[Rows, dict[str, int]]:
    """Return the rows of the page that the address names, and the context of a list with page numbers."""
    pages = Paginator(rows, size)
    page = pages.page(page_number(request.GET.get("page", ""), pages.num_pages))
    shown: Any = page.object_list
    return shown, {"number": page.number, "last": pages.num_pages}


def update_address_bar(
    request: HtmxHttpRequest, response: HttpResponse, address: str, *, replace: bool
) -> HttpResponse:
    """Make the address bar follow a fragment: as a new history entry, or in place of the current one."""
    is_reload = request.htmx and request.htmx.current_url_abs_path == request.get_full_path()
    if not request.htmx or request.htmx.boosted or is_reload:  # a reloaded list is no history entry
        return response
    return replace_url(response, address) if replace else push_url(response, address)


def return_url(
    request: HttpRequest,
    default: str = "/memories/",
    prefix: str | tuple[str, ...] = "/",
    fields: Mapping[str, str] | None = None,
) -> str:
    """Return the field ``next`` if it is a URL of this host that starts with ``prefix``, else the default.

    ``fields`` replaces the submitted form.
    """
    target = (request.POST if fields is None else fields).get("next", "")
    is_safe = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return target if is_safe and target.startswith(prefix) else default


def page_url(page: str, **query: object) -> str:
    """Return the URL of a page with these parameters, empty ones omitted."""
    return reverse(page, query={name: str(value) for name, value in query.items() if value})


def referring_page(request: HttpRequest, own: str) -> str:
    """Return the page of this host that linked here; the list of memories if its path starts with ``own``."""
    referrer = request.headers.get("Referer", "")
    is_safe = url_has_allowed_host_and_scheme(
        referrer, {request.get_host()}, require_https=request.is_secure()
    )
    parts = urlsplit(referrer) if is_safe else urlsplit("")
    if not parts.path or parts.path.startswith(own):
        return reverse("memories")
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


TEXT_FIELDS = frozenset(
    """abstract aliases concepts content email entities files_modified files_read folder ignored_paths into
    must_words name never_projects never_words object overview predicate projects prompt subject subtitle tag
    tags text title url username""".split()
)


def submitted_texts(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the fields of a refused form that contain typed text, so that its error page can show them.

    Empty for a form with a password, and for one of another site: that could show its own text in our page.
    """
    if not request.resolver_match:
        return []  # the host may be wrong, and the body unread
    is_ours = request.headers.get("Origin") == f"{request.scheme}://{request.get_host()}"
    if not is_ours or any("password" in name for name in request.POST):
        return []
    fields = ((name, str(value).strip()) for name, value in request.POST.items())
    # Single words of other fields are ids, numbers and choices, and "seen" contains the versions of memories.
    return [
        (name.replace("_", " ").capitalize(), text)
        for name, text in fields
        if text and name != "seen" and (name in TEXT_FIELDS or len(text.split()) > 1 or not text.isascii())
    ]


def show_success(request: HttpRequest, template: str, context: dict[str, Any]) -> None:
    """Show a rendered message on the next page, such as one with a button that undoes the action."""
    messages.success(request, render_to_string(template, context, request=request))


def signed_in_user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 the middleware requires sign-in for every page
    return request.user


SCOPED_PAGES = frozenset(
    """home glance glance-duplicates memories trash duplicates review sessions injections
    timeline timeline-entries facts facts-graph thing fact-conflicts journal""".split()
)
_SESSION_KEY = "project"
_PARAMETERS = ("project", "cursor", "page", "entry")  # they belong to the list of another project


def apply_scope(request: HttpRequest) -> None:
    """Filter a page in scope by the chosen project, unless its address names one."""
    match = request.resolver_match
    chosen = chosen_project(request)
    in_scope = match is not None and match.url_name in SCOPED_PAGES and request.method in ("GET", "HEAD")
    if in_scope and chosen and not request.GET.get("project"):
        query = request.GET.copy()
        query["project"] = chosen
        request.GET = query  # type: ignore[assignment]


def chosen_project(request: HttpRequest) -> str:
    return str(request.session.get(_SESSION_KEY, ""))


def choose_project(request: HttpRequest, project: str) -> bool:
    """Set the project of this session; empty for all. Return False for one that the person does not see."""
    if project and project not in visible_projects(request):
        return False
    request.session[_SESSION_KEY] = project
    return True


def visible_projects(request: HttpRequest) -> list[str]:
    """Return the projects with memories that the person sees, those with the most first."""
    return [name for name in facets_and_days(request_clearance(request))[0]["project"] if name]


def current_project(request: HttpRequest) -> str:
    """Return the project that a page shows; empty for all of them."""
    match = request.resolver_match
    asked = ""
    if match is not None and match.url_name in SCOPED_PAGES:
        with suppress(TooManyFieldsSent):  # the error page for the same address shows this too
            asked = request.GET.get("project", "")
    return asked or chosen_project(request)


def without_project(address: str) -> str:
    """Return an address without its project and its place in the list."""
    parts = urlsplit(address)
    query = QueryDict(parts.query, mutable=True)
    for name in _PARAMETERS:
        query.pop(name, None)
    return parts._replace(query=query.urlencode(), fragment="").geturl()


def narrow_to_project(clearance: Clearance, project: str) -> Clearance:
    """Return the clearance for one of its projects; unchanged without a project."""
    return clearance.within(Clearance.up_to(LEVELS[-1], projects=[project])) if project else clearance


MAX_AGE_SECONDS = 60  # reading a memory does not change the token: counts of reads may be this old
T = TypeVar("T")


def viewer_key(clearance: Clearance, *about: object) -> str:
    """Return a text that is equal for clearances that see the same, with equal values of ``about``."""
    parts = [(sorted(levels), sorted(of) if of is not None else None) for levels, of in clearance.parts()]
    return repr((clearance.owner, clearance.every_owner, parts, *about))


def store_token(request: HttpRequest) -> ChangeToken:
    """Return the change token of the store, read once for a request that changes nothing."""
    if request.method not in ("GET", "HEAD"):
        return statements.change_token()
    if not hasattr(request, "store_token"):
        request.store_token = statements.change_token()  # type: ignore[attr-defined]
    token: ChangeToken = request.store_token  # type: ignore[attr-defined]
    return token


def cached_until_change(
    request: HttpRequest,
    name: str,
    clearance: Clearance,
    make: Callable[[], T],
    *about: object,
    depends_on_events: bool = False,
) -> T:
    """Return the cached result of ``make``, or call it if the store changed or a memory expired since.

    ``name`` identifies the kind of result. ``about`` are the values that it depends on, except the store and
    the clearance. Events and injections count as changes only for results that depend on them: while agents
    work, they arrive all the time.
    """
    token = store_token(request)
    until = token if depends_on_events else token.without_events
    return cached_while(until, name, viewer_key(clearance, *about), make, MAX_AGE_SECONDS)


def cached_while(token: object, name: str, about: str, make: Callable[[], T], max_age: int) -> T:
    """Return the cached result of ``make``, or call it if the token is another one than before."""
    key = _cache_key(name, about)
    cached: tuple[object, T] | None = cache.get(key)
    if cached is not None and cached[0] == token:
        return cached[1]
    result = make()
    cache.set(key, (token, result), max_age)
    return result


def cached_value(name: str, about: str, token: object = None) -> Any:
    """Return the cached result, or None; an outdated one only without a token."""
    cached = cache.get(_cache_key(name, about))
    return None if cached is None or token not in (None, cached[0]) else cached[1]


def _cache_key(name: str, about: str) -> str:
    return f"{name}-{hashlib.sha256(about.encode()).hexdigest()}"


ETAG_TIMEOUT = 3600  # seconds
_ETAG_CHARS = 32


def is_poll(request: HttpRequest) -> bool:
    """Whether a script polls the page. A poll does not show that the person is active."""
    return request.method == "GET" and "If-None-Match" in request.headers


def set_etag(request: HttpRequest, *shown: Any) -> None:
    """Set the ETag of a page from everything on it that can change."""
    request.live_mark = hashlib.sha256(repr(shown).encode()).hexdigest()[:_ETAG_CHARS]  # type: ignore[attr-defined]


def answers_polls(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Decorate a view that calls :func:`set_etag`."""

    @wraps(view)
    def answer(request: HttpRequest, *arguments: Any, **names: Any) -> HttpResponse:
        if not is_poll(request):
            return view(request, *arguments, **names)
        sent = request.headers["If-None-Match"].removeprefix("W/").strip('" ')
        now = store_token(request)  # before rendering: a change meanwhile is found by the next poll
        if cache.get(_poll_key(request, sent)) == now:
            return _not_modified(sent)
        response = view(request, *arguments, **names)
        etag = getattr(request, "live_mark", "")
        if not etag or response.status_code != 200:
            return response
        cache.set(_poll_key(request, etag), now, ETAG_TIMEOUT)
        if etag == sent:
            return _not_modified(etag)
        response["ETag"] = f'"{etag}"'
        return response

    return answer


def _poll_key(request: HttpRequest, etag: str) -> str:
    """Return the key of an ETag, URL and clearance. It is hashed because clients send any ETag."""
    named = repr((etag, request.get_full_path(), request_clearance(request)))
    return f"live-{hashlib.sha256(named.encode()).hexdigest()}"


def _not_modified(etag: str) -> HttpResponse:
    return HttpResponseNotModified(headers={"ETag": f'"{etag}"'})
