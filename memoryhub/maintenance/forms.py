"""Forms to start a run: parameter fields, permissions and the consequences in numbers.

Used by the pages and by the admin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils import timezone
from pydantic import BaseModel

from memoryhub.access.policy import Actor
from memoryhub.maintenance import runs
from memoryhub.maintenance.operations.base import Operation

# They delete memories permanently, past the trash and without undo.
IRREVERSIBLE_OPERATIONS = frozenset({"purge_expired", "empty_trash"})
# Nothing brings back what they delete.
LOSING_OPERATIONS = IRREVERSIBLE_OPERATIONS | {"prune_events"}
MAX_PREVIEWED = 5000  # memories that a page looks at; a dry run counts the changes of more
ADD_RUN, VIEW_RUN, ERASE_MEMORY = (
    "memoryhub.add_maintenancerun",
    "memoryhub.view_maintenancerun",
    "memoryhub.erase_memory",
)


def can_view_runs(user: Any) -> bool:
    return bool(user.has_perm(VIEW_RUN) or user.has_perm(ADD_RUN))


def can_start_run(user: Any, operation: str, *, dry_run: bool) -> bool:
    """Whether a user may start a run. Irreversible ones also need the permission to erase memories."""
    needs_erase = operation in IRREVERSIBLE_OPERATIONS and not dry_run
    return bool(user.has_perm(ADD_RUN) and (not needs_erase or user.has_perm(ERASE_MEMORY)))


def count_losses(operation: Operation[Any], params: dict[str, Any], actor: Actor) -> int:
    """Count the rows that a run would delete permanently now. StoreError names an invalid parameter."""
    valid = runs.validate_params(operation, params)
    return operation.total(operation.Params(**valid), actor, timezone.now())


def asks_first(operation: Operation[Any]) -> bool:
    """Whether a page shows the consequences of a run before it starts."""
    return operation.undoable or operation.name in LOSING_OPERATIONS


def count_changes(operation: Operation[Any], params: dict[str, Any], actor: Actor) -> dict[str, int] | None:
    """Count what a run would change now, by action; None if that takes too long for a page.

    StoreError names an invalid parameter.
    """
    valid, now = operation.Params(**runs.validate_params(operation, params)), timezone.now()
    if operation.total(valid, actor, now) > MAX_PREVIEWED:
        return None
    counts: Counter[str] = Counter()
    for step in operation.steps(valid, actor, now):
        for change in step.changes:
            counts[change.action] += change.count
    return dict(counts)


def form_fields(params: type[BaseModel]) -> dict[str, forms.Field]:
    """Return an optional field for each parameter."""
    properties = params.model_json_schema()["properties"]
    return {name: _form_field(name, _unwrap_optional(spec)) for name, spec in properties.items()}


def filled_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cleaned values that are not empty."""
    return {name: value for name, value in values.items() if value not in (None, "") and value is not False}


def _unwrap_optional(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of ``T`` for that of ``T | None``."""
    [variant] = [variant for variant in spec.get("anyOf", [spec]) if variant.get("type") != "null"]
    return {**spec, **variant}


def _form_field(name: str, spec: dict[str, Any]) -> forms.Field:
    options: dict[str, Any] = {
        "required": False,
        "label": name.replace("_", " ").capitalize(),
        "help_text": spec.get("description", ""),
    }
    if spec["type"] == "boolean":
        return forms.BooleanField(**options)
    limits: dict[str, Any] = {"min_value": spec.get("minimum"), "max_value": spec.get("maximum")}
    if spec["type"] == "integer":
        return forms.IntegerField(**options, **limits)
    if spec["type"] == "number":
        return forms.FloatField(**options, **limits)
    return forms.CharField(**options, max_length=spec.get("maxLength"))
