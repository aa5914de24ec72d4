"""The project that a person chose in the sidebar. Pages in its scope show only that project.

The choice becomes the filter ``project`` of the page, so that it narrows what the person may see and never
widens it. An address with a project of its own shows that one.
"""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

from django.core.exceptions import TooManyFieldsSent
from django.http import HttpRequest, QueryDict

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.stats.counts import facets_and_days

SCOPED_PAGES = frozenset(
    """home glance glance-health glance-duplicates memories trash duplicates review sessions injections
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
