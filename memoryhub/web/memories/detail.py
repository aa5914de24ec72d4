"""A memory's page, with everything about it."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.accounts.clearance import record_reveal, request_clearance
from memoryhub.memories.merge import last_merge
from memoryhub.memories.rows import LIST_FIELDS, list_values
from memoryhub.memories.temporal import count_accesses_and_promote
from memoryhub.models import Memory
from memoryhub.search.related import find_related
from memoryhub.web.base import markdown
from memoryhub.web.base.fields import parse_whole_number
from memoryhub.web.base.htmx import HtmxHttpRequest, patch_vary, wants_fragment
from memoryhub.web.memories import queries, revisions
from memoryhub.web.memories.trash import may_restore

_OVERVIEW_HEADING = 3  # the level of the heading above an overview
MAX_VERSIONS_ON_PAGE = 5
VERSIONS_PER_PAGE = 20


@require_safe
def memory_page(request: HttpRequest, uid: str) -> HttpResponse:
    """Counts an access; opening a secret is journaled."""
    found = queries.get_visible_memory(request, uid)
    links = not found.flags  # what nobody has approved of is not to be followed
    html = markdown.render(_body(found), links=links)
    context = {
        **_state_context(found),
        **_history_context(request, found, MAX_VERSIONS_ON_PAGE),
        "html": html,
    }
    if found.overview:
        context["overview_html"] = markdown.render(found.overview, below=_OVERVIEW_HEADING, links=links)
    _journal_reveal(request, found, context, "page")
    count_accesses_and_promote([found])
    context["may_restore"] = may_restore(request)
    return render(request, "memory/page.html", {**context, **_related_context(request, found)})


@require_safe
def memory_history(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """All changes of a memory, newest first; for htmx the part of its page that shows the newest."""
    found = queries.get_visible_memory(request, uid)
    before = _parse_before(request)
    is_part = wants_fragment(request, "memory-history")
    context = _history_context(request, found, MAX_VERSIONS_ON_PAGE if is_part else VERSIONS_PER_PAGE, before)
    _journal_reveal(request, found, context, "history")
    name = "memory/history_section.html" if is_part else "memory/history.html"
    response = render(request, name, {"memory": found, "first": before is None, **context})
    patch_vary(response)
    return response


def _body(found: Memory) -> str:
    """The content, without a first line that the title above it says already."""
    first, _, rest = found.content.partition("\n")
    is_repeated = first.strip() == found.title and rest.strip() and not rest.partition("\n")[0].strip()
    return rest if is_repeated else found.content


def _parse_before(request: HttpRequest) -> int | None:
    """The number of the last change on the page before."""
    text = request.GET.get("before")
    if text is None:
        return None
    found = parse_whole_number(text, 9)
    if found is None:
        raise BadRequest("before is not the number of a change")
    return found


def _journal_reveal(request: HttpRequest, found: Memory, context: dict[str, Any], page: str) -> None:
    """A text that was secret when it was replaced is a secret still."""
    levels = {found.sensitivity, *(version.sensitivity for version in context["versions"])}
    if any(map(queries.is_secret, levels)):
        record_reveal(request, found, page)


def _history_context(
    request: HttpRequest, found: Memory, limit: int, before: int | None = None
) -> dict[str, Any]:
    versions, older = revisions.visible_changes(found, request_clearance(request), limit=limit, before=before)
    return {"versions": versions, "older": older}


def _state_context(found: Memory) -> dict[str, Any]:
    """The memory, its lists, and whether it has ended."""
    ended = found.expires_at is not None and found.expires_at <= timezone.now()
    return {
        "memory": found,
        **{name: list_values(found, name) for name in LIST_FIELDS},
        "is_trashed": found.deleted_at is not None,
        "is_expired": found.deleted_at is None and ended,
    }


def _related_context(request: HttpRequest, found: Memory) -> dict[str, Any]:
    """What hangs together with the memory."""
    clearance = request_clearance(request)
    facts, rows = queries.facts_of(found, clearance), queries.journal_entries_of(found, clearance)
    merged_from = queries.merged_from(found, clearance)
    return {
        "facts": facts[: queries.MAX_FACTS],
        "more_facts": len(facts) > queries.MAX_FACTS,
        "journal": rows[: queries.MAX_JOURNAL_ENTRIES],
        "more_journal": len(rows) > queries.MAX_JOURNAL_ENTRIES,
        "related": find_related(found, clearance),
        "by_session": queries.session_neighbours(found, clearance),
        "events": queries.events_of(found, clearance),
        "merged_into": queries.merged_into(found, clearance),
        "merged_from": merged_from,
        "last_merge": last_merge(found, clearance) if merged_from else "",
    }
