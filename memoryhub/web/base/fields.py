"""Parsers for form values, and form fields whose untouched values never alter what is stored."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.dateparse import parse_datetime


def normalize_newlines(text: str) -> str:
    """Replace CRLF and CR by LF: browsers submit CRLF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def to_sentence(text: str) -> str:
    """Return an error message with a capital letter and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def parse_whole_number(text: str, digits: int = 15) -> int | None:
    """Parse a non-negative whole number of at most ``digits`` digits; None if the text is not one."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None


def parse_aware_datetime(text: str) -> datetime | None:
    """Parse an ISO 8601 datetime with a time zone; None if the text is not one."""
    try:
        found = parse_datetime(text)
    except ValueError:  # well formed, but there is no such day or hour
        return None
    return None if found is None or timezone.is_naive(found) else found


class LineField(forms.CharField):
    """A stripped text on one line. Line breaks do not count as a change: a text input drops them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return _join_lines(initial or "") != _join_lines(data or "")


class NumberField(forms.FloatField):
    """A number, displayed without a decimal part of zero."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)
        self.widget.attrs["step"] = "any"

    def prepare_value(self, value: Any) -> Any:
        return f"{value:.15g}" if isinstance(value, float) else value


class TextField(forms.CharField):
    """A multi-line text that keeps its indentation."""

    widget = forms.Textarea

    def __init__(self, **options: Any) -> None:
        super().__init__(strip=False, required=False, **options)

    def to_python(self, value: Any) -> str:
        return normalize_newlines(super().to_python(value) or "")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return normalize_newlines(initial or "") != normalize_newlines(data or "")


def _join_lines(text: str) -> str:
    return text.replace("\r", "").replace("\n", "").strip()


class _ListField(forms.CharField):
    """A list edited as text; it has changed only if the text has."""

    def __init__(self, **options: Any) -> None:
        super().__init__(strip=False, required=False, **options)

    def prepare_value(self, value: Any) -> str:
        return value if isinstance(value, str) else self.write(value or [])

    def has_changed(self, initial: Any, data: Any) -> bool:
        return normalize_newlines(self.prepare_value(initial)) != normalize_newlines(data or "")

    def write(self, values: Iterable[str]) -> str:
        raise NotImplementedError


class LinesField(_ListField):
    """A list with one item per line."""

    widget = forms.Textarea

    def to_python(self, value: Any) -> Any:
        lines = normalize_newlines(super().to_python(value) or "").split("\n")
        return [line.strip() for line in lines if line.strip()]

    def write(self, values: Iterable[str]) -> str:
        return "\n".join(values)


class EntitiesField(LinesField):
    """Entities as lines like ``Ada | person``; the type may be left out."""

    def to_python(self, value: Any) -> Any:
        return [self._parse(line) for line in super().to_python(value)]

    def write(self, values: Iterable[Any]) -> str:
        return super().write(f"{one['entity']} | {one['entity_type']}" for one in values)

    def _parse(self, line: str) -> dict[str, str]:
        name, mark, kind = line.rpartition("|")
        return {"entity": name.strip(), "entity_type": kind.strip()} if mark else {"entity": line}


class LabelsField(_ListField):
    """A list with commas between the items; an item that contains a comma is quoted."""

    def to_python(self, value: Any) -> Any:
        text = normalize_newlines(super().to_python(value) or "")
        try:
            rows = list(csv.reader(text.split("\n"), skipinitialspace=True, strict=True))
        except csv.Error:
            raise forms.ValidationError("Close the quotation mark, or leave quotation marks out.") from None
        return [item.strip() for row in rows for item in row if item.strip()]

    def write(self, values: Iterable[str]) -> str:
        # A text input cannot contain line breaks.
        return ", ".join(" ".join(_quote_csv(value).split("\n")) for value in values)


def _quote_csv(value: str) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([value])
    return text.getvalue()
