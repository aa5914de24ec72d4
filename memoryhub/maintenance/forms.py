"""What a person is asked before a run: its parameters as fields of a form; what is lost for good is named.

For the pages and the admin alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.utils import timezone
from pydantic import BaseModel

from memoryhub.access.policy import Actor
from memoryhub.maintenance import runs
from memoryhub.maintenance.operations.base import Operation

# What these remove comes back from no trash and by no undo.
IRREVERSIBLE_OPERATIONS = frozenset({"purge_expired", "empty_trash"})
ADD_RUN, VIEW_RUN, ERASE_MEMORY = (
    "memoryhub.add_maintenancerun",
    "memoryhub.view_maintenancerun",
    "memoryhub.erase_memory",
)


def can_view_runs(user: Any) -> bool:
    """Who may start runs may look at them too."""
    return bool(user.has_perm(VIEW_RUN) or user.has_perm(ADD_RUN))


def can_start_run(user: Any, operation: str, *, dry_run: bool) -> bool:
    """Removing for good by maintenance needs the same permission as removing for good by hand."""
    if not user.has_perm(ADD_RUN):
        return False
    return dry_run or operation not in IRREVERSIBLE_OPERATIONS or bool(user.has_perm(ERASE_MEMORY))


def count_losses(operation: Operation[Any], params: dict[str, Any], actor: Actor) -> int:
    """How many memories a run of it would remove for good now. StoreError names a value that does not fit."""
    kept = runs.validate_params(operation, params)
    return operation.total(operation.Params(**kept), actor, timezone.now())


def form_fields(params: type[BaseModel]) -> dict[str, forms.Field]:
    """A field for each parameter; all may be left empty."""
    properties = params.model_json_schema()["properties"]
    return {name: _form_field(name, _unwrap_optional(spec)) for name, spec in properties.items()}


def filled_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was filled in, of the cleaned values of such fields."""
    return {name: value for name, value in values.items() if value not in (None, "") and value is not False}


def _unwrap_optional(spec: dict[str, Any]) -> dict[str, Any]:
    """``T | None`` as ``T``."""
    [kind] = [one for one in spec.get("anyOf", [spec]) if one.get("type") != "null"]
    return {**spec, **kind}


def _form_field(name: str, spec: dict[str, Any]) -> forms.Field:
    options: dict[str, Any] = {
        "required": False,
        "label": name.replace("_", " ").capitalize(),
        "help_text": spec.get("description", ""),
    }
    make: Callable[..., forms.Field] = forms.CharField
    if spec["type"] == "boolean":
        make = forms.BooleanField
    elif spec["type"] in ("integer", "number"):
        make = forms.IntegerField if spec["type"] == "integer" else forms.FloatField
        options |= {"min_value": spec.get("minimum"), "max_value": spec.get("maximum")}
    else:
        options["max_length"] = spec.get("maxLength")
    return make(**options)
