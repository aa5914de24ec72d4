"""Forms validated by the same drafts as the API and saved by the core. They never touch the row they show."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget
from pydantic import BaseModel, ValidationError

from memoryhub.store.errors import StoreError

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Any]
else:
    _ModelForm = forms.ModelForm


class PlainText(forms.CharField):
    """Text as it is: browsers send line ends as CR LF, which no one typed."""

    def __init__(self, rows: int = 0, **options: Any) -> None:
        widget = AdminTextareaWidget({"rows": rows}) if rows else AdminTextInputWidget()
        super().__init__(**{"strip": False, "required": False, "widget": widget, **options})

    def to_python(self, value: Any) -> str:
        return _plain(super().to_python(value) or "")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(_plain(initial or ""), data)


class Lines(forms.CharField):
    """A list, one item a line."""

    def __init__(self, **options: Any) -> None:
        widget = AdminTextareaWidget({"rows": 3})
        super().__init__(**{"required": False, "widget": widget, **options})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        text = value if isinstance(value, str) else "\n".join(value or ())
        return [line.strip() for line in text.splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.to_python(initial) != self.to_python(data))


class DraftForm(_ModelForm):
    """A form whose validator is a pydantic model, and whose saving is a function of the core.

    ``refusal`` is what the core said to the same values a moment ago; it is shown at its field.
    """

    refusal: StoreError | None = None
    unchanged_since = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["unchanged_since"] = self.instance.updated_at.isoformat()

    @property
    def opened_at(self) -> datetime | None:
        """``updated_at`` as it was when the form was opened; ``None`` on a form that adds."""
        return self.cleaned_data.get("unchanged_since") or None

    def clean_unchanged_since(self) -> datetime | None:
        if not self.instance.pk:
            return None
        try:
            return datetime.fromisoformat(self.cleaned_data["unchanged_since"])
        except ValueError:
            raise forms.ValidationError("this form is incomplete; open it again") from None

    def _post_clean(self) -> None:
        """The draft validates; the stored row is the core's to change."""

    def draft(self, model: type[BaseModel], values: dict[str, Any]) -> Any:
        """The validated draft; without one, each error stands at its field."""
        try:
            return model.model_validate(values)
        except ValidationError as error:
            for problem in error.errors():
                self._show(str(problem["loc"][0]) if problem["loc"] else "", _words(problem))
            return None

    def show_refusal(self) -> None:
        if self.refusal:
            self._show(self.refusal.field, self.refusal.message)

    def _show(self, field: str, message: str) -> None:
        known = field in self.fields and not self.fields[field].widget.is_hidden
        self.add_error(field if known else None, message)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _words(problem: Any) -> str:
    """A pydantic error for a reader: which item of a list, and what is wrong with it."""
    message: str = problem["msg"].removeprefix("Value error, ")
    items = [str(place + 1) for place in problem["loc"][1:] if isinstance(place, int)]
    return f"line {items[0]}: {message}" if items else message
