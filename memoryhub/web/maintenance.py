"""Maintenance as the pages tell it: operations, runs and changes in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import QuerySet

from memoryhub.lifecycle.asking import FOR_GOOD, form_fields, given
from memoryhub.lifecycle.operations import OPERATIONS, Operation
from memoryhub.lifecycle.runs import Told
from memoryhub.models import MaintenanceRun
from memoryhub.store import StoreError
from memoryhub.web.filters import ListFilter

Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause

# Of each action of a change: what a run did, and what a dry run says that one would do.
DEEDS = {
    "boost": ("raised in importance", "would be raised in importance"),
    "decay": ("faded in importance", "would fade in importance"),
    "evict": ("sent to the trash", "would go to the trash"),
    "merge": ("merged into summaries", "would be merged into summaries"),
    "summarise": ("summarised", "would be summarised"),
    "purge": ("purged for good", "would be purged for good"),
    "erase": ("erased for good", "would be erased for good"),
    "prune": ("pruned", "would be pruned"),
    "reindex": ("indexed anew", "would be indexed anew"),
    "restore": ("given back", "would be given back"),
}
_FAILED = {Cause.INTERRUPTED: "Interrupted", Cause.STOPPED: "Stopped"}


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


def title(run: MaintenanceRun) -> str:
    """What a run is, in a few words."""
    operation = OPERATIONS.get(run.operation)
    label = operation.label if operation else run.operation.replace("_", " ").capitalize()
    if run.undoes_id:
        return f"Undo: {label}"
    return f"Dry run: {label}" if run.dry_run else label


def state(run: MaintenanceRun) -> str:
    """How it stands with a run, in a few words."""
    if run.status == Status.QUEUED:
        return "Waiting to begin"
    if run.status == Status.RUNNING:
        return "Stopping" if run.stop_requested else "Running"
    if run.status == Status.FAILED:
        return _FAILED.get(Cause(run.cause), "Failed") if run.cause else "Failed"
    if run.undone_at:
        return "Done, and undone since"
    return "Done"


def is_under_way(run: MaintenanceRun) -> bool:
    return run.status in (Status.QUEUED, Status.RUNNING)


def is_broken(run: MaintenanceRun) -> bool:
    """Ended before its end, and by nobody's wish."""
    return run.status == Status.FAILED and run.cause != Cause.STOPPED


def deed(action: str, dry_run: bool) -> str:
    """What became of a memory, or would."""
    return DEEDS[action][dry_run] if action in DEEDS else action


def results(run: MaintenanceRun, told: Told) -> list[tuple[str, int]]:
    """How many of each deed, the most first."""
    counts = sorted(told.counts.items(), key=lambda one: (-one[1], one[0]))
    return [(deed(action, run.dry_run), count) for action, count in counts]


def percent(told: Told) -> int:
    """How far a run has come, 0 to 100."""
    return min(100, 100 * told.done // told.total) if told.total else 0


def params(run: MaintenanceRun) -> list[tuple[str, Any]]:
    """What the run was told, for people."""
    return [(name.replace("_", " "), value) for name, value in run.params.items() if value is not None]
