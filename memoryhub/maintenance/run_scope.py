"""The clearance of a run, and the permissions of viewers that follow from it.

A run works with the clearance of its requester, which is stored with it (``reach``). Viewers who may see
everything that the run covered see its totals. Others see its progress in percent and the changes of memories
that they may see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db.models import Q, QuerySet

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.models import MaintenanceRun


def clearance_to_json(clearance: Clearance) -> dict[str, Any]:
    projects = clearance.projects
    stored: dict[str, Any] = {
        "levels": sorted(clearance.levels),
        "owner": clearance.owner,
        "projects": None if projects is None else sorted(projects),
        "every_owner": clearance.every_owner,
    }
    if clearance.grants:
        stored["grants"] = {project: sorted(levels) for project, levels in clearance.grants}
    return stored


def clearance_from_json(stored: dict[str, Any]) -> Clearance:
    """Read a stored clearance; an empty one allows nothing."""
    stored = stored or {"levels": (), "projects": ()}
    projects = stored.get("projects", ())
    return Clearance(
        frozenset(stored.get("levels", ())),
        owner=stored.get("owner", ""),
        projects=None if projects is None else frozenset(projects),
        every_owner=stored.get("every_owner", False),
        grants=tuple((project, frozenset(levels)) for project, levels in stored.get("grants", {}).items()),
    )


def clearance_of(run: MaintenanceRun) -> Clearance:
    """Return the clearance that the run works with."""
    return clearance_from_json(run.reach)


def can_see_all(clearance: Clearance, run: MaintenanceRun) -> bool:
    """Whether a viewer may see everything that the run covered."""
    covered = _covered_clearance(run)
    owners = clearance.every_owner or (not covered.every_owner and covered.owner in ("", clearance.owner))
    return owners and can_control(clearance, run)


def can_control(clearance: Clearance, run: MaintenanceRun) -> bool:
    """Whether a viewer with this clearance may stop, resume and undo the run.

    The clearance must include all levels and projects of the run, but not the personal memories of others, so
    that any curator can stop or undo the scheduled runs.
    """
    covered = _covered_clearance(run)
    return clearance.covers(replace(covered, projects=frozenset({run.project})) if run.project else covered)


def _covered_clearance(run: MaintenanceRun) -> Clearance:
    """Return the run's clearance; a run without one may have covered everything."""
    return clearance_of(run) if run.reach else Clearance(frozenset(LEVELS), every_owner=True)


def sees_everything(clearance: Clearance) -> bool:
    """Whether nothing of a known level is hidden, which is only true for the system's own actors."""
    return clearance.every_owner and clearance.projects is None and clearance.levels >= frozenset(LEVELS)


def overlaps(run: MaintenanceRun, project: str, clearance: Clearance) -> bool:
    """Whether a run shares a project with another run on ``project`` (or all) with ``clearance``."""
    own = {run.project} if run.project else clearance_of(run).projects
    others = {project} if project else clearance.projects
    return own is None or others is None or bool(own & others)


def visible_runs(clearance: Clearance) -> QuerySet[MaintenanceRun]:
    """Return the runs on projects that the clearance includes, newest first."""
    runs = MaintenanceRun.objects.order_by("-created_at", "-pk")
    if clearance.projects is None:
        return runs
    without_project = runs.filter(project="").only("project", "reach")
    shared = [run.pk for run in without_project if overlaps(run, "", clearance)]
    return runs.filter(Q(project__in=sorted(clearance.projects)) | Q(pk__in=shared))
