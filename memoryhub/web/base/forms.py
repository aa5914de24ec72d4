"""Form fields, parsers of form values, and filter forms for lists.

Untouched fields never alter what is stored. In a filter every field is optional, and nothing is written.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar, cast

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.forms.utils import flatatt
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memoryhub.core.dates import start_of_day
from memoryhub.core.form_fields import LinesField, ListField, show_error
from memoryhub.core.text import normalize_newlines
from memoryhub.core.vocabulary import TYPES
from memoryhub.memories.errors import StoreError
from memoryhub.memories.filters import MemoryFilter

T = TypeVar("T")


def parse_whole_number(text: str, digits: int = 15) -> int | None:
    """Parse a non-negative whole number of at most ``digits`` digits; None if the text is not one."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None


def parse_aware_datetime(text: str) -> datetime | None:
    """Parse an ISO 8601 datetime with a time zone to UTC; None if the text is not one."""
    try:
        found = parse_datetime(text)
        return None if found is None or timezone.is_naive(found) else found.astimezone(UTC)
    except (ValueError, OverflowError):  # well formed, but there is no such day or hour, or not in UTC
        return None


class PlainForm(forms.Form):
    """A form with labels without a colon, which shows a refusal of the store at the field that it names.

    ``ids``: the pattern of the HTML ids of its fields, which differ between the forms of a page.
    """

    ids = "id_%s"

    def __init__(self, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(data, **{"label_suffix": "", "auto_id": self.ids, **options})

    def submit(self, action: Callable[[], T]) -> T | None:
        """Return the result of an action with valid values; None if they are invalid, or the store refuses.

        Then the form shows the reason.
        """
        if not self.is_valid():
            return None
        try:
            return action()
        except StoreError as refusal:
            self.refuse(refusal)
            return None

    def refuse(self, refusal: StoreError) -> None:
        show_error(self, refusal.field, refusal.message)

    def set_choices(self, name: str, choices: Iterable[tuple[str, str]]) -> None:
        cast("forms.ChoiceField", self.fields[name]).choices = list(choices)


class LongSelect(forms.Select):
    """A list of hundreds of choices. Rendering Django's template for each takes half the time of a page."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        chosen = self.format_value(value)
        options = (
            (key, SafeString(" selected") if str(key) in chosen else "", label) for key, label in self.choices
        )
        return format_html(
            "<select{}>\n{}\n</select>",
            flatatt(self.build_attrs(self.attrs, {"name": name, **(attrs or {})})),
            format_html_join("\n", '<option value="{}"{}>{}</option>', options),
        )


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


def _join_lines(text: str) -> str:
    return text.replace("\r", "").replace("\n", "").strip()


class EntitiesField(LinesField):
    """Entities as lines like ``Ada | person``; the type may be left out."""

    def clean(self, value: Any) -> Any:
        return [self._parse(line) for line in super().clean(value)]

    def write(self, values: Iterable[Any]) -> str:
        return super().write(f"{one['entity']} | {one['entity_type']}" for one in values)

    def _parse(self, line: str) -> dict[str, str]:
        name, mark, kind = line.rpartition("|")
        return {"entity": name.strip(), "entity_type": kind.strip()} if mark else {"entity": line}


class LabelsField(ListField):
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


_MAX_LENGTH = 1000
_DATE_VALIDATORS = [MinValueValidator(date(1900, 1, 1)), MaxValueValidator(date(2999, 12, 31))]


class WordField(forms.CharField):
    """An optional text to filter by."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=_MAX_LENGTH, **options)


class DayField(forms.DateField):
    """A day in the current time zone."""

    def __init__(self, **options: Any) -> None:
        widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
        super().__init__(required=False, widget=widget, validators=_DATE_VALIDATORS, **options)


class PastDayField(DayField):
    """A day whose end is the moment to look at."""

    def __init__(self) -> None:
        super().__init__(label="As of", help_text="What was stored at the end of this day.")


class MonthField(forms.DateField):
    """A month, as the date of its first day."""

    def __init__(self, **options: Any) -> None:
        widget = forms.DateInput(attrs={"type": "month", "placeholder": "2026-01"}, format="%Y-%m")
        wrong = {"invalid": "Enter a month as 2026-01."}
        super().__init__(
            required=False,
            widget=widget,
            input_formats=["%Y-%m"],
            validators=_DATE_VALIDATORS,
            error_messages=wrong,
            **options,
        )


class ProjectField(WordField):
    """A project, with the existing ones as suggestions (``<datalist id="projects">``)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(widget=forms.TextInput(attrs={"list": "projects"}), **options)


class ProjectFilterField(WordField):
    """The project of a list. It is chosen in the sidebar, so the form of the list only keeps it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(widget=forms.HiddenInput, **options)


class PredicateField(WordField):
    """A predicate, with the most frequent ones as suggestions (``<datalist id="predicates">``)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(widget=forms.TextInput(attrs={"list": "predicates"}), **options)


class ListFilter(PlainForm):
    """A form whose data is the query string."""

    ids = "by_%s"

    def full_clean(self) -> None:
        """Show an invalid date or number in a text input: a typed input would be empty."""
        super().full_clean()
        for name in self.errors:
            widget = self.fields[name].widget if name in self.fields else None
            if isinstance(widget, forms.DateInput | forms.NumberInput):
                widget.input_type = "text"

    def value(self, name: str) -> Any:
        return self.cleaned_data[name]

    def given(self, *names: str) -> dict[str, Any]:
        """Return the values of these fields that are not empty, for a filter by columns of these names."""
        return {name: self.value(name) for name in names if self.value(name)}

    @property
    def http_status(self) -> int:
        return 200 if self.is_valid() else 422

    def display_value(self, name: str) -> str:
        """Format a submitted value for display: the label of a choice, "yes" for a ticked box."""
        field, given = self.fields[name], str(self.data[name])
        if isinstance(field, forms.BooleanField):
            return "yes"
        if isinstance(field, forms.ChoiceField):
            names = cast("Iterable[tuple[str, str]]", field.choices)  # no choices here are grouped
            return dict(names).get(given, given)
        return given

    def moment(self) -> datetime | None:
        """Return the end of the day of a :class:`PastDayField` called ``on``; None for now."""
        end = day_bounds(self.value("on"))[1]
        return end if end and end < timezone.now() else None

    def is_narrowed(self) -> bool:
        """Whether any filter was given."""
        return any(self.data.get(name) for name in self.fields)

    def has_filters(self) -> bool:
        """Whether any filter of the form's own was given: not the project, which the sidebar shows."""
        return any(self.data.get(name) for name in self.fields if name != "project")

    def begin(self) -> datetime | None:
        """Return the start of the first day."""
        return day_bounds(self.cleaned_data["since"])[0]

    def end(self) -> datetime | None:
        """Return the end of the last day, which is included."""
        return day_bounds(self.cleaned_data["until"])[1]


class SessionFilter(ListFilter):
    q = WordField(label="Search sessions", widget=forms.TextInput(attrs={"type": "search"}))
    project = ProjectFilterField()


class InjectionFilter(ListFilter):
    q = WordField(label="In the prompt", widget=forms.TextInput(attrs={"type": "search"}))
    project = ProjectFilterField()
    session_id = WordField(label="Session")
    outcome = forms.ChoiceField(
        required=False, choices=[("", "Any"), ("filled", "with memories"), ("empty", "empty")]
    )
    since = DayField(label="From")
    until = DayField(label="To")


class MonthFilter(ListFilter):
    project = ProjectFilterField()
    month = MonthField()


class TimelineFilter(ListFilter):
    project = ProjectFilterField()
    type = forms.ChoiceField(
        required=False, choices=[("", "Any"), *((kind, kind.replace("_", " ")) for kind in TYPES)]
    )
    session_id = WordField(label="Session")
    since = DayField(label="From")
    until = DayField(label="To")

    def wanted(self) -> MemoryFilter:
        plain = {name: self.value(name) for name in ("project", "type", "session_id")}
        return MemoryFilter(**plain, since=self.begin(), until=self.end())


class JournalFilter(ListFilter):
    project = ProjectFilterField()
    operation = WordField(widget=forms.TextInput(attrs={"list": "operations"}))
    actor = WordField(label="Who")
    object_id = WordField(label="Object id")
    since = DayField(label="From")
    until = DayField(label="To")


def day_bounds(day: date | None) -> tuple[datetime | None, datetime | None]:
    """Return the start and end of a day in the current time zone, or two times None without a day."""
    return (start_of_day(day), start_of_day(day + timedelta(days=1))) if day else (None, None)
