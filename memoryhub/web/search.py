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
from memoryhub.accounts.clearance import request_clearance
from memoryhub.backends.fts_query import Query, parse_query
from memoryhub.core.text import collapse_whitespace
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import Hit, SearchResults, search_memories
from memoryhub.search.lexical import TEXT_FIELDS
from memoryhub.search.snippets import extract_snippet, highlight_text, snippet_of_first_match
from memoryhub.web.base.fields import parse_whole_number
from memoryhub.web.base.htmx import HtmxHttpRequest, page_or_fragment, update_address_bar
from memoryhub.web.base.markdown import to_plain_text
from memoryhub.web.memories import facets
from memoryhub.web.memories.filters import SearchFilter, filter_url

_MAX_PAGES = 10_000


@dataclass(frozen=True)
class SearchHit:
    """A hit as the page shows it: matches are marked in the title too, and it is not said twice."""

    hit: Hit
    title: SafeString
    text: SafeString


@require_safe
def search_page(request: HtmxHttpRequest) -> HttpResponse:
    """``q`` and filters in the address; htmx fills ``#found`` while someone types."""
    clearance = request_clearance(request)
    form = SearchFilter(request.GET)
    form.narrow_to(clearance)
    context: dict[str, Any] = {"form": form, "query": request.GET.get("q", "").strip()}
    valid = form.is_valid()
    if valid and context["query"]:
        context |= _results_context(request, form, clearance)
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
    return update_address_bar(
        request, response, filter_url(request), replace=request.htmx.trigger == "search-fields"
    )


def _results_context(request: HtmxHttpRequest, form: SearchFilter, clearance: Clearance) -> dict[str, Any]:
    typed, floor = form.value("q"), form.floor()
    size = settings.MEMORYHUB.search_limit
    number = _page_number(request)
    memories = form.wanted().select(clearance)
    results = search_memories(
        memories, typed, limit=size, offset=(number - 1) * size, min_score=floor, snippets=False
    )
    shown = {"results": results, "floor": floor, "without_meaning": _semantic_failure(results)}
    if not results.total:
        return shown | _advice_context(request, memories, form, clearance)
    last = -(-results.total // size)
    query = parse_query(typed)
    return shown | {
        "found": [_to_search_hit(query, hit) for hit in results.hits],
        "number": number,
        "last": last,
        "groups": facets.build_facets(request, memories.filter(pk__in=results.ids)),
    }


def _semantic_failure(results: SearchResults) -> str:
    """Why meaning could not be used, though it is configured."""
    return results.failure if settings.MEMORYHUB.embeddings != "none" else ""


def _page_number(request: HtmxHttpRequest) -> int:
    """The page asked for, 1 where that makes no sense."""
    return min(parse_whole_number(request.GET.get("page", ""), 8) or 1, _MAX_PAGES)


def _to_search_hit(query: Query, hit: Hit) -> SearchHit:
    if redaction.is_redacted(hit.memory.sensitivity):
        return SearchHit(hit, escape(redaction.display_name(hit.memory)), escape(redaction.REDACTED_NOTICE))
    title = collapse_whitespace(hit.memory.title)
    said, rest = (
        collapse_whitespace(to_plain_text(title)),
        collapse_whitespace(to_plain_text(hit.memory.content)),
    )
    if rest.startswith(said):
        text = extract_snippet(query, rest[len(said) :].lstrip(" .:-"))
    else:
        text = snippet_of_first_match(
            query, (to_plain_text(getattr(hit.memory, name)) for name in reversed(TEXT_FIELDS))
        )
    # Both come from retrieval.snippets, which escapes everything but its own <mark>.
    return SearchHit(hit, mark_safe(highlight_text(query, title)), mark_safe(text))  # noqa: S308


def _advice_context(
    request: HtmxHttpRequest, memories: MemoryQuerySet, form: SearchFilter, clearance: Clearance
) -> dict[str, Any]:
    """What would help when nothing was found: a lower score, or fewer filters."""
    typed = form.value("q")
    weaker = search_memories(memories, typed, limit=0, min_score=0).total if form.floor() else 0
    filtered = bool(form.chips(request))
    unfiltered = MemoryFilter().select(clearance)
    elsewhere = search_memories(unfiltered, typed, limit=0, min_score=form.floor()).total if filtered else 0
    return {
        "weaker": weaker,
        "weaker_href": filter_url(request, min_score="0"),
        "elsewhere": elsewhere,
        "elsewhere_href": filter_url(request, *form.base_fields.keys() - {"q", "min_score"}),
    }
