"""Admin forms that validate with the API's schemas and save through the services."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget
from django.http import HttpRequest
from pydantic import BaseModel, ValidationError

from memoryhub.admin.base import VisibleRowsAdmin
from memoryhub.memories.errors import StoreError


class DraftAdmin(VisibleRowsAdmin):
    """A model whose form is a :class:`~memoryhub.admin.forms.DraftForm`."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except StoreError as refusal:
            # The transaction was rolled back. Show the same form with the refusal.
            request.refusal = refusal  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"refusal": getattr(request, "refusal", None)})

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Do nothing: the services save related rows."""

    @staticmethod
    def adopt(obj: Any, stored: Any) -> None:
        """Turn the form's object into the stored one."""
        obj.__dict__.update(stored.__dict__)


if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Any]
else:
    _ModelForm = forms.ModelForm


class PlainTextField(forms.CharField):
    """Unstripped text with normalized line ends, because browsers send CR LF."""

    def __init__(self, rows: int = 0, **options: Any) -> None:
        widget = AdminTextareaWidget({"rows": rows}) if rows else AdminTextInputWidget()
        super().__init__(**{"strip": False, "required": False, "widget": widget, **options})

    def to_python(self, value: Any) -> str:
        return _normalize_newlines(super().to_python(value) or "")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(_normalize_newlines(initial or ""), data)


class LinesField(forms.CharField):
    """A list with one item per line."""

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
    """A form that a pydantic model validates and a service saves.

    ``refusal`` is the error that the service raised for the same values. It is shown at its field.
    """

    refusal: StoreError | None = None
    unchanged_since = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["unchanged_since"] = self.instance.updated_at.isoformat()

    @property
    def opened_at(self) -> datetime | None:
        """``updated_at`` when the form was opened; None on a form that adds."""
        return self.cleaned_data.get("unchanged_since") or None

    def clean_unchanged_since(self) -> datetime | None:
        if not self.instance.pk:
            return None
        try:
            return datetime.fromisoformat(self.cleaned_data["unchanged_since"])
        except ValueError:
            raise forms.ValidationError("This form is incomplete. Open it again.") from None

    def _post_clean(self) -> None:
        """Skip the model's validation: the draft validates and the service saves."""

    def draft(self, model: type[BaseModel], values: dict[str, Any]) -> Any:
        """Return the validated draft, or None with each error at its field."""
        try:
            return model.model_validate(values)
        except ValidationError as error:
            for problem in error.errors():
                self._show(str(problem["loc"][0]) if problem["loc"] else "", _describe_problem(problem))
            return None

    def show_refusal(self) -> None:
        if self.refusal:
            self._show(self.refusal.field, self.refusal.message)

    def _show(self, field: str, message: str) -> None:
        known = field in self.fields and not self.fields[field].widget.is_hidden
        self.add_error(field if known else None, message)


def _normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _describe_problem(problem: Any) -> str:
    """Return the message of a pydantic error, with the line number for an item of a list."""
    message: str = problem["msg"].removeprefix("Value error, ")
    items = [str(place + 1) for place in problem["loc"][1:] if isinstance(place, int)]
    return f"line {items[0]}: {message}" if items else message
