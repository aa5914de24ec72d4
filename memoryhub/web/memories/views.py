"""The pages that show memories: the list and the search, the trash, and one memory with its history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_safe

from memoryhub import memories
from memoryhub.access import policy
from memoryhub.access.policy import Clearance, Sensitivity
from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance, reveal_if_secret
from memoryhub.accounts.permissions import ERASE_MEMORY
from memoryhub.backends import TEXT_COLUMNS
from memoryhub.backends.fts_query import Query, parse_query
from memoryhub.backends.statements import key_list
from memoryhub.core.pagination import InvalidCursor, page_number
from memoryhub.core.text import collapse_whitespace, format_count, without_title_line, without_title_prefix
from memoryhub.injection.queries import find_uses
from memoryhub.memories import serializers
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.freshness import changed_files
from memoryhub.memories.merge import last_merge
from memoryhub.memories.rows import LIST_FIELDS, is_unchanged, list_values, visible_replacements
from memoryhub.memories.versions import Snapshot, load_snapshot, memory_journal
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import Hit, SearchResults, search_memories, search_snapshot
from memoryhub.search.query_words import adapt_to_language
from memoryhub.search.related import find_related
from memoryhub.search.text_matching import extract_snippet, highlight_text, snippet_of_first_match
from memoryhub.stats import counts
from memoryhub.web.base import charts, markdown
from memoryhub.web.base.forms import parse_whole_number
from memoryhub.web.base.labels import name_sessions
from memoryhub.web.base.markdown import to_plain_text
from memoryhub.web.base.requests import (
    HtmxHttpRequest,
    cached_until_change,
    chosen_project,
    cursor_page,
    page_or_fragment,
    referring_page,
    return_url,
    update_address_bar,
    wants_fragment,
)
from memoryhub.web.memories import filters, versions
from memoryhub.web.memories.bulk_actions import (
    Selection,
    ended_memories,
    is_allowed,
    parse_selection,
    warn_changed_since,
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


TRASH_PAGE_SIZE = 20
MAX_ERASED_AT_ONCE = 1000
_TABS = {"trashed": ("In the trash", "deleted_at"), "expired": ("Expired", "expires_at")}


@require_http_methods(["GET", "HEAD", "POST"])
def trash_page(request: HttpRequest) -> HttpResponse:
    """List the trash; POST with ``uid``s erases after a confirmation."""
    return _handle_erase(request) if request.method == "POST" else _trash_list(request)


def may_erase(request: HttpRequest) -> bool:
    return bool(request.user.has_perm(ERASE_MEMORY))


def _trash_list(request: HttpRequest) -> HttpResponse:
    clearance = request_clearance(request)
    tab = request.GET.get("tab", "trashed")
    if tab not in _TABS:
        tab = "trashed"
    project = request.GET.get("project", "")
    counts = {name: ended_memories(clearance, name, project).count() for name in _TABS}
    context: dict[str, Any] = {
        "tab": tab,
        "total": counts[tab],
        "tabs": [
            {
                "title": title,
                "href": filter_url(request, tab=name),
                "current": name == tab,
                "count": counts[name],
            }
            for name, (title, _) in _TABS.items()
        ],
        "may_restore": is_allowed(request, "restore"),
        "may_erase": may_erase(request),
    }
    rows = ended_memories(clearance, tab, project).select_related("merged_into")
    try:
        context |= cursor_page(request, rows, _TABS[tab][1], TRASH_PAGE_SIZE)
    except InvalidCursor:
        return render(request, "trash.html", context | {"bad_cursor": filter_url(request)}, status=422)
    return render(request, "trash.html", context)


def _handle_erase(request: HttpRequest) -> HttpResponse:
    if not may_erase(request):
        raise PermissionDenied
    try:
        selection = parse_selection(request.POST, request_clearance(request))
        if len(selection.uids) > MAX_ERASED_AT_ONCE:
            raise memories.StoreError(f"at most {MAX_ERASED_AT_ONCE} at once; select fewer", "uid")
    except memories.StoreError as refusal:
        messages.error(request, f"Nothing was erased: {refusal.message}.")
        return redirect(_trash_url(request))
    if not selection.uids:
        messages.warning(request, "Nothing is selected. Select at least one memory.")
    elif request.POST.get("confirmed") != "yes":
        return _confirmation_page(request, selection)
    else:
        _erase(request, selection)
    return redirect(_trash_url(request))


def _erase(request: HttpRequest, selection: Selection) -> None:
    """Erase trashed and expired memories that have not changed since they were shown."""
    ended = [row.uid for row in _selected_ended(request, selection)]
    erased = memories.erase_memories(ended, request_actor(request), seen=selection.seen) if ended else []
    messages.success(request, f"{format_count(len(erased), 'memory')} erased permanently.")
    warn_changed_since(request, len(ended) - len(erased), "memory")


def _confirmation_page(request: HttpRequest, selection: Selection) -> HttpResponse:
    """List the memories to be erased, without those that have changed since they were ticked."""
    ended = _selected_ended(request, selection)
    unchanged = [row for row in ended if is_unchanged(row, selection.seen)]
    warn_changed_since(request, len(ended) - len(unchanged), "memory")
    if not ended:
        messages.warning(request, "None of these are in the trash any more.")
    back = _trash_url(request)
    if not unchanged:
        return redirect(back)
    context = {"chosen": unchanged, "back": back, "action": request.path}
    return render(request, "trash_erase.html", context)


def _selected_ended(request: HttpRequest, selection: Selection) -> list[Memory]:
    """Return the selected memories that are in the trash or have expired."""
    selected = Memory.objects.visible_to(request_clearance(request)).filter(uid__in=selection.uids)
    return list((selected.trashed() | selected.expired()).order_by("-pk"))


def _trash_url(request: HttpRequest) -> str:
    return return_url(request, "/trash/", "/trash/")


_OVERVIEW_HEADING = 3  # the level of the heading above an overview
MAX_VERSIONS_ON_PAGE = 5
VERSIONS_PER_PAGE = 20
MAX_USES, MAX_USES_LISTED = 200, 8  # prompts in the chart, and in the list


@require_safe
def memory_page(request: HttpRequest, uid: str) -> HttpResponse:
    """Show a memory, and journal the reveal of a secret. Reading it here is not use: it counts no access."""
    memory = filters.get_visible_memory(request, uid)
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
    memory = filters.get_visible_memory(request, uid)
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
    uses, events = find_uses(memory, clearance, MAX_USES), filters.events_of(memory, clearance)
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
    facts = filters.facts_of(memory, clearance)
    rows = list(memory_journal(memory, clearance)[: filters.MAX_JOURNAL_ENTRIES + 1])
    linked = filters.linked_memories(memory, clearance)
    return {
        "session": filters.session_of(memory),
        "facts": facts[: filters.MAX_FACTS],
        "more_facts": len(facts) > filters.MAX_FACTS,
        "journal": rows[: filters.MAX_JOURNAL_ENTRIES],
        "more_journal": len(rows) > filters.MAX_JOURNAL_ENTRIES,
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
    memory = filters.get_visible_memory(request, uid)
    export, content_type = FORMATS[form]
    text = export(memory, request_clearance(request))
    reveal_if_secret(request, memory, form)
    return HttpResponse(text, content_type=content_type)
