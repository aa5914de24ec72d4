"""Memories: searched like in the hub and changed in bulk. One memory is edited on its page in the hub."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.forms import CheckboxInput
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from memoryhub.access import policy
from memoryhub.access.policy import Sensitivity
from memoryhub.accounts.clearance import record_reveal, request_clearance
from memoryhub.accounts.permissions import ERASE_MEMORY, REPAIR_UNKNOWN
from memoryhub.admin import memory_actions
from memoryhub.admin.base import (
    EMPTY_CELL,
    ModelForm,
    PreparedList,
    VisibleRowsAdmin,
    actor_column,
    admin_url,
    column,
    format_link,
    memory_link,
    moment_column,
    value_column,
)
from memoryhub.admin.filters import (
    FlagFilter,
    LevelFilter,
    PinFilter,
    ProjectFilter,
    StateFilter,
    UseFilter,
    age_filter,
    choice_filter,
    is_repair_list,
    value_filter,
)
from memoryhub.core.text import format_count, shorten
from memoryhub.core.vocabulary import SCOPES, TYPES
from memoryhub.memories.rows import list_values
from memoryhub.models import Fact, Memory
from memoryhub.search.hybrid import search_memories

_MAX_TITLE_CHARS = 90
_MAX_ORDERED = 500  # search results that are sorted by score


def _list_column(name: str) -> Callable[[Any, Memory], str]:
    def show(self: Any, memory: Memory) -> str:
        return "\n".join(list_values(memory, name))

    show.__name__ = name  # Django makes the label from it
    return show


class _MemoryForm(ModelForm):
    class Meta:
        labels = {"ttl_days": "Expires after days"}


class MemoryList(PreparedList):
    """The list of memories, which loads no long texts."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        return rows.defer("content", "overview", "abstract", "subtitle")


@admin.register(Memory)
class MemoryAdmin(VisibleRowsAdmin):
    form = _MemoryForm
    journal_type = "memory"
    link_lookups = ("session_id",)
    list_display = (
        *("heading", "level", "type", "category", "project", "weight", "used", "updated", "state"),
        "flagged",
    )
    list_filter = (
        StateFilter,
        LevelFilter,
        choice_filter("type", TYPES),
        value_filter("category"),
        ProjectFilter,
        choice_filter("scope", SCOPES),
        UseFilter,
        FlagFilter,
        PinFilter,
        age_filter("updated_at", "changed"),
        age_filter("created_at", "created"),
    )
    ordering = ("-updated_at",)
    search_fields = ("title",)  # makes Django show the search box; see get_search_results
    search_help_text = "Searches like the hub itself, best matches first. You can also enter an id."
    actions = memory_actions.ALL_ACTIONS
    fieldsets = (
        (None, {"fields": ("title", "content")}),
        (
            "Kind",
            {
                "fields": (
                    *("sensitivity", "type", "category", "project", "scope", "tags", "concepts", "aliases"),
                )
            },
        ),
        ("Weight", {"fields": ("importance", "trust", "confidence", "ttl_days")}),
        ("Short forms", {"classes": ("collapse",), "fields": ("subtitle", "abstract", "overview")}),
        (
            "Origin",
            {
                "classes": ("collapse",),
                "fields": (
                    *("session_id", "key", "files_read", "files_modified", "entities", "discovery_tokens"),
                ),
            },
        ),
        (
            "Record",
            {
                "fields": (
                    *("id_shown", "state", "owner", "stored_by", "created_at", "updated_at", "expires_at"),
                    *("pinned_at", "outdated_at"),
                    *("deleted_at", "trash_reason", "merged_into_shown", "replaced_by_shown"),
                    "accessed_count",
                    *("last_accessed_at", "flags", "reviewed_at", "facts_shown", "content_hash"),
                )
            },
        ),
    )
    readonly_fields = flatten_fieldsets(fieldsets)

    # The list

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the visible rows, or those with an unknown level in the list that repairs them."""
        if is_repair_list(request):
            return Memory.objects.of_unknown_level(request_clearance(request)).order_by(*self.ordering)
        return super().get_queryset(request)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return MemoryList

    def get_list_display_links(self, request: HttpRequest, list_display: Any) -> Any:
        """Memories with an unknown level cannot be opened."""
        return None if is_repair_list(request) else super().get_list_display_links(request, list_display)

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search the visible and filtered rows like the hub does, best match first."""
        if not search_term.strip():
            return queryset, False
        ids = search_memories(queryset, search_term, limit=0).ids
        if exact := queryset.filter(uid=search_term.strip()).values_list("pk", flat=True).first():
            ids = [exact, *ids]
        found = queryset.filter(pk__in=ids)
        if not request.GET.get(ORDER_VAR):
            places = [When(pk=pk, then=Value(place)) for place, pk in enumerate(ids[:_MAX_ORDERED])]
            place = Case(*places, default=Value(len(ids)), output_field=IntegerField()) if places else "pk"
            found = found.order_by(place, "-pk")
        return found, False

    def get_list_filter(self, request: HttpRequest) -> Any:
        """Offer only level and project in the list that repairs unknown levels."""
        return (LevelFilter, ProjectFilter) if is_repair_list(request) else self.list_filter

    # Permissions. Without an object they are those of the bulk actions.

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Memory | None = None) -> bool:
        return obj is None and super().has_change_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Memory | None = None) -> bool:
        return obj is None and super().has_delete_permission(request)

    def has_erase_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(ERASE_MEMORY)

    def has_repair_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(REPAIR_UNKNOWN)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        if not is_repair_list(request):
            return super().get_actions(request)
        repair = memory_actions.repair_level
        return {"repair_level": (repair, "repair_level", "Set a known level…")}

    # The page of one memory

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        super().prepare_rows(request, rows)
        for memory in rows:
            memory.clearance = request_clearance(request)  # for columns that query other rows

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any
    ) -> Any:
        """Journal the opening of a secret memory, and offer actions as buttons."""
        obj: Memory | None = options.get("obj")
        if obj is not None:
            if obj.sensitivity == Sensitivity.SECRET.value:
                record_reveal(request, obj, "admin")
            context["single_actions"] = self._single_actions(request, obj)
            context["all_states"] = admin_url(Memory, "changelist", query="state=all")
        return super().render_change_form(request, context, *args, **options)

    def _single_actions(self, request: HttpRequest, memory: Memory) -> list[tuple[str, str]]:
        """Return the bulk actions that apply to this memory."""
        fitting = ("restore", "erase") if memory.has_ended(timezone.now()) else ("expire", "trash", "erase")
        allowed = self.get_actions(request)
        return [(name, allowed[name][2]) for name in fitting if name in allowed]

    def view_on_site(self, obj: Memory) -> str:
        return reverse("memory", args=[obj.uid])

    # Columns

    def action_checkbox(self, obj: Memory) -> SafeString:
        """Label the checkbox with the redacted title, where Django would use ``str()``."""
        words = f"Select this object for an action - {policy.display_name(obj)}"
        box = CheckboxInput({"class": "action-select", "aria-label": words}, lambda value: False)
        return box.render(ACTION_CHECKBOX_NAME, str(obj.pk))

    @column("title", order="title")
    def heading(self, memory: Memory) -> str:
        return shorten(policy.display_name(memory), _MAX_TITLE_CHARS)

    @column("state")
    def state(self, memory: Memory) -> str:
        if memory.deleted_at:
            return f"in the trash ({memory.trash_reason})" if memory.trash_reason else "in the trash"
        return "expired" if memory.is_expired(timezone.now()) else "live"

    weight = value_column("importance", "importance", "{:.2f}".format, order="importance")

    used = value_column("used", "accessed_count", order="accessed_count")

    @column("flags")
    def flagged(self, memory: Memory) -> str:
        return (isinstance(memory.flags, list) and ", ".join(map(str, memory.flags))) or EMPTY_CELL

    updated = moment_column("changed", "updated_at")
    stored_by = actor_column("stored by", "author")

    @column("id")
    def id_shown(self, memory: Memory) -> SafeString:
        return format_html("<code>{}</code>", memory.uid)

    @column("merged into")
    def merged_into_shown(self, memory: Any) -> str:
        target = Memory.objects.visible_to(memory.clearance).filter(pk=memory.merged_into_id).first()
        return memory_link(target, _MAX_TITLE_CHARS)

    @column("replaced by")
    def replaced_by_shown(self, memory: Any) -> str:
        target = Memory.objects.visible_to(memory.clearance).filter(pk=memory.superseded_by_id).first()
        return memory_link(target, _MAX_TITLE_CHARS)

    @column("facts")
    def facts_shown(self, memory: Any) -> str:
        count = Fact.objects.visible_to(memory.clearance).filter(memory=memory).count()
        address = admin_url(Fact, "changelist", query=f"memory__uid={memory.uid}")
        return format_link(address, format_count(count, "fact")) if count else EMPTY_CELL

    # Lists of values

    tags, concepts, aliases, files_read, files_modified = map(
        _list_column, ("tags", "concepts", "aliases", "files_read", "files_modified")
    )

    def entities(self, memory: Memory) -> str:
        entities = list_values(memory, "entities")
        return "\n".join(f"{entity['entity']} | {entity['entity_type']}" for entity in entities)
