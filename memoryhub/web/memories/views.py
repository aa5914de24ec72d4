"""The page of memories: a list by date or in another order; with words, the results of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import now
from django.views.decorators.http import require_safe

from memoryhub.access import policy
from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.backends import TEXT_COLUMNS
from memoryhub.backends.fts_query import Query, parse_query
from memoryhub.backends.statements import key_list
from memoryhub.core.pagination import InvalidCursor, page_number
from memoryhub.core.text import collapse_whitespace, without_title_prefix
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.versions import Snapshot, load_snapshot
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import Hit, SearchResults, search_memories, search_snapshot
from memoryhub.search.query_words import adapt_to_language
from memoryhub.search.text_matching import extract_snippet, highlight_text, snippet_of_first_match
from memoryhub.stats import counts
from memoryhub.web.base.caching import cached_until_change
from memoryhub.web.base.markdown import to_plain_text
from memoryhub.web.base.requests import (
    HtmxHttpRequest,
    chosen_project,
    cursor_page,
    page_or_fragment,
    update_address_bar,
)
from memoryhub.web.memories.filters import MemoryListFilter, OptionGroup, filter_url, without_single_options

PAGE_SIZE = 25
OLD_ISSUE_PARAMETER = "mend"  # the name of ``issue`` in addresses that people saved
_MAX_PAGES = 10_000


@dataclass(frozen=True)
class ListItem:
    """A memory of the list. A result of a search has a highlighted title and text, and a ranked one its hit.

    ``note``: what happened to it since the day that was searched.
    """

    memory: Memory
    title: SafeString | str = ""
    text: SafeString | str = ""
    hit: Hit | None = None
    note: str = ""


@require_safe
def memories_page(request: HtmxHttpRequest) -> HttpResponse:
    """List or search memories. ``GET`` takes the fields of the form and ``cursor`` or ``page``.

    htmx fills ``#found`` while the person types or filters.
    """
    if old := request.GET.get(OLD_ISSUE_PARAMETER):
        return redirect(filter_url(request, OLD_ISSUE_PARAMETER, issue=old))
    clearance = request_clearance(request)
    form = MemoryListFilter(request.GET)
    form.narrow_to(clearance)
    context: dict[str, Any] = {"form": form, "query": form.words()}
    is_valid = form.is_valid()
    if is_valid:
        context |= {"chips": form.chips(request), "unfiltered": form.unfiltered_url(request)}
        try:
            context |= _page_context(request, form, clearance)
        except InvalidCursor:
            context["bad_cursor"], is_valid = filter_url(request), False
    status = 200 if is_valid else 422
    response = page_or_fragment(request, "memories.html", context, target="found", status=status)
    # Typing replaces the URL; a submitted search or filter adds a history entry.
    return update_address_bar(
        request, response, filter_url(request), replace=request.htmx.trigger == "search-fields"
    )


def _page_context(request: HttpRequest, form: MemoryListFilter, clearance: Clearance) -> dict[str, Any]:
    if form.value("q"):
        return _search_context(request, form, clearance)
    if form.moment():
        return {"past": form.moment()}
    memories = form.select(clearance)
    if form.chips(request) or form.value("project"):
        facets = counts.top_facets(memories, tag=form.value("tag"))
    else:  # the counts of all visible memories are known and updated by change
        tags = cached_until_change(request, "tags", clearance, lambda: counts.top_tags(memories))
        facets = {**counts.top_visible_facets(clearance), "tag": tags}
    listed = _ordered_page(request, memories, form.column())
    return {
        **listed,
        "trashed": not listed["page"].items and Memory.objects.visible_to(clearance).trashed().exists(),
        "items": [ListItem(memory) for memory in listed["page"].items],
        "total": sum(facets["sensitivity"].values()),  # every memory has one of few levels
        "groups": build_facets(request, facets),
    }


def _ordered_page(request: HttpRequest, memories: MemoryQuerySet, column: str) -> dict[str, Any]:
    listed = cursor_page(request, memories, column, PAGE_SIZE)
    return {
        **listed,
        "is_one_page": listed["first"] and not listed["next_cursor"],
        "moment_of": "created" if column == "created_at" else "updated",
    }


def _search_context(request: HttpRequest, form: MemoryListFilter, clearance: Clearance) -> dict[str, Any]:
    """Return a page of the results by relevance, or by a column; those of the past only by relevance."""
    text, moment, lowest = form.value("q"), form.moment(), form.lowest_score()
    memories = form.select(clearance)
    snapshot = load_snapshot(form.wanted(), clearance, moment) if moment else None
    column = "" if moment else form.column()
    size = 0 if column else settings.MEMORYHUB.search_limit

    def search(number: int) -> SearchResults:
        options: dict[str, Any] = {"min_score": lowest, "snippets": False, "limit": size}
        options["offset"] = (number - 1) * size
        if snapshot is None:
            return form.search(memories, clearance, **options)
        return search_snapshot(snapshot, text, **options)

    results, number = _find_page(request.GET.get("page", ""), search, size)
    # A failure of semantic search is shown only if an embedding provider is configured.
    failure = results.failure if settings.MEMORYHUB.embeddings != "none" else ""
    context = {"results": results, "total": results.total, "floor": lowest, "past": moment}
    context["without_meaning"] = failure
    if not results.total:
        return context if moment else context | _advice_context(request, memories, form, clearance)
    found = memories.filter(pk__in=key_list(results.ids))
    query = adapt_to_language(parse_query(results.suggestions[0] if results.is_corrected else text))
    if column:
        listed = _ordered_page(request, found, column)
        listed["items"] = [ListItem(memory, *_highlight(query, memory)) for memory in listed["page"].items]
    else:
        last = -(-results.total // size)
        listed = {"number": number, "last": last, "is_one_page": last == 1}
        listed["items"] = [
            ListItem(hit.memory, *_highlight(query, hit.memory), hit, _note(hit.memory, snapshot))
            for hit in results.hits
        ]
    return {
        **context,
        **listed,
        "suggestions": [(one, filter_url(request, q=one)) for one in results.suggestions],
        "groups": [] if moment else build_facets(request, counts.top_facets(found, tag=form.value("tag"))),
    }


def _find_page(typed: str, search: Callable[[int], SearchResults], size: int) -> tuple[SearchResults, int]:
    """Return the results of the page that a number names, and its number. Which is last, a search shows."""
    number = page_number(typed, _MAX_PAGES)
    results = search(number)
    if size and 0 < results.total <= (number - 1) * size:
        number = page_number(typed, -(-results.total // size))
        results = search(number)
    return results, number


def _note(memory: Memory, snapshot: Snapshot | None) -> str:
    """Return what happened to a memory since the moment of the snapshot."""
    if snapshot is None:
        return ""
    if memory.deleted_at is not None:
        return "in the trash today"
    if memory.is_expired(now()):
        return "expired today"
    return "changed since" if any(memory is version for version in snapshot.versions) else ""


def _highlight(query: Query, memory: Memory) -> tuple[SafeString, SafeString]:
    """Return the title and the matching part of the text, with the matches marked."""
    if policy.is_redacted(memory.sensitivity):
        return escape(policy.display_name(memory)), escape(policy.REDACTED_NOTICE)
    title = collapse_whitespace(memory.title)
    content = collapse_whitespace(to_plain_text(memory.content))
    rest = without_title_prefix(content, collapse_whitespace(to_plain_text(title)))
    if rest != content:
        text = extract_snippet(query, rest)
    else:
        text = snippet_of_first_match(
            query, (to_plain_text(getattr(memory, name)) for name in reversed(TEXT_COLUMNS))
        )
    marked_title = highlight_text(query, title)
    # search.snippets escapes everything except its own <mark>.
    return mark_safe(marked_title), mark_safe("" if text == marked_title else text)  # noqa: S308


def _advice_context(
    request: HttpRequest, memories: MemoryQuerySet, form: MemoryListFilter, clearance: Clearance
) -> dict[str, Any]:
    """Count what a lower score or fewer filters would find."""
    text, lowest = form.value("q"), form.lowest_score()
    weaker = search_memories(memories, text, limit=0, min_score=0).total if lowest else 0
    unfiltered = MemoryFilter(project=chosen_project(request) or None).select(clearance)
    is_filtered = bool(form.chips(request))
    elsewhere = search_memories(unfiltered, text, limit=0, min_score=lowest).total if is_filtered else 0
    return {
        "weaker": weaker,
        "weaker_href": filter_url(request, min_score="0"),
        "elsewhere": elsewhere,
        "elsewhere_href": filter_url(request, *form.base_fields.keys() - {"q", "min_score", "order"}),
    }


_TITLES = {"type": "Type", "category": "Category", "project": "Project", "sensitivity": "Level", "tag": "Tag"}


def build_facets(request: HttpRequest, counted: Mapping[str, Mapping[str, int]]) -> list[OptionGroup]:
    """Return the facets of a list, the active value of each first."""
    groups = [OptionGroup.of(request, name, title, counted[name]) for name, title in _TITLES.items()]
    for group in groups:
        group.options.sort(key=lambda option: not option.chosen)
    return without_single_options(groups)
