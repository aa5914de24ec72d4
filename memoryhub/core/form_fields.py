"""Form fields of the pages and of the admin. Untouched fields never alter what is stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms


class ShareField(forms.FloatField):
    """A value between 0 and 1, shown with at most two digits.

    The form submits the shown value too. A field that the person did not edit is unchanged, even if the
    stored value has more digits or maintenance has changed it since.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(show_hidden_initial=True, **options)

    def prepare_value(self, value: Any) -> Any:
        return f"{round(value, 2):g}" if isinstance(value, float) else value


def normalize_newlines(text: str) -> str:
    """Replace CRLF and CR by LF: browsers submit CRLF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


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
