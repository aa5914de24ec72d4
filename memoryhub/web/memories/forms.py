"""Forms that create and edit memories and facts, validated by ``memoryhub.memories.schemas``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from pydantic import BaseModel

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.core.form_fields import LinesField, ShareField, TextField, make_draft
from memoryhub.core.vocabulary import CONCEPTS, SCOPES, TYPES
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.memories.versions import current_value
from memoryhub.models import Memory
from memoryhub.web.base.forms import (
    EntitiesField,
    LabelsField,
    LineField,
    NumberField,
    PlainForm,
    parse_aware_datetime,
)

_HTML_ATTRIBUTES = {"maxLength": "maxlength", "minimum": "min", "maximum": "max"}


class DraftForm(PlainForm):
    """A form over a pydantic model: fields of the same names, with its limits as HTML attributes.

    ``clearance``: the full clearance of the person. All its levels are offered, even with the switch off:
    raising a level reveals nothing.
    """

    model: ClassVar[type[BaseModel]]
    draft: Any = None

    def __init__(self, data: Mapping[str, Any] | None, clearance: Clearance, **options: Any) -> None:
        super().__init__(data, **options)
        self.clearance = clearance
        self.levels = [level for level in LEVELS if level in clearance.levels_in_any_project()]
        self.fields["sensitivity"].widget.choices = [(level, level) for level in self.levels]
        properties = self.model.model_json_schema()["properties"]
        for name, bound in self.fields.items():
            limits = properties.get(name, {})
            bound.widget.attrs |= {
                attribute: limits[limit] for limit, attribute in _HTML_ATTRIBUTES.items() if limit in limits
            }

    def clean_sensitivity(self) -> str:
        level = str(self.cleaned_data["sensitivity"])
        if level not in self.levels:
            never = f"You cannot see {level} memories. " if level in LEVELS else ""
            raise forms.ValidationError(f"{never}Choose one of: {', '.join(self.levels)}.")
        return level


class MemoryForm(DraftForm):
    """Create a memory, or change ``memory`` if given; then the draft contains the changed fields only.

    ``shown``: the levels that are switched on. It is needed only for the memory that replaces this one.
    """

    model = MemoryDraft

    title = LineField(help_text="Default: the first line of the content.")
    subtitle = LineField()
    content = TextField(help_text="Markdown.")
    type = forms.ChoiceField(choices=[(kind, kind.replace("_", " ")) for kind in TYPES])
    category = LineField()
    tags = LabelsField(help_text="Separated by commas.")
    concepts = LabelsField(help_text=f"Separated by commas, for example {', '.join(CONCEPTS)}.")
    aliases = LabelsField(help_text="Short names for its subject, separated by commas.")
    importance = ShareField(required=False)
    trust = ShareField(required=False, help_text="In the source.")
    confidence = ShareField(required=False, help_text="In the content.")
    sensitivity = forms.CharField(label="Level", widget=forms.Select)
    scope = forms.ChoiceField(choices=[(scope, scope) for scope in SCOPES])
    project = LineField()
    session_id = LineField(label="Session")
    key = LineField(help_text="Storing another text under this key replaces this memory.")
    ttl_days = NumberField(label="Expires after (days)", help_text="Counted from now. Empty: never.")
    files_read = LinesField(label="Files read", help_text="One path per line.")
    files_modified = LinesField(label="Files modified", help_text="One path per line.")
    abstract = LineField(help_text="One line. Default: made from the content.")
    overview = TextField(help_text="A paragraph.")
    pinned = forms.BooleanField(
        required=False,
        help_text="Agents receive it at the start of every session of its project. It never expires.",
    )
    superseded_by = LineField(
        label="Replaced by", help_text="The id of the memory that replaces this one, if any."
    )
    entities = EntitiesField(help_text="One per line, as name or name | type.")
    discovery_tokens = forms.IntegerField(required=False, help_text="Tokens spent to find this out.")
    unchanged_since = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        data: Mapping[str, Any] | None,
        clearance: Clearance,
        memory: Memory | None = None,
        initial: Mapping[str, Any] | None = None,
        shown: Clearance | None = None,
    ) -> None:
        self.memory = memory
        start = _stored_values(memory, shown or Clearance.up_to("public")) if memory else _default_values()
        super().__init__(data, clearance, initial={**start, **(initial or {})})
        for name, rows in (
            ("content", 16),
            ("overview", 4),
            ("files_read", 4),
            ("files_modified", 4),
            ("entities", 4),
        ):
            self.fields[name].widget.attrs["rows"] = rows
        self.fields["content"].widget.attrs["required"] = True
        self.fields["project"].widget.attrs["list"] = "projects"

    def clean_unchanged_since(self) -> datetime | None:
        if self.memory is None:
            return None
        moment = parse_aware_datetime(self.cleaned_data["unchanged_since"])
        if moment is None:
            raise forms.ValidationError("This form is incomplete. Open the memory again.")
        return moment

    def clean(self) -> dict[str, Any]:
        values = {
            name: value for name, value in self.cleaned_data.items() if name in MemoryDraft.model_fields
        }
        if self.memory is None:
            given = {name: value for name, value in values.items() if _is_given(name, value)}
            self.draft = make_draft(self, MemoryDraft, given)
        elif altered := {name: values[name] for name in self.changed_data if name in values}:
            self.draft = make_draft(self, MemoryPatch, altered)
        return self.cleaned_data


class FieldForm(MemoryForm):
    """Some fields of a memory, edited inline; the first has the focus."""

    def __init__(
        self, data: Mapping[str, Any] | None, clearance: Clearance, memory: Memory, *names: str
    ) -> None:
        super().__init__(data, clearance, memory)
        # Forms of several rows may be open on one page.
        self.auto_id = "in_%s" if len(names) == 1 else f"in_{memory.uid}_%s"
        self.fields = {one: self.fields[one] for one in (*names, "unchanged_since")}
        self.fields[names[0]].widget.attrs["autofocus"] = True


class FactForm(DraftForm):
    """Create a fact."""

    model = FactDraft

    subject = LineField()
    predicate = LineField()
    object = LineField()
    confidence = ShareField(required=False, initial=1.0)
    project = LineField()
    session_id = LineField(label="Session")
    sensitivity = forms.CharField(label="Level", widget=forms.Select)
    memory_id = forms.CharField(
        required=False, label="Memory", help_text="The id of the memory it comes from."
    )

    def __init__(
        self, data: Mapping[str, Any] | None, clearance: Clearance, initial: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(data, clearance, initial=initial, auto_id="add_%s")
        for name in ("subject", "predicate", "object"):
            self.fields[name].widget.attrs["required"] = True
        self.fields["project"].widget.attrs["list"] = "projects"

    def clean(self) -> dict[str, Any]:
        needed = ("subject", "predicate", "object")
        given = {n: v for n, v in self.cleaned_data.items() if n in needed or v not in ("", None)}
        self.draft = make_draft(self, FactDraft, given)
        return self.cleaned_data


def _stored_values(memory: Memory, clearance: Clearance) -> dict[str, Any]:
    names = [name for name in MemoryForm.base_fields if name != "unchanged_since"]
    return {name: current_value(memory, name, clearance) for name in names} | {
        "unchanged_since": memory.updated_at.isoformat()
    }


def _default_values() -> dict[str, Any]:
    """Return the initial values for a new memory: the defaults of the draft."""
    defaults = {
        name: info.get_default(call_default_factory=True) for name, info in MemoryDraft.model_fields.items()
    }
    shown = {
        name: defaults[name] for name in MemoryForm.base_fields if name in defaults and name != "content"
    }
    return shown | {"ttl_days": settings.MEMORYHUB.default_ttl_days}


def _is_given(name: str, value: Any) -> bool:
    """Whether a field overrides the default; an empty time to live does, and means never."""
    return name in ("ttl_days", "content") or value not in ("", None, [])
