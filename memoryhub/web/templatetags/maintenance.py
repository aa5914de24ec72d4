"""Template tags for maintenance runs: labels, and bars of importance before and after."""

from __future__ import annotations

from typing import Any

from django import template

from memoryhub.maintenance import results
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.maintenance.operations.base import Change
from memoryhub.models import MaintenanceRun
from memoryhub.web.templatetags.hub import type_name

register = template.Library()

register.filter("param_name", type_name)
register.filter("run_title", results.run_title)
register.filter("run_state", results.run_state)
register.filter("is_under_way", results.is_active)
register.filter("is_broken", results.is_failed)


@register.filter
def operation_help(name: str) -> str:
    """Describe an operation and what can be undone."""
    return OPERATIONS[name].help if name in OPERATIONS else ""


@register.filter("deed")
def change_action(change: Change, run: MaintenanceRun) -> str:
    """Describe what a run did to a memory, or what a dry run would do."""
    return results.action_label(change.action, run.dry_run)


@register.inclusion_tag("maintenance/turn.html", name="turn")
def importance_change(change: Change) -> dict[str, Any]:
    """Render importance before and after as a bar with the gain or loss."""
    before, after = change.before, change.after
    if before is None or after is None:
        return {"is_shown": False}
    low, high = sorted((before, after))
    return {
        "is_shown": True,
        "before": f"{before:.2f}",
        "after": f"{after:.2f}",
        "kept": round(low * 100, 1),
        "moved": max(round((high - low) * 100, 1), 0.8),
        "kind": "gain" if after >= before else "loss",
        "was": round(before * 100, 1),
    }
