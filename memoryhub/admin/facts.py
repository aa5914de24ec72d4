"""Facts: stored, corrected and deleted through ``memoryhub.facts.services``."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.widgets import AdminTextareaWidget
from django.db.models import QuerySet
from django.http import HttpRequest

from memoryhub.accounts.clearance import request_actor
from memoryhub.admin.base import (
    EMPTY_CELL,
    ActionResponse,
    Confirmation,
    DraftAdmin,
    ServiceForm,
    actor_column,
    column,
    is_confirmed,
    memory_link,
    moment_column,
    render_confirmation,
    select_rows,
    value_column,
)
from memoryhub.admin.lists import LevelFilter, ProjectFilter, age_filter, value_filter
from memoryhub.capture.segments import BOUNDARY_FACTS, BOUNDARY_PREDICATE
from memoryhub.core.database import batched
from memoryhub.core.form_fields import ShareField, TextField, make_draft
from memoryhub.core.text import format_count, shorten
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact

_MAX_CELL_CHARS = 80


class FactForm(ServiceForm):
    """A fact. Its memory is entered by id, because a list of choices would show hidden memories."""

    object = TextField(widget=AdminTextareaWidget({"rows": 2}), required=True)
    memory_id = forms.CharField(
        required=False,
        max_length=64,
        label="Memory",
        help_text="The id of the memory that the fact comes from. Optional.",
    )
    unchanged_since = forms.CharField(required=False, widget=forms.HiddenInput)
    draft: FactDraft | None = None

    class Meta:
        model = Fact
        fields = ("subject", "predicate", "object", "confidence", "sensitivity", "project", "session_id")
        field_classes = {"confidence": ShareField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["unchanged_since"] = self.instance.updated_at.isoformat()
        if self.instance.memory:
            self.initial["memory_id"] = self.instance.memory.uid

    def clean_unchanged_since(self) -> datetime | None:
        """Return ``updated_at`` when the form was opened; None on a form that adds."""
        if not self.instance.pk:
            return None
        try:
            return datetime.fromisoformat(self.cleaned_data["unchanged_since"])
        except ValueError:
            raise forms.ValidationError("This form is incomplete. Open it again.") from None

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        if self.errors:
            return cleaned
        values = {name: cleaned[name] for name in self.fields if name != "unchanged_since"}
        if self.instance.pk and "confidence" not in self.changed_data:
            values["confidence"] = self.instance.confidence
        self.draft = make_draft(self, FactDraft, values)
        return cleaned


@admin.action(description="Delete facts…", permissions=["delete"])
def delete(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Fact]) -> ActionResponse:
    """Delete facts after a confirmation, because facts have no trash."""
    rows = select_rows(model_admin, request, queryset, "subject", "object")
    if not rows:
        return None
    if not is_confirmed(request):
        explanation = f"{format_count(len(rows), 'fact')} will be deleted. Facts have no trash."
        question = Confirmation("Delete facts", explanation, "Delete", danger=True)
        return render_confirmation(model_admin, request, "delete", question, rows)
    actor = request_actor(request)
    chunks = batched([row.uid for row in rows], services.MAX_FACTS)
    deleted = sum(len(services.delete_facts(chunk, actor)) for chunk in chunks)
    model_admin.message_user(request, f"{format_count(deleted, 'fact')} deleted.")
    return None


class SegmentFactFilter(SimpleListFilter):
    """Hides the facts that mark segment boundaries of sessions unless they are requested."""

    title = "what"
    parameter_name = "what"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [("marks", "where sessions change their subject"), ("all", "all")]

    def choices(self, changelist: Any) -> Any:
        first, *others = super().choices(changelist)
        yield {**first, "display": "facts"}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "all" or request.GET.get("predicate") == BOUNDARY_PREDICATE:
            return queryset
        if self.value() == "marks":
            return queryset.filter(BOUNDARY_FACTS)
        return queryset.exclude(BOUNDARY_FACTS) if self.value() is None else queryset.none()


@admin.register(Fact)
class FactAdmin(DraftAdmin):
    form = FactForm
    journal_type = "fact"
    link_lookups = ("memory__uid",)
    list_display = ("subject", "predicate", "object_short", "confidence", "level", "project", "updated")
    list_filter = (
        SegmentFactFilter,
        LevelFilter,
        value_filter("predicate"),
        ProjectFilter,
        age_filter("updated_at", "changed"),
    )
    list_select_related = ("memory",)
    search_fields = ("subject", "predicate", "object")
    ordering = ("-updated_at",)
    actions = (delete,)
    readonly_fields = (
        *("id_shown", "memory_shown", "stated_by", "created_at", "updated_at", "valid_from", "valid_until"),
    )
    fieldsets = (
        (None, {"fields": ("subject", "predicate", "object", "confidence")}),
        ("Place", {"fields": ("sensitivity", "project", "session_id", "memory_id")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("memory")

    def get_fieldsets(self, request: HttpRequest, obj: Fact | None = None) -> Any:
        record = ("Record", {"fields": self.readonly_fields})
        return self.fieldsets if obj is None else (*self.fieldsets, record)

    def save_model(self, request: HttpRequest, obj: Fact, form: FactForm, change: bool) -> None:
        draft: Any = form.draft
        if change:
            stored = services.update_fact(
                obj.uid, draft, request_actor(request), unchanged_since=form.cleaned_data["unchanged_since"]
            )
        else:
            stored, is_new = services.create_fact(draft, request_actor(request))
            if not is_new:
                self.message_user(request, "This fact already exists. Its confidence was updated.", "INFO")
        self.adopt(obj, stored)

    def delete_model(self, request: HttpRequest, obj: Fact) -> None:
        services.delete_fact(obj.uid, request_actor(request))

    @column("object", order="object")
    def object_short(self, fact: Fact) -> str:
        return shorten(fact.object, _MAX_CELL_CHARS)

    updated = moment_column("changed", "updated_at")

    id_shown = value_column("id", "uid")
    stated_by = actor_column("stated by", "author")

    @column("drawn from")
    def memory_shown(self, fact: Fact) -> str:
        return memory_link(fact.memory)  # visible wherever the fact is

    def memory_id(self, fact: Fact) -> str:
        return fact.memory.uid if fact.memory else EMPTY_CELL
