"""The forms of maintenance: what an operation is told, and which runs a list shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import QuerySet

from memoryhub.lifecycle.asking import FOR_GOOD, form_fields, given
from memoryhub.lifecycle.operations import OPERATIONS, Operation
from memoryhub.models import MaintenanceRun
from memoryhub.store import StoreError
from memoryhub.web.filters import ListFilter


class RunForm(forms.Form):
    """What an operation may be told."""

    def __init__(self, operation: Operation[Any], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, label_suffix="", auto_id=f"{operation.name}_%s")
        self.operation = operation
        self.fields.update(form_fields(operation.Params))
        if "project" in self.fields:
            self.fields["project"].widget.attrs["list"] = "projects"

    def params(self) -> dict[str, Any]:
        """What was filled in; of a valid form."""
        return given(self.cleaned_data)

    def refuse(self, refusal: StoreError) -> None:
        """Show why a run was refused, beside the field that it names."""
        text = refusal.message[:1].upper() + refusal.message[1:]
        text = text if text.endswith(".") else f"{text}."
        self.add_error(refusal.field if refusal.field in self.fields else None, text)


class RunFilter(ListFilter):
    """What a list of runs may be narrowed to."""

    operation = forms.ChoiceField(
        required=False,
        choices=lambda: [("", "Any"), *((one.name, one.label) for one in OPERATIONS.values())],
    )
    status = forms.ChoiceField(
        required=False,
        choices=[("", "Any"), *((one, one) for one in MaintenanceRun.Status.values)],
    )

    def select(self, rows: QuerySet[MaintenanceRun]) -> QuerySet[MaintenanceRun]:
        wanted = {name: self.value(name) for name in ("operation", "status") if self.value(name)}
        return rows.filter(**wanted)


@dataclass(frozen=True)
class Card:
    """An operation on the page; ``last`` is its newest real run."""

    operation: Operation[Any]
    form: RunForm
    last: MaintenanceRun | None
    may_dry_run: bool
    may_run: bool
    is_off: bool

    @property
    def is_for_good(self) -> bool:
        return self.operation.name in FOR_GOOD
