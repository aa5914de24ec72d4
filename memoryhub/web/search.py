"""Live search: results, facets and the score in its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from memoryhub.access import redaction
from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import clearance_of
from memoryhub.backends.fts_query import Query, parse
from memoryhub.core.text import collapse
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import Hit, Results, search
from memoryhub.search.lexical import TEXTS
from memoryhub.search.snippets import first_hit, mark, snippet
from memoryhub.web.base.fields import whole
from memoryhub.web.base.htmx import HtmxHttpRequest, page_or_fragment, show_address
from memoryhub.web.base.markdown import plain
from memoryhub.web.memories import facets
from memoryhub.web.memories.list_forms import SearchFilter, without

_MOST_PAGES = 10_000


@dataclass(frozen=True)
class Found:
    """A hit as the page shows it: matches are marked in the title too, and it is not said twice."""

    hit: Hit
    title: SafeString
    text: SafeString


@require_safe
def search_page(request: HtmxHttpRequest) -> HttpResponse:
    """``q`` and filters in the address; htmx fills ``#found`` while someone types."""
    clearance = clearance_of(request)
    form = SearchFilter(request.GET)
    form.narrow_to(clearance)
    context: dict[str, Any] = {"form": form, "query": request.GET.get("q", "").strip()}
    valid = form.is_valid()
    if valid and context["query"]:
        context |= _results(request, form, clearance)
    if valid:
        context["chips"] = form.chips(request)
    response = page_or_fragment(
        request,
        "search.html",
        context,
        fragment="includes/search_found.html",
        target="found",
        status=200 if valid else 422,
    )
    # While someone types, the address is replaced; a search that was sent is a step to come back to.
    return show_address(request, response, without(request), replace=request.htmx.trigger == "search-fields")


def _results(request: HtmxHttpRequest, form: SearchFilter, clearance: Clearance) -> dict[str, Any]:
    typed, floor = form.value("q"), form.floor()
    size = settings.MEMORYHUB.search_limit
    number = _page_number(request)
    memories = form.wanted().select(clearance)
    results = search(memories, typed, limit=size, offset=(number - 1) * size, min_score=floor, snippets=False)
    shown = {"results": results, "floor": floor, "without_meaning": _without_meaning(results)}
    if not results.total:
        return shown | _advice(request, memories, form, clearance)
    last = -(-results.total // size)
    query = parse(typed)
    return shown | {
        "found": [_shown(query, hit) for hit in results.hits],
        "number": number,
        "last": last,
        "groups": facets.groups(request, memories.filter(pk__in=results.ids)),
    }


def _without_meaning(results: Results) -> str:
    """Why meaning could not be used, though it is configured."""
    return results.failure if settings.MEMORYHUB.embeddings != "none" else ""


def _page_number(request: HtmxHttpRequest) -> int:
    """The page asked for, 1 where that makes no sense."""
    return min(whole(request.GET.get("page", ""), 8) or 1, _MOST_PAGES)


def _shown(query: Query, hit: Hit) -> Found:
    if redaction.is_sealed(hit.memory.sensitivity):
        return Found(hit, escape(redaction.name_of(hit.memory)), escape(redaction.UNOPENED))
    title = collapse(hit.memory.title)
    said, rest = collapse(plain(title)), collapse(plain(hit.memory.content))
    if rest.startswith(said):
        text = snippet(query, rest[len(said) :].lstrip(" .:-"))
    else:
        text = first_hit(query, (plain(getattr(hit.memory, name)) for name in reversed(TEXTS)))
    # Both come from retrieval.snippets, which escapes everything but its own <mark>.
    return Found(hit, mark_safe(mark(query, title)), mark_safe(text))  # noqa: S308


def _advice(
    request: HtmxHttpRequest, memories: MemoryQuerySet, form: SearchFilter, clearance: Clearance
) -> dict[str, Any]:
    """What would help when nothing was found: a lower score, or fewer filters."""
    typed = form.value("q")
    weaker = search(memories, typed, limit=0, min_score=0).total if form.floor() else 0
    filtered = bool(form.chips(request))
    unfiltered = MemoryFilter().select(clearance)
    elsewhere = search(unfiltered, typed, limit=0, min_score=form.floor()).total if filtered else 0
    return {
        "weaker": weaker,
        "weaker_href": without(request, min_score="0"),
        "elsewhere": elsewhere,
        "elsewhere_href": without(request, *form.base_fields.keys() - {"q", "min_score"}),
    }
