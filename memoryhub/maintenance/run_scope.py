"""The clearance that a run works under, and who may know what of it.

A run keeps the reach of whoever asked for it. Those who may see all that it reached are told its numbers;
others learn how far it is in percent, and count the changes that they may see themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db.models import Q, QuerySet

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.models import MaintenanceRun


def clearance_to_json(clearance: Clearance) -> dict[str, Any]:
    """A clearance as a run keeps it."""
    projects = clearance.projects
    kept: dict[str, Any] = {
        "levels": sorted(clearance.levels),
        "owner": clearance.owner,
        "projects": None if projects is None else sorted(projects),
        "every_owner": clearance.every_owner,
    }
    if clearance.grants:
        kept["grants"] = {project: sorted(levels) for project, levels in clearance.grants}
    return kept


def clearance_of(run: MaintenanceRun) -> Clearance:
    """What the run works under; one that kept none reaches nothing."""
    return clearance_from_json(run.reach)


def clearance_from_json(kept: dict[str, Any]) -> Clearance:
    """What :func:`as_json` kept; of nothing, one that reaches nothing."""
    kept = kept or {"levels": (), "projects": ()}
    projects = kept.get("projects", ())
    return Clearance(
        frozenset(kept.get("levels", ())),
        owner=kept.get("owner", ""),
        projects=None if projects is None else frozenset(projects),
        every_owner=kept.get("every_owner", False),
        grants=tuple((project, frozenset(levels)) for project, levels in kept.get("grants", {}).items()),
    )


def can_see_all(clearance: Clearance, run: MaintenanceRun) -> bool:
    """Whether all that the run reached may be seen."""
    wide = clearance_of(run) if run.reach else Clearance(frozenset(LEVELS), every_owner=True)
    owners = clearance.every_owner or (not wide.every_owner and wide.owner in ("", clearance.owner))
    return owners and can_control(clearance, run)


def sees_everything(clearance: Clearance) -> bool:
    """Whether there is nothing of a known level that is hidden: so it is for the hub's own upkeep alone."""
    return clearance.every_owner and clearance.projects is None and clearance.levels >= frozenset(LEVELS)


def can_control(clearance: Clearance, run: MaintenanceRun) -> bool:
    """Whether a run may be stopped, resumed and undone: it reached no level and no project beyond these.

    The hub's own runs tend everyone's personal memories, and any curator may stop them or take them back.
    """
    wide = clearance_of(run) if run.reach else Clearance(frozenset(LEVELS), every_owner=True)
    return clearance.covers(replace(wide, projects=frozenset({run.project})) if run.project else wide)


def overlaps(one: MaintenanceRun, project: str, clearance: Clearance) -> bool:
    """Whether a run works on a project that another, for ``project`` under ``clearance``, would work on."""
    mine = {one.project} if one.project else clearance_of(one).projects
    theirs = {project} if project else clearance.projects
    return mine is None or theirs is None or bool(mine & theirs)


def visible_runs(clearance: Clearance) -> QuerySet[MaintenanceRun]:
    """Runs, newest first, over a project that is open to this clearance."""
    runs = MaintenanceRun.objects.order_by("-created_at", "-pk")
    if clearance.projects is None:
        return runs
    everywhere = runs.filter(project="").only("project", "reach")
    shared = [run.pk for run in everywhere if overlaps(run, "", clearance)]
    return runs.filter(Q(project__in=sorted(clearance.projects)) | Q(pk__in=shared))
