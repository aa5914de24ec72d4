"""The page of a memory, its history, and its text as Markdown or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance, Sensitivity
from memoryhub.accounts.clearance import full_clearance, request_clearance, reveal_if_secret
from memoryhub.core.text import collapse_whitespace, without_title_line
from memoryhub.injection.queries import find_uses
from memoryhub.memories import serializers
from memoryhub.memories.freshness import changed_files
from memoryhub.memories.merge import last_merge
from memoryhub.memories.rows import LIST_FIELDS, list_values, visible_replacements
from memoryhub.memories.versions import memory_journal
from memoryhub.models import Memory
from memoryhub.search.related import find_related
from memoryhub.web.base import charts, markdown
from memoryhub.web.base.caching import cached_until_change
from memoryhub.web.base.forms import parse_whole_number
from memoryhub.web.base.labels import name_sessions
from memoryhub.web.base.requests import HtmxHttpRequest, referring_page, wants_fragment
from memoryhub.web.memories import queries, versions
from memoryhub.web.memories.bulk_actions import is_allowed

_OVERVIEW_HEADING = 3  # the level of the heading above an overview
MAX_VERSIONS_ON_PAGE = 5
VERSIONS_PER_PAGE = 20
MAX_USES, MAX_USES_LISTED = 200, 8  # prompts in the chart, and in the list


@require_safe
def memory_page(request: HttpRequest, uid: str) -> HttpResponse:
    """Show a memory, and journal the reveal of a secret. Reading it here is not use: it counts no access."""
    memory = queries.get_visible_memory(request, uid)
    links = not memory.flags  # links of unapproved content are not clickable
    html = markdown.render(without_title_line(memory.content, memory.title) or memory.content, links=links)
    context = {
        **_state_context(memory),
        **cached_until_change(
            request,
            "history",
            request_clearance(request),
            lambda: _history_context(request, memory, MAX_VERSIONS_ON_PAGE),
            memory.pk,
            memory.updated_at,
        ),
        "html": html,
        "changed": changed_files([memory]).get(memory.pk, []),
    }
    if memory.overview:
        context["overview_html"] = markdown.render(memory.overview, below=_OVERVIEW_HEADING, links=links)
    reveal_if_secret(request, memory, "page", [one.sensitivity for one in context["versions"]])
    context |= _related_context(request, memory) | _action_context(request, memory)
    return render(request, "memory/page.html", context)


@require_safe
def memory_history(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """List all changes of a memory, newest first; for htmx the section of its page with the newest."""
    memory = queries.get_visible_memory(request, uid)
    before = _parse_before(request)
    is_part = wants_fragment(request, "memory-history")
    context = _history_context(
        request, memory, MAX_VERSIONS_ON_PAGE if is_part else VERSIONS_PER_PAGE, before
    )
    reveal_if_secret(request, memory, "history", [one.sensitivity for one in context["versions"]])
    name = "memory/page.html#history_section" if is_part else "memory/history.html"
    return render(request, name, {"memory": memory, "first": before is None, **context})


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
    changes, older = versions.visible_changes(memory, request_clearance(request), limit=limit, before=before)
    return {"versions": changes, "older": older}


def _state_context(memory: Memory) -> dict[str, Any]:
    return {
        "memory": memory,
        **{name: list_values(memory, name) for name in LIST_FIELDS},
        "is_trashed": memory.deleted_at is not None,
        "is_expired": memory.deleted_at is None and memory.is_expired(timezone.now()),
    }


def _action_context(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    """Return what the person may do, and where they continue when a higher level hides the memory."""
    came_from = referring_page(request, reverse("memory", args=[memory.uid]))
    private = Sensitivity.PRIVATE.value
    stays = request_clearance(request).allows(memory.project, private)
    return {
        "may_restore": is_allowed(request, "restore"),
        "may_hide": memory.sensitivity == Sensitivity.PUBLIC.value
        and full_clearance(request).allows(memory.project, private),
        "came_from": came_from,
        "after_hiding": request.path if stays else came_from,
    }


def _related_context(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    """Return the rows about the memory. Only those that change without a journal entry are read each time."""
    clearance = request_clearance(request)
    journaled = cached_until_change(
        request,
        "memory",
        clearance,
        lambda: _journaled_context(memory, clearance),
        memory.pk,
        memory.updated_at,
    )
    uses, events = find_uses(memory, clearance, MAX_USES), queries.events_of(memory, clearance)
    sessions = [journaled["session"], *(use.injection.session for use in uses[:MAX_USES_LISTED])]
    name_sessions([one for one in (*sessions, *(event.session for event in events)) if one], clearance)
    return {
        **journaled,
        "uses": uses[:MAX_USES_LISTED],
        "use_count": len(uses),
        "more_uses": len(uses) == MAX_USES,
        "use_chart": _use_chart([use.injection.at for use in uses]),
        "events": events,
    }


def _journaled_context(memory: Memory, clearance: Clearance) -> dict[str, Any]:
    """Return the rows about the memory whose changes are all in the journal."""
    facts = queries.facts_of(memory, clearance)
    rows = list(memory_journal(memory, clearance)[: queries.MAX_JOURNAL_ENTRIES + 1])
    linked = queries.linked_memories(memory, clearance)
    return {
        "session": queries.session_of(memory),
        "facts": facts[: queries.MAX_FACTS],
        "more_facts": len(facts) > queries.MAX_FACTS,
        "journal": rows[: queries.MAX_JOURNAL_ENTRIES],
        "more_journal": len(rows) > queries.MAX_JOURNAL_ENTRIES,
        "related": find_related(memory, clearance),
        "linked": linked,
        "last_merge": last_merge(memory, clearance) if linked.merged_from else "",
    }


def _use_chart(moments: Sequence[datetime]) -> charts.Chart | None:
    """Draw the number of uses over time; None if they are all of one day."""
    days = Counter(timezone.localtime(at).date() for at in moments)
    rows = [(day, "knowledge", count) for day, count in sorted(days.items())]
    return charts.over_time(rows) if len(rows) > 1 else None


_SCALAR_FIELDS = (
    "type category sensitivity scope project session_id key importance trust confidence"
    " superseded_by pinned may_be_outdated created_at updated_at expires_at"
).split()
_LIST_FIELDS = ("tags", "concepts", "aliases", "files_read", "files_modified")


def to_json(memory: Memory, clearance: Clearance) -> str:
    """Return the memory as ``GET /api/v1/memories/{id}`` does."""
    return json.dumps(_serialize(memory, clearance), ensure_ascii=False, indent=2) + "\n"


def to_markdown(memory: Memory, clearance: Clearance) -> str:
    """Return title, summaries, content, and below a rule the other fields."""
    fields = _serialize(memory, clearance)
    title = collapse_whitespace(fields["title"]) or fields["id"]
    parts = [f"# {title}"]
    summaries = dict.fromkeys(collapse_whitespace(fields[name]) for name in ("subtitle", "abstract"))
    parts += [f"> {text}" for text in summaries if text not in ("", title)]
    parts += [without_title_line(fields["content"], title).strip(), fields["overview"].strip()]
    metadata = "\n".join(_metadata_lines(fields))
    return "\n\n".join([*filter(None, parts), "---", metadata]) + "\n"


def _serialize(memory: Memory, clearance: Clearance) -> dict[str, Any]:
    return serializers.memory(memory, visible_replacements([memory], clearance))


def _metadata_lines(fields: Mapping[str, Any]) -> list[str]:
    given = [name for name in _SCALAR_FIELDS if fields[name] is not False and fields[name] not in (None, "")]
    lines = [f"- {_field_label(name)}: {fields[name]}" for name in given]
    lines += [f"- {_field_label(name)}: {', '.join(fields[name])}" for name in _LIST_FIELDS if fields[name]]
    if entities := fields["entities"]:
        named = ", ".join(f"{one['entity']} ({one['entity_type']})" for one in entities)
        lines.append(f"- Entities: {named}")
    return [*lines, f"- Id: {fields['id']}"]


def _field_label(name: str) -> str:
    words = {"sensitivity": "level", "session_id": "session", "created_at": "created"}
    words |= {"updated_at": "changed", "expires_at": "expires", "superseded_by": "replaced by"}
    return words.get(name, name.replace("_", " ")).capitalize()


# Markdown is sent as plain text: a browser shows it and runs nothing in it.
FORMATS = {
    "markdown": (to_markdown, "text/plain; charset=utf-8"),
    "json": (to_json, "application/json"),
}


@require_safe
def memory_as(request: HttpRequest, uid: str, form: str) -> HttpResponse:
    """Export the memory in a format of :data:`FORMATS`; the reveal of a secret is journaled."""
    if form not in FORMATS:
        raise Http404
    memory = queries.get_visible_memory(request, uid)
    export, content_type = FORMATS[form]
    text = export(memory, request_clearance(request))
    reveal_if_secret(request, memory, form)
    return HttpResponse(text, content_type=content_type)
