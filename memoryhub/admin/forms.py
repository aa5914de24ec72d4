"""Admin forms that validate with the API's schemas and save through the services."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget
from django.http import HttpRequest
from pydantic import BaseModel, ValidationError

from memoryhub.admin.base import VisibleRowsAdmin
from memoryhub.core.form_fields import ShareField
from memoryhub.memories.errors import StoreError
from memoryhub.memories.rows import LIST_FIELDS, list_values
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import Memory


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
            # The transaction is rolled back; the same form again, with what the core said.
            request.refusal = refusal  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"refusal": getattr(request, "refusal", None)})

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Lists are saved with their memory."""

    @staticmethod
    def adopt(obj: Any, stored: Any) -> None:
        """Let the form's row be the one that was stored."""
        obj.__dict__.update(stored.__dict__)


if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Any]
else:
    _ModelForm = forms.ModelForm


class PlainTextField(forms.CharField):
    """Text as it is: browsers send line ends as CR LF, which no one typed."""

    def __init__(self, rows: int = 0, **options: Any) -> None:
        widget = AdminTextareaWidget({"rows": rows}) if rows else AdminTextInputWidget()
        super().__init__(**{"strip": False, "required": False, "widget": widget, **options})

    def to_python(self, value: Any) -> str:
        return _normalize_newlines(super().to_python(value) or "")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(_normalize_newlines(initial or ""), data)


class LinesField(forms.CharField):
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
    """A pydantic error for a reader: which item of a list, and what is wrong with it."""
    message: str = problem["msg"].removeprefix("Value error, ")
    items = [str(place + 1) for place in problem["loc"][1:] if isinstance(place, int)]
    return f"line {items[0]}: {message}" if items else message


class MemoryForm(DraftForm):
    """Every settable field of a memory."""

    title = PlainTextField(help_text="Empty: made from the content")
    content = PlainTextField(rows=14, required=True)
    subtitle = PlainTextField()
    abstract = PlainTextField(rows=2, help_text="One line. Empty: made from the content")
    overview = PlainTextField(rows=4, help_text="A paragraph")
    tags = LinesField(help_text="One a line")
    concepts = LinesField(help_text="One a line")
    files_read = LinesField(help_text="One path a line")
    files_modified = LinesField(help_text="One path a line")
    entities = LinesField(help_text="One a line: name, or name | kind")
    ttl_days = forms.FloatField(
        required=False,
        min_value=0,
        label="Days to live",
        help_text="From this change on. Empty: never expires",
    )

    # The draft, once the form is valid: what is stored, or what is changed.
    accepted: MemoryDraft | MemoryPatch | None = None

    class Meta:
        model = Memory
        fields = (
            *("title", "content", "subtitle", "abstract", "overview", "type", "category", "importance"),
            *("trust", "confidence", "sensitivity", "scope", "project", "session_id", "key"),
            *("discovery_tokens", "ttl_days"),
        )
        field_classes = dict.fromkeys(("importance", "trust", "confidence"), ShareField)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            lists = {name: list_values(self.instance, name) for name in LIST_FIELDS}
            self.initial.update(lists, entities=[format_entity(one) for one in lists["entities"]])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        is_new = self.instance.pk is None
        names = set(self.fields if is_new else self.changed_data) - {"unchanged_since"}
        values = {name: cleaned[name] for name in names}
        if "entities" in values:
            values["entities"] = [_parse_entity(line) for line in values["entities"]]
        if is_new:
            self.accepted = self.draft(MemoryDraft, values)
        elif values:
            self.accepted = self.draft(MemoryPatch, values)
        self.show_refusal()
        return cleaned


def format_entity(entity: dict[str, str]) -> str:
    return f"{entity['entity']} | {entity['entity_type']}"


def _parse_entity(line: str) -> dict[str, str]:
    name, mark, kind = line.rpartition("|")
    return {"entity": name.strip(), "entity_type": kind.strip()} if mark else {"entity": line}
