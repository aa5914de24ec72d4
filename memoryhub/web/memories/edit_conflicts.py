"""Merge concurrent edits of a memory field by field."""

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
    """Return a merged form, and the fields that both sides changed (stored value and submitted value).

    Fields that the person did not change take the stored value; the others keep the submitted one. The new
    form counts as opened now, so saving it again overwrites. ``names``: the fields of the form, if not all.
    """
    opened: datetime = form.cleaned_data["unchanged_since"]
    then = state_at(memory, opened, clearance)
    data = form.data.copy()  # type: ignore[attr-defined]
    fresh = _make_form(None, form.clearance, memory, names, clearance)
    collisions = []
    for name, field in fresh.fields.items():
        stored = fresh.initial.get(name)
        if name == "unchanged_since" or not field.has_changed(stored, form.data.get(name)):
            continue
        is_untouched = name not in form.changed_data
        if is_untouched or not field.has_changed(then.get(name, stored), form.data.get(name)):
            data[name] = field.prepare_value(stored)
        elif name in then:
            collisions.append(
                field_change(name, current_value(memory, name, clearance), form.cleaned_data[name])
            )
        if field.show_hidden_initial:
            data[form.add_initial_prefix(name)] = field.prepare_value(stored)
    data["unchanged_since"] = fresh.initial["unchanged_since"]
    return _make_form(data, form.clearance, memory, names, clearance), collisions


def merge_if_changed(
    form: MemoryForm, memory: Memory, clearance: Clearance, *names: str
) -> tuple[MemoryForm, list[FieldChange]]:
    """Call :func:`merge_edits` if the memory has changed since the form was opened, else return the form."""
    if not form.is_valid() or memory.updated_at == form.cleaned_data["unchanged_since"]:
        return form, []
    return merge_edits(form, memory, clearance, *names)


def _make_form(
    data: Mapping[str, Any] | None,
    clearance: Clearance,
    memory: Memory,
    names: Sequence[str],
    shown: Clearance,
) -> MemoryForm:
    if names:
        return FieldForm(data, clearance, memory, *names)
    return MemoryForm(data, clearance, memory, shown=shown)
