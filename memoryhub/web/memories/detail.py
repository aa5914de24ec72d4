"""The page of a memory and its history."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.accounts.clearance import request_clearance
from memoryhub.core.text import without_title_line
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
    """Show a memory, count the access, and journal the reveal of a secret."""
    memory = queries.get_visible_memory(request, uid)
    links = not memory.flags  # links of unapproved content are not clickable
    html = markdown.render(without_title_line(memory.content, memory.title) or memory.content, links=links)
    context = {
        **_state_context(memory),
        **_history_context(request, memory, MAX_VERSIONS_ON_PAGE),
        "html": html,
    }
    if memory.overview:
        context["overview_html"] = markdown.render(memory.overview, below=_OVERVIEW_HEADING, links=links)
    queries.reveal_if_secret(request, memory, "page", [one.sensitivity for one in context["versions"]])
    count_accesses_and_promote([memory])
    context["may_restore"] = may_restore(request)
    return render(request, "memory/page.html", {**context, **_related_context(request, memory)})


@require_safe
def memory_history(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """List all changes of a memory, newest first; for htmx the section of its page with the newest."""
    memory = queries.get_visible_memory(request, uid)
    before = _parse_before(request)
    is_part = wants_fragment(request, "memory-history")
    context = _history_context(
        request, memory, MAX_VERSIONS_ON_PAGE if is_part else VERSIONS_PER_PAGE, before
    )
    queries.reveal_if_secret(request, memory, "history", [one.sensitivity for one in context["versions"]])
    name = "memory/history_section.html" if is_part else "memory/history.html"
    response = render(request, name, {"memory": memory, "first": before is None, **context})
    patch_vary(response)
    return response


def _parse_before(request: HttpRequest) -> int | None:
    """Return the number of the last change on the previous page."""
    text = request.GET.get("before")
    if text is None:
        return None
    number = parse_whole_number(text, 9)
    if number is None:
        raise BadRequest("before is not the number of a change")
    return number


def _history_context(
    request: HttpRequest, memory: Memory, limit: int, before: int | None = None
) -> dict[str, Any]:
    versions, older = revisions.visible_changes(
        memory, request_clearance(request), limit=limit, before=before
    )
    return {"versions": versions, "older": older}


def _state_context(memory: Memory) -> dict[str, Any]:
    has_expired = memory.expires_at is not None and memory.expires_at <= timezone.now()
    return {
        "memory": memory,
        **{name: list_values(memory, name) for name in LIST_FIELDS},
        "is_trashed": memory.deleted_at is not None,
        "is_expired": memory.deleted_at is None and has_expired,
    }


def _related_context(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    clearance = request_clearance(request)
    facts, rows = queries.facts_of(memory, clearance), queries.journal_entries_of(memory, clearance)
    merged_from = queries.merged_from(memory, clearance)
    return {
        "facts": facts[: queries.MAX_FACTS],
        "more_facts": len(facts) > queries.MAX_FACTS,
        "journal": rows[: queries.MAX_JOURNAL_ENTRIES],
        "more_journal": len(rows) > queries.MAX_JOURNAL_ENTRIES,
        "related": find_related(memory, clearance),
        "by_session": queries.session_neighbours(memory, clearance),
        "events": queries.events_of(memory, clearance),
        "merged_into": queries.merged_into(memory, clearance),
        "merged_from": merged_from,
        "last_merge": last_merge(memory, clearance) if merged_from else "",
    }
