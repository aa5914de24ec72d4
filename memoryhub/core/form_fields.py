"""Form fields and error messages of the pages and of the admin.

Untouched fields never alter what is stored. A form also refuses to replace values that it did not show.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.utils.choices import flatten_choices
from django.utils.formats import localize
from pydantic import BaseModel, ValidationError

from memoryhub.core.text import normalize_newlines

_ERROR_MESSAGES = {
    "string_too_long": "Use at most {max_length} characters.",
    "string_too_short": "Enter some text.",
    "too_long": "Enter at most {max_length} items.",
    "less_than_equal": "Enter a number of at most {le:g}.",
    "greater_than_equal": "Enter a number of at least {ge:g}.",
    "float_type": "Enter a number.",
    "missing": "This field is required.",
}


def to_sentence(text: str) -> str:
    """Return an error message with a capital letter and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def show_error(form: forms.BaseForm, field: str, message: str) -> None:
    """Add an error to a field of the form, or to the form if it has no such field."""
    form.add_error(field if field in form.fields else None, to_sentence(message))


def make_draft(form: forms.BaseForm, model: type[BaseModel], values: Mapping[str, Any]) -> Any:
    """Return a valid draft. Otherwise None, and the form shows the errors at its fields."""
    try:
        return model(**values)
    except ValidationError as invalid:
        for error in invalid.errors():
            _show_schema_error(form, error)
    return None


def _show_schema_error(form: forms.BaseForm, error: Any) -> None:
    name = str(error["loc"][0]) if error["loc"] else ""
    if name in form.errors:
        return
    kind = error["type"]
    if kind == "too_long" and isinstance(error["input"], str):
        kind = "string_too_long"
    message = _ERROR_MESSAGES.get(kind, "").format(**error.get("ctx", {}))
    message = message or to_sentence(error["msg"].removeprefix("Value error, "))
    if len(error["loc"]) > 1:
        message = f"Item {int(error['loc'][1]) + 1}: {message}"
    show_error(form, name, message)


class ShownValuesField(forms.CharField):
    """A hidden field that identifies the stored values that a form showed (:class:`ConcurrentEditMixin`)."""

    widget = forms.HiddenInput

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": False, **options})

    def has_changed(self, initial: Any, data: Any) -> bool:
        return False


class ConcurrentEditMixin:
    """For a form whose values several people may change: it replaces no value that it did not show.

    The form has a :class:`ShownValuesField` named ``unchanged_since``. Its ``initial`` are the stored values,
    also when it is submitted. The refusal names those that differ; saving again replaces them.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        form: Any = self
        instance = getattr(form, "instance", None)
        if instance is None or instance.pk:
            values = [form.initial.get(name) for name in form.fields if name != _SHOWN]
            form.initial[_SHOWN] = hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()

    def clean(self) -> Any:
        form: Any = self
        cleaned = super().clean()  # type: ignore[misc]
        shown, stored = cleaned.pop(_SHOWN, ""), form.initial.get(_SHOWN)
        if shown and shown != stored:
            form.data = form.data.copy()
            form.data[form.add_prefix(_SHOWN)] = stored
            theirs = [f"{form[name].label}: {_readable(form, name)}" for name in form.changed_data]
            form.add_error(None, _CHANGED_SINCE.format("; ".join(theirs) or "the values below"))
        return cleaned


def _readable(form: forms.BaseForm, name: str) -> str:
    """Return the stored value of a field as the form shows it, on one line."""
    field, stored = form.fields[name], form.initial.get(name)
    labels = _choice_labels(getattr(field, "choices", ()))
    if str(stored or "") in labels:
        return labels[str(stored or "")]
    if isinstance(stored, bool):
        return "yes" if stored else "no"
    if isinstance(stored, str):
        stored = stored.splitlines()
    if isinstance(stored, list | tuple):
        return ", ".join(labels.get(str(one), str(one)) for one in stored) or "empty"
    return "empty" if stored is None else str(localize(field.prepare_value(stored)))


def _choice_labels(choices: Any) -> dict[str, str]:
    pairs: Iterable[tuple[Any, Any]] = flatten_choices(choices)
    return {str(value): str(label) for value, label in pairs}


_SHOWN = "unchanged_since"
_CHANGED_SINCE = (
    "Someone has changed this since you opened the form. Stored now: {}. Save again to replace it."
)


class ShareField(forms.FloatField):
    """A value between 0 and 1, shown with at most two digits.

    The form submits the shown value too. A field that the person did not edit is unchanged, even if the
    stored value has more digits or maintenance has changed it since.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(show_hidden_initial=True, **options)

    def prepare_value(self, value: Any) -> Any:
        return f"{round(value, 2):g}" if isinstance(value, float) else value


class TextField(forms.CharField):
    """A multi-line text that keeps its indentation."""

    widget = forms.Textarea

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"strip": False, "required": False, **options})

    def to_python(self, value: Any) -> str:
        return normalize_newlines(super().to_python(value) or "")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return normalize_newlines(initial or "") != normalize_newlines(data or "")


class ListField(forms.CharField):
    """A list edited as text; it has changed only if the text has."""

    def __init__(self, **options: Any) -> None:
        super().__init__(strip=False, required=False, **options)

    def prepare_value(self, value: Any) -> str:
        return value if isinstance(value, str) else self.write(value or [])

    def has_changed(self, initial: Any, data: Any) -> bool:
        return normalize_newlines(self.prepare_value(initial)) != normalize_newlines(data or "")

    def write(self, values: Iterable[str]) -> str:
        raise NotImplementedError


class LinesField(ListField):
    """A list with one item per line."""

    widget = forms.Textarea

    def clean(self, value: Any) -> Any:
        lines = normalize_newlines(super().clean(value)).split("\n")
        return [line.strip() for line in lines if line.strip()]

    def write(self, values: Iterable[str]) -> str:
        return "\n".join(values)


class ProjectsField(LinesField):
    """The projects of a token."""

    def __init__(self, widget: forms.Textarea) -> None:
        super().__init__(widget=widget, help_text="One per line. Leave empty for all projects.")
