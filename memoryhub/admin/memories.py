"""Memories: searched like in the hub and changed in bulk. One memory is edited on its page in the hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.forms import CheckboxInput
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from memoryhub import memories
from memoryhub.access import policy
from memoryhub.access.policy import LEVELS, Sensitivity
from memoryhub.accounts.clearance import record_reveal, request_actor, request_clearance
from memoryhub.accounts.permissions import ERASE_MEMORY, REPAIR_UNKNOWN
from memoryhub.admin.base import (
    EMPTY_CELL,
    ActionResponse,
    Confirmation,
    ModelForm,
    PreparedList,
    VisibleRowsAdmin,
    actor_column,
    admin_url,
    column,
    format_link,
    is_confirmed,
    memory_link,
    moment_column,
    render_confirmation,
    select_rows,
    value_column,
)
from memoryhub.admin.lists import (
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

MAX_ERASED = 500  # the confirmation page lists all of them
_MAX_REFUSALS_SHOWN = 5

_VALUE_FIELDS: dict[str, forms.Field] = {
    "sensitivity": forms.ChoiceField(
        choices=[(level, level) for level in LEVELS],
        help_text="Memories disappear from this list if their level is switched off.",
    ),
    "importance": forms.FloatField(
        min_value=0, max_value=1, widget=forms.NumberInput({"step": "any"}), help_text="0 to 1"
    ),
    "category": forms.CharField(max_length=100),
}


def _value_form(request: HttpRequest, name: str) -> forms.Form:
    """Return a form with one field, bound if the confirmation page was submitted."""
    form_class = type(f"{name.title()}Form", (forms.Form,), {name: _VALUE_FIELDS[name]})
    form: forms.Form = form_class(request.POST if is_confirmed(request) else None)
    return form


def _set_value(
    name: str, model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]
) -> ActionResponse:
    """Ask for a value of the field ``name``, showing the current ones, and set it."""
    rows = select_rows(model_admin, request, queryset, "title", name)
    if not rows:
        return None
    form = _value_form(request, name)
    if not form.is_valid():
        explanation = f"The {name} of {format_count(len(rows), 'memory')} will be set to:"
        question = Confirmation(f"Set {name}", explanation, f"Set {name}")
        return render_confirmation(model_admin, request, f"set_{name}", question, rows, form)
    try:
        acted = memories.apply_bulk_action(
            "set", [row.uid for row in rows], request_actor(request), **form.cleaned_data
        )
    except memories.StoreError as refusal:  # for example a credential in the value
        model_admin.message_user(request, f"Nothing was changed: {refusal.message}.", "ERROR")
        return None
    if held := len(acted.done) + len(acted.same):
        _show_undo_message(
            model_admin,
            request,
            acted,
            f"The {name} of {format_count(held, 'memory')} is now {form.cleaned_data[name]}.",
        )
    for uid, words in acted.refused[:_MAX_REFUSALS_SHOWN]:
        model_admin.message_user(request, f"Not changed: {uid}: {words}", "WARNING")
    if len(acted.refused) > _MAX_REFUSALS_SHOWN:
        model_admin.message_user(
            request, f"Not changed: {len(acted.refused) - _MAX_REFUSALS_SHOWN} more.", "WARNING"
        )
    return None


def _show_undo_message(
    model_admin: ModelAdmin[Any], request: HttpRequest, acted: memories.BulkResult, text: str
) -> None:
    """Show the result, with an undo button if anything was changed."""
    if acted.done:
        context = {"acted": acted, "text": text, "back": request.get_full_path()}
        text = render_to_string("admin/memoryhub/acted.html", context, request=request)
    model_admin.message_user(request, text, "SUCCESS")


def _value_action(name: str) -> Callable[..., ActionResponse]:
    action = partial(_set_value, name)
    action.__name__ = f"set_{name}"  # type: ignore[attr-defined]  # the name of the action
    return admin.action(action, description=f"Set {name}…", permissions=["change"])


def _undoable_action(
    kind: str, description: str, done: str, permissions: Sequence[str]
) -> Callable[..., None]:
    """Return an action that does not ask first."""

    @admin.action(description=description, permissions=permissions)
    def run(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> None:
        rows = select_rows(model_admin, request, queryset, "title")
        if not rows:
            return
        acted = memories.apply_bulk_action(kind, [row.uid for row in rows], request_actor(request))
        text = f"{format_count(len(acted.done), 'memory')} {done}."
        if acted.done:
            _show_undo_message(model_admin, request, acted, text)
        else:
            model_admin.message_user(request, text, "WARNING")
        if left := len(rows) - len(acted.done):
            model_admin.message_user(request, f"{format_count(left, 'memory')} left unchanged.", "INFO")

    run.__name__ = kind
    return run


@admin.action(description="Erase permanently…", permissions=["erase"])
def erase(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> ActionResponse:
    """Erase memories permanently after a confirmation page that lists every one of them."""
    rows = select_rows(model_admin, request, queryset, "title", most=MAX_ERASED)
    if not rows:
        return None
    if not is_confirmed(request):
        what = format_count(len(rows), "memory")
        explanation = (
            f"{what} will be erased with their versions, labels, file references and facts, also from the "
            "database file. This cannot be undone. The journal keeps a hash of each."
        )
        button = f"Erase {what} permanently"
        question = Confirmation("Erase permanently", explanation, button, names_all=True, danger=True)
        return render_confirmation(model_admin, request, "erase", question, rows)
    gone = memories.erase_memories([row.uid for row in rows], request_actor(request))
    model_admin.message_user(request, f"{format_count(len(gone), 'memory')} erased permanently.")
    return None


@admin.action(description="Set a known level…", permissions=["repair"])
def repair_level(
    model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]
) -> ActionResponse:
    """Set a known level, the only action on memories with an unknown one."""
    rows = select_rows(model_admin, request, queryset, "title", "sensitivity")
    if not rows:
        return None
    form = _value_form(request, "sensitivity")
    if not form.is_valid():
        explanation = f"{format_count(len(rows), 'memory')} with an unknown level will be set to:"
        question = Confirmation("Set a known level", explanation, "Set level")
        return render_confirmation(model_admin, request, "repair_level", question, rows, form)
    level = Sensitivity(form.cleaned_data["sensitivity"])
    repaired = memories.repair_sensitivity([row.uid for row in rows], level, request_actor(request))
    model_admin.message_user(request, f"{format_count(len(repaired), 'memory')} set to {level}.")
    return None


ALL_ACTIONS = (
    *map(_value_action, _VALUE_FIELDS),
    _undoable_action("pin", "Pin", "pinned", ["change"]),
    _undoable_action("unpin", "Unpin", "unpinned", ["change"]),
    _undoable_action("expire", "Let expire now", "expired", ["change"]),
    _undoable_action("trash", "Move to the trash", "moved to the trash", ["delete"]),
    _undoable_action("restore", "Restore from trash or expiry", "restored", ["change", "delete"]),
    erase,
)


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
    actions = ALL_ACTIONS
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
        repair = repair_level
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
