"""The search page: results, facets, and advice when nothing is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from memoryhub.access import policy
from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.backends.fts_query import Query, parse_query
from memoryhub.backends.schema import TEXT_COLUMNS
from memoryhub.backends.statements import key_list
from memoryhub.core.text import collapse_whitespace, without_title_prefix
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.snapshots import Snapshot, load_snapshot
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.fallback import search_or_correct
from memoryhub.search.hybrid import Hit, search_memories
from memoryhub.search.snapshots import search_snapshot
from memoryhub.search.snippets import extract_snippet, highlight_text, snippet_of_first_match
from memoryhub.web.base.fields import parse_whole_number
from memoryhub.web.base.markdown import to_plain_text
from memoryhub.web.base.requests import HtmxHttpRequest, chosen_project, page_or_fragment, update_address_bar
from memoryhub.web.memories.browse import build_facets
from memoryhub.web.memories.filters import SearchFilter, filter_url

_MAX_PAGES = 10_000


@dataclass(frozen=True)
class SearchHit:
    """A hit with highlighted title and text. ``note``: what happened to it since the moment of the search."""

    hit: Hit
    title: SafeString
    text: SafeString
    note: str = ""


@require_safe
def search_page(request: HtmxHttpRequest) -> HttpResponse:
    """Search; ``GET`` takes ``q`` and filters, and htmx fills ``#found`` while the person types."""
    clearance = request_clearance(request)
    form = SearchFilter(request.GET)
    form.narrow_to(clearance)
    context: dict[str, Any] = {"form": form, "query": request.GET.get("q", "").strip()}
    is_valid = form.is_valid()
    if is_valid and context["query"]:
        context |= _results_context(request, form, clearance)
    if is_valid:
        context["chips"] = form.chips(request)
    response = page_or_fragment(
        request,
        "search.html",
        context,
        fragment="includes/search_found.html",
        target="found",
        status=200 if is_valid else 422,
    )
    # Typing replaces the URL; a submitted search adds a history entry.
    return update_address_bar(
        request, response, filter_url(request), replace=request.htmx.trigger == "search-fields"
    )


def _results_context(request: HtmxHttpRequest, form: SearchFilter, clearance: Clearance) -> dict[str, Any]:
    text, size, number = form.value("q"), settings.MEMORYHUB.search_limit, _page_number(request)
    memories, moment = form.wanted().select(clearance), form.moment()
    options: dict[str, Any] = {"limit": size, "offset": (number - 1) * size, "snippets": False}
    options["min_score"] = form.lowest_score()
    notes: dict[int, str] = {}
    if moment:
        snapshot = load_snapshot(form.wanted(), clearance, moment)
        results = search_snapshot(snapshot, text, **options)
        notes = {hit.memory.pk: _note(hit.memory, snapshot) for hit in results.hits}
    else:
        options["known"] = lambda: MemoryFilter().select(clearance)
        results = search_or_correct(memories, text, **options)
    # A failure of semantic search is shown only if an embedding provider is configured.
    failure = results.failure if settings.MEMORYHUB.embeddings != "none" else ""
    context = {"results": results, "floor": form.lowest_score(), "without_meaning": failure, "past": moment}
    if not results.total:
        return context if moment else context | _advice_context(request, memories, form, clearance)
    query = parse_query(results.suggestions[0] if results.is_corrected else text)
    return context | {
        "suggestions": [(one, filter_url(request, q=one)) for one in results.suggestions],
        "found": [_to_search_hit(query, hit, notes.get(hit.memory.pk, "")) for hit in results.hits],
        "number": number,
        "last": -(-results.total // size),
        "groups": [] if moment else build_facets(request, memories.filter(pk__in=key_list(results.ids))),
    }


def _page_number(request: HtmxHttpRequest) -> int:
    """Return the requested page; 1 if invalid."""
    return min(parse_whole_number(request.GET.get("page", ""), 8) or 1, _MAX_PAGES)


def _note(memory: Memory, snapshot: Snapshot) -> str:
    """Return what happened to a memory since."""
    if memory.deleted_at is not None:
        return "in the trash today"
    if memory.is_expired(timezone.now()):
        return "expired today"
    return "changed since" if any(memory is version for version in snapshot.versions) else ""


def _to_search_hit(query: Query, hit: Hit, note: str) -> SearchHit:
    if policy.is_redacted(hit.memory.sensitivity):
        name = escape(policy.display_name(hit.memory))
        return SearchHit(hit, name, escape(policy.REDACTED_NOTICE), note)
    title = collapse_whitespace(hit.memory.title)
    content = collapse_whitespace(to_plain_text(hit.memory.content))
    rest = without_title_prefix(content, collapse_whitespace(to_plain_text(title)))
    if rest != content:
        text = extract_snippet(query, rest)
    else:
        text = snippet_of_first_match(
            query, (to_plain_text(getattr(hit.memory, name)) for name in reversed(TEXT_COLUMNS))
        )
    # search.snippets escapes everything except its own <mark>.
    return SearchHit(hit, mark_safe(highlight_text(query, title)), mark_safe(text), note)  # noqa: S308


def _advice_context(
    request: HtmxHttpRequest, memories: MemoryQuerySet, form: SearchFilter, clearance: Clearance
) -> dict[str, Any]:
    """Count what a lower score or fewer filters would find."""
    text = form.value("q")
    weaker = search_memories(memories, text, limit=0, min_score=0).total if form.lowest_score() else 0
    filtered = bool(form.chips(request))
    unfiltered = MemoryFilter(project=chosen_project(request) or None).select(clearance)
    lowest = form.lowest_score()
    elsewhere = search_memories(unfiltered, text, limit=0, min_score=lowest).total if filtered else 0
    return {
        "weaker": weaker,
        "weaker_href": filter_url(request, min_score="0"),
        "elsewhere": elsewhere,
        "elsewhere_href": filter_url(request, *form.base_fields.keys() - {"q", "min_score"}),
    }
