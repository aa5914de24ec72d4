"""Bulk actions on memories, done by the services under the user's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Sensitivity
from memoryhub.accounts.clearance import request_actor
from memoryhub.admin.confirmation import (
    ActionResponse,
    Confirmation,
    is_confirmed,
    render_confirmation,
    select_rows,
)
from memoryhub.core.text import format_count
from memoryhub.models import Memory

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
