"""The form of a memory.

Only fields that the person changed are handed to the store, so that saving a title does not begin the
memory's time anew.
"""

from __future__ import annotations

from typing import Any

from django import forms

from memoryhub.admin.draft_form import DraftForm, Lines, PlainText
from memoryhub.drafts import MemoryDraft, MemoryPatch
from memoryhub.models import Memory
from memoryhub.shares import ShareField
from memoryhub.store.rows import LISTS, listed


class MemoryForm(DraftForm):
    """Every settable field of a memory."""

    title = PlainText(help_text="Empty: made from the content")
    content = PlainText(rows=14, required=True)
    subtitle = PlainText()
    abstract = PlainText(rows=2, help_text="One line. Empty: made from the content")
    overview = PlainText(rows=4, help_text="A paragraph")
    tags = Lines(help_text="One a line")
    concepts = Lines(help_text="One a line")
    files_read = Lines(help_text="One path a line")
    files_modified = Lines(help_text="One path a line")
    entities = Lines(help_text="One a line: name, or name | kind")
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
            lists = {name: listed(self.instance, name) for name in LISTS}
            self.initial.update(lists, entities=[entity_line(one) for one in lists["entities"]])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        is_new = self.instance.pk is None
        names = set(self.fields if is_new else self.changed_data) - {"unchanged_since"}
        values = {name: cleaned[name] for name in names}
        if "entities" in values:
            values["entities"] = [_entity(line) for line in values["entities"]]
        if is_new:
            self.accepted = self.draft(MemoryDraft, values)
        elif values:
            self.accepted = self.draft(MemoryPatch, values)
        self.show_refusal()
        return cleaned


def entity_line(entity: dict[str, str]) -> str:
    return f"{entity['entity']} | {entity['entity_type']}"


def _entity(line: str) -> dict[str, str]:
    name, mark, kind = line.rpartition("|")
    return {"entity": name.strip(), "entity_type": kind.strip()} if mark else {"entity": line}
