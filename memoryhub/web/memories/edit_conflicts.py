"""Two people at one memory: what was typed is laid upon what is stored now, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Clearance
from memoryhub.memories.versions import current_value
from memoryhub.models import Memory
from memoryhub.web.memories.forms import FieldForm, MemoryForm
from memoryhub.web.memories.revisions import FieldChange, field_change, state_at


def merge_edits(
    form: MemoryForm, memory: Memory, clearance: Clearance, *names: str
) -> tuple[MemoryForm, list[FieldChange]]:
    """A form to go on with, and the fields that both sides changed (stored now, against typed).

    ``names``: the fields of the form, when these are not all.

    Fields that the person left alone take what is stored now; what the person typed stays typed. The form
    then counts as opened now, so that saving it again is a decision.
    """
    opened: datetime = form.cleaned_data["unchanged_since"]
    then = state_at(memory, opened, clearance)
    data = form.data.copy()  # type: ignore[attr-defined]
    fresh = _make_form(None, form.reach, memory, names)
    collisions = []
    for name, field in fresh.fields.items():
        stored = fresh.initial.get(name)
        if name == "unchanged_since" or not field.has_changed(stored, form.data.get(name)):
            continue
        left_alone = name not in form.changed_data
        if left_alone or not field.has_changed(then.get(name, stored), form.data.get(name)):
            data[name] = field.prepare_value(stored)
        elif name in then:
            collisions.append(field_change(name, current_value(memory, name), form.cleaned_data[name]))
        if field.show_hidden_initial:
            data[form.add_initial_prefix(name)] = field.prepare_value(stored)
    data["unchanged_since"] = fresh.initial["unchanged_since"]
    return _make_form(data, form.reach, memory, names), collisions


def merge_if_changed(
    form: MemoryForm, memory: Memory, clearance: Clearance, *names: str
) -> tuple[MemoryForm, list[FieldChange]]:
    """:func:`merge` where somebody changed the memory since the form was opened; else the form as it is."""
    if not form.is_valid() or memory.updated_at == form.cleaned_data["unchanged_since"]:
        return form, []
    return merge_edits(form, memory, clearance, *names)


def _make_form(
    data: Mapping[str, Any] | None, reach: Clearance, memory: Memory, names: Sequence[str]
) -> MemoryForm:
    return FieldForm(data, reach, memory, *names) if names else MemoryForm(data, reach, memory)
