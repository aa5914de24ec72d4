"""Read-only lists of the journal, sessions, events and injections."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import full_clearance, request_clearance
from memoryhub.admin.base import (
    EMPTY_CELL,
    ReadOnlyAdmin,
    actor_column,
    admin_url,
    column,
    format_json,
    format_link,
    format_moment,
    memory_link,
    moment_column,
    value_column,
)
from memoryhub.admin.lists import (
    ActorFilter,
    LevelFilter,
    ProjectFilter,
    age_filter,
    choice_filter,
    value_filter,
)
from memoryhub.core.text import format_count
from memoryhub.injection.queries import load_reports
from memoryhub.models import (
    AgentToken,
    Event,
    Fact,
    Injection,
    JournalEntry,
    MaintenanceRun,
    Memory,
    OAuthClient,
    Session,
)
from memoryhub.models.querysets import live_memories

_OBJECT_MODELS: dict[str, type[Model]] = {
    "memory": Memory,
    "fact": Fact,
    "token": AgentToken,
    "client": OAuthClient,
    "run": MaintenanceRun,
}
_FILTERED_MODELS = (Memory, Fact)


class OperationFilter(choice_filter("operation", ())):  # type: ignore[misc]
    """Offers only operations of visible rows, so that the choices reveal nothing about hidden ones."""

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        visible = JournalEntry.objects.visible_to(request_clearance(request))
        found = visible.order_by("operation").values_list("operation", flat=True).distinct()
        return [(operation, operation) for operation in found]


def _object_addresses(rows: list[JournalEntry], clearance: Clearance) -> dict[tuple[str, str], str]:
    """Return the addresses of the rows' objects that exist and are visible, with one query per kind."""
    found = {}
    for kind, model in _OBJECT_MODELS.items():
        uids = {row.object_id for row in rows if row.object_type == kind}
        if not uids:
            continue
        objects: Any = model._default_manager.filter(uid__in=uids)
        if model in _FILTERED_MODELS:
            objects = objects.visible_to(clearance)
        for pk, uid in objects.values_list("pk", "uid"):
            is_run = model is MaintenanceRun
            found[kind, uid] = reverse("run", args=[uid]) if is_run else admin_url(model, "change", pk)
    return found


@admin.register(JournalEntry)
class JournalAdmin(ReadOnlyAdmin):
    link_lookups = ("actor", "object_id")
    list_per_page = 40  # on a phone, a row with the name of an agent and its owner takes one line more
    list_display = (
        *("number", "moment_shown", "who", "operation", "kind", "object_shown", "project", "level"),
    )
    list_filter = (
        OperationFilter,
        choice_filter("object_type", tuple(_OBJECT_MODELS), "object"),
        ActorFilter,
        ProjectFilter,
        LevelFilter,
        age_filter("at", "when"),
    )
    search_fields = ("=object_id", "actor", "operation")
    search_help_text = "Search by the id of an object, by author or by operation."
    ordering = ("-seq",)
    fields = (
        *("number", "moment_shown", "who", "operation", "kind", "object_shown", "project", "level", "owner"),
        *("detail_shown", "hash"),
    )

    number = value_column("row", "seq", order="seq")
    moment_shown = moment_column("when", "at")
    who = actor_column("who", "actor")
    kind = value_column("object", "object_type", order="object_type")

    # The number of a row, which is in its address too, counts hidden rows, and its hash depends on them.

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return [name for name in self.list_display if name != "number" or full_clearance(request).is_whole]

    def get_list_display_links(self, request: HttpRequest, list_display: Any) -> list[Any]:
        return [name for name in list_display if name == "number"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        is_whole = full_clearance(request).is_whole
        return [name for name in self.fields if is_whole or name not in ("number", "hash")]

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        super().prepare_rows(request, rows)
        addresses = _object_addresses(rows, request_clearance(request))
        for row in rows:
            row.address = addresses.get((row.object_type, row.object_id), "")

    @column("id", order="object_id")
    def object_shown(self, row: Any) -> SafeString:
        if not row.address:
            return format_html("<code>{}</code>", row.object_id)
        return format_link(row.address, row.object_id)

    detail_shown = value_column("detail", "detail", format_json)


_MAX_CELL_CHARS = 80
_MAX_MEMORIES = 20


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    list_display = ("session_id", "project", "agent_shown", "started", "last", "memory_count", "event_count")
    list_filter = (ProjectFilter, age_filter("last_seen", "last active"))
    search_fields = ("session_id", "project")
    fields = (
        *("session_id", "project", "agent_shown", "folder", "started", "last", "ended"),
        *("segment_shown", "summary_shown", "memories_shown", "events_shown"),
    )

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-last_seen",)  # not in `ordering`, because it is an annotation

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        """Count the visible memories and events of the sessions in two queries."""
        super().prepare_rows(request, rows)
        clearance = request_clearance(request)
        names = {row.session_id for row in rows}
        memories = live_memories(clearance).filter(session_id__in=names)
        of_memories = memories.order_by().values_list("session_id", "project").annotate(n=Count("pk"))
        found = {(session_id, project): n for session_id, project, n in of_memories}
        events = Event.objects.visible_to(clearance).filter(session__in=[row.pk for row in rows])
        happened = dict(events.order_by().values_list("session").annotate(n=Count("pk")))
        for row in rows:
            row.clearance = clearance
            row.memory_count = found.get((row.session_id, row.project), 0)
            row.event_count = happened.get(row.pk, 0)

    agent_shown = actor_column("agent", "agent_seen")
    started = moment_column("started", "first_seen")
    last = moment_column("last active", "last_seen")

    @column("ended")
    def ended(self, session: Any) -> str:
        if not session.ended_seen:
            return EMPTY_CELL
        return f"{format_moment(session.ended_seen)} {session.end_reason}".rstrip()

    @column("folder")
    def folder(self, session: Any) -> str:
        return session.cwd if session.event_seen and session.cwd else EMPTY_CELL

    @column("segment")
    def segment_shown(self, session: Any) -> str:
        return str(session.segment) if session.event_seen else EMPTY_CELL

    memory_count = value_column("memories", "memory_count")
    event_count = value_column("events", "event_count")

    @column("summary")
    def summary_shown(self, session: Any) -> str:
        memory = Memory.objects.visible_to(session.clearance).filter(pk=session.summary_id).first()
        return memory_link(memory)

    @column("memories")
    def memories_shown(self, session: Any) -> str:
        same = {"session_id": session.session_id, "project": session.project}
        memories = live_memories(session.clearance).filter(**same)
        newest = memories.order_by("-created_at", "-pk").only("title", "uid", "sensitivity")[:_MAX_MEMORIES]
        links = [memory_link(memory) for memory in newest]
        if not links:
            return EMPTY_CELL
        total = f"all {format_count(memories.count(), 'memory')}"
        links.append(format_link(admin_url(Memory, "changelist", query=urlencode(same)), total))
        return format_html_join("", "<div>{}</div>", ((link,) for link in links))

    @column("events")
    def events_shown(self, session: Any) -> str:
        address = admin_url(Event, "changelist", query=f"session__id={session.pk}")
        total = format_count(session.event_count, "event")
        return format_link(address, total) if session.event_count else EMPTY_CELL


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    link_lookups = ("session__id",)
    list_display = (*("when", "event", "tool", "session_shown", "memorability", "reason", "memory_shown"),)
    list_filter = (
        value_filter("event"),
        value_filter("tool_name", "tool"),
        LevelFilter,
        age_filter("at", "when"),
    )
    search_fields = ("tool_name", "preview", "skip_reason", "=session__session_id")
    ordering = ("-at",)
    fields = (
        *("at", "session_shown", "event", "tool", "level", "segment", "boundary", "memorability"),
        *("parts", "reason", "memory_shown", "files", "keywords", "handlers_shown", "preview"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("session", "memory")

    when = moment_column("when", "at")
    tool = value_column("tool", "tool_name", order="tool_name")
    reason = value_column("not kept because", "skip_reason", order="skip_reason")

    @column("session", order="session__session_id")
    def session_shown(self, event: Event) -> SafeString:
        return format_link(admin_url(Session, "change", event.session.pk), event.session.session_id)

    @column("became")
    def memory_shown(self, event: Event) -> str:
        return memory_link(event.memory)  # visible wherever the event is

    parts = value_column("memorability by part", "memorability_parts", format_json)
    handlers_shown = value_column("handlers", "handlers", format_json)


@admin.register(Injection)
class InjectionAdmin(ReadOnlyAdmin):
    list_display = (
        *("when", "session_shown", "project", "level", "tokens", "shown_count", "withheld_count"),
        "duration",
    )
    list_filter = (ProjectFilter, LevelFilter, age_filter("at", "when"))
    search_fields = ("=uid", "prompt_preview", "=session__session_id")
    ordering = ("-at",)
    fields = (
        *("uid", "at", "session_shown", "project", "level", "prompt_preview", "token_budget", "tokens"),
        *("duration", "injected_shown", "withheld_shown"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("session")

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        for log in load_reports(rows, request_clearance(request)):
            log.injection.log = log  # type: ignore[attr-defined]

    when = moment_column("when", "at")
    duration = value_column("milliseconds", "took_ms", "{:.0f}".format, order="took_ms")

    @column("session")
    def session_shown(self, injection: Injection) -> str:
        return injection.session.session_id if injection.session else EMPTY_CELL

    @column("tokens used")
    def tokens(self, injection: Any) -> str:
        used = injection.log.tokens_used
        return EMPTY_CELL if used is None else str(used)

    @column("shown")
    def shown_count(self, injection: Any) -> int:
        return len(injection.log.shown)

    @column("withheld")
    def withheld_count(self, injection: Any) -> int:
        return len(injection.log.not_shown)

    @column("shown")
    def injected_shown(self, injection: Any) -> str:
        lines = [
            (memory_link(item.memory), "" if item.score is None else f"{item.score:.2f}", item.scale)
            for item in injection.log.shown
        ]
        return format_html_join("", "<div>{} {} {}</div>", lines) or EMPTY_CELL

    @column("withheld")
    def withheld_shown(self, injection: Any) -> str:
        lines = [(memory_link(item.memory), item.reason, item.detail) for item in injection.log.not_shown]
        return format_html_join("", "<div>{}: {} {}</div>", lines) or EMPTY_CELL
