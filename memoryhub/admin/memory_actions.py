"""What a curator does to many memories at once. Each goes through the store, under the person's name."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Sensitivity
from memoryhub.accounts.clearance import actor_of
from memoryhub.admin.bulk import Answer, Question, Row, ask, counted, is_confirmed, say, select
from memoryhub.models import Memory

MOST_ERASED = 500  # all of them are named on the confirmation page
_REFUSALS_SHOWN = 5

_Levels = [(level, level) for level in LEVELS]


class SensitivityForm(forms.Form):
    sensitivity = forms.ChoiceField(
        choices=_Levels, help_text="Memories above the levels that your switches show leave this list."
    )


class ImportanceForm(forms.Form):
    importance = forms.FloatField(
        min_value=0, max_value=1, widget=forms.NumberInput({"step": "any"}), help_text="0 to 1"
    )


class CategoryForm(forms.Form):
    category = forms.CharField(max_length=100)


def _memories(count: int) -> str:
    return counted(count, "memory", "memories")


def _set(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    queryset: QuerySet[Memory],
    form_class: type[forms.Form],
) -> Answer:
    """Ask for a value and show what it replaces; then set it."""
    [name] = form_class.base_fields
    rows = select(model_admin, request, queryset, "title", name)
    if not rows:
        return None
    form = form_class(request.POST if is_confirmed(request) else None)
    if not form.is_valid():
        lead = f"The {name} of {_memories(len(rows))} will be set to:"
        question = Question(f"Set {name}", lead, f"Set {name}")
        return ask(model_admin, request, f"set_{name}", question, rows, form)
    try:
        acted = memories.act("set", [row.uid for row in rows], actor_of(request), **form.cleaned_data)
    except memories.StoreError as refusal:  # a credential, as a rule
        say(model_admin, request, f"Nothing was changed: {refusal.message}.", "ERROR")
        return None
    if held := len(acted.done) + len(acted.same):
        _tell(
            model_admin, request, acted, f"The {name} of {_memories(held)} is now {form.cleaned_data[name]}."
        )
    for uid, words in acted.refused[:_REFUSALS_SHOWN]:
        say(model_admin, request, f"Not changed: {uid}: {words}", "WARNING")
    if len(acted.refused) > _REFUSALS_SHOWN:
        say(model_admin, request, f"Not changed: {len(acted.refused) - _REFUSALS_SHOWN} more.", "WARNING")
    return None


def _tell(model_admin: ModelAdmin[Any], request: HttpRequest, acted: memories.Acted, text: str) -> None:
    """What was done, with a button that takes it back where anything was."""
    if acted.done:
        context = {"acted": acted, "text": text, "back": request.get_full_path()}
        text = render_to_string("admin/memoryhub/acted.html", context, request=request)
    say(model_admin, request, text, "SUCCESS")


@admin.action(description="Set sensitivity…", permissions=["change"])
def set_sensitivity(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> Answer:
    return _set(model_admin, request, queryset, SensitivityForm)


@admin.action(description="Set importance…", permissions=["change"])
def set_importance(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> Answer:
    return _set(model_admin, request, queryset, ImportanceForm)


@admin.action(description="Set category…", permissions=["change"])
def set_category(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> Answer:
    return _set(model_admin, request, queryset, CategoryForm)


def _do(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    queryset: QuerySet[Memory],
    kind: str,
    done: str,
) -> None:
    """A change that can be undone: done at once."""
    rows = select(model_admin, request, queryset, "title")
    if not rows:
        return
    acted = memories.act(kind, [row.uid for row in rows], actor_of(request))
    if acted.done:
        _tell(model_admin, request, acted, f"{_memories(len(acted.done))} {done}.")
    else:
        say(model_admin, request, f"0 memories {done}.", "WARNING")
    if left := len(rows) - len(acted.done):
        say(model_admin, request, f"{_memories(left)} left as before.", "INFO")


@admin.action(description="Let expire now", permissions=["change"])
def expire(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> None:
    _do(model_admin, request, queryset, "expire", "expired")


@admin.action(description="Move to the trash", permissions=["delete"])
def trash(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> None:
    _do(model_admin, request, queryset, "trash", "moved to the trash")


@admin.action(description="Restore from trash or expiry", permissions=["change", "delete"])
def restore(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> None:
    _do(model_admin, request, queryset, "restore", "restored")


@admin.action(description="Erase for good…", permissions=["erase"])
def erase(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> Answer:
    """Not to be undone: the page names every memory, and what is confirmed is exactly that."""
    rows = select(model_admin, request, queryset, "title", most=MOST_ERASED)
    if not rows:
        return None
    if not is_confirmed(request):
        return ask(model_admin, request, "erase", _erase_question(rows), rows)
    gone = memories.erase([row.uid for row in rows], actor_of(request))
    say(model_admin, request, f"{_memories(len(gone))} erased for good.")
    return None


def _erase_question(rows: list[Row]) -> Question:
    what = _memories(len(rows))
    lead = (
        f"{what} will be erased with earlier versions, labels, files, and the facts drawn from them, down to "
        "the last byte in the database file. This cannot be undone; the journal keeps a hash of each."
    )
    return Question("Erase for good", lead, f"Erase {what} for good", names_all=True, danger=True)


@admin.action(description="Set a known level…", permissions=["repair"])
def repair_level(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Memory]) -> Answer:
    """For memories under an unknown level: all that can be done with them."""
    rows = select(model_admin, request, queryset, "title", "sensitivity")
    if not rows:
        return None
    form = SensitivityForm(request.POST if is_confirmed(request) else None)
    if not form.is_valid():
        lead = f"{_memories(len(rows))} under a level that nobody knows will be set to:"
        question = Question("Set a known level", lead, "Set level")
        return ask(model_admin, request, "repair_level", question, rows, form)
    level = Sensitivity(form.cleaned_data["sensitivity"])
    repaired = memories.repair_level([row.uid for row in rows], level, actor_of(request))
    say(model_admin, request, f"{_memories(len(repaired))} set to {level}.")
    return None


ALL = (set_sensitivity, set_importance, set_category, expire, trash, restore, erase)
