"""What a clearance lets through, as conditions on rows: the gate of every read."""

from __future__ import annotations

from django.apps import apps
from django.db.models import Exists, OuterRef, Q

from memoryhub.access.policy import Clearance
from memoryhub.core.vocabulary import Scope


def level_filter(clearance: Clearance, project: str = "project") -> Q:
    """By level, and by the project that stands in this column; each share of the projects has its levels."""
    found = Q()
    for levels, projects in clearance.parts():
        part = Q(sensitivity__in=sorted(levels))
        found |= part if projects is None else part & Q(**{f"{project}__in": sorted(projects)})
    return found


def project_filter(clearance: Clearance) -> Q:
    """The projects that are open to a clearance, whatever the level."""
    return Q() if clearance.projects is None else Q(project__in=sorted(clearance.projects))


def owner_filter(clearance: Clearance) -> Q:
    """Personal memories are their owner's alone, but for the hub's own upkeep."""
    if clearance.every_owner:
        return Q()
    shared = ~Q(scope=Scope.PERSONAL.value)
    return shared | Q(owner=clearance.owner) if clearance.owner else shared


def memory_filter(clearance: Clearance) -> Q:
    """The condition under which a memory may be seen; personal memories are their owner's alone."""
    return level_filter(clearance) & owner_filter(clearance)


def hidden_session_filter(clearance: Clearance) -> Q:
    """Upkeep at the end of a session none of whose events may be seen, under the session's id.

    Such rows are not written any more (``hooks.upkeep``); those that were cannot be changed.
    """
    events = apps.get_model("memoryhub", "Event").objects.filter(
        session__session_id=OuterRef("object_id"), session__project=OuterRef("project")
    )
    seen = events.filter(level_filter(clearance, "session__project"))
    return Q(object_type="memories", actor="system:session-end") & Exists(events) & ~Exists(seen)


def journal_filter(clearance: Clearance) -> Q:
    if clearance.every_owner:
        return level_filter(clearance)
    return level_filter(clearance) & (Q(owner="") | Q(owner=clearance.owner))


def token_filter(clearance: Clearance) -> Q:
    """A row about a token tells whose it is and how far it reaches: its owner, and who looks after tokens."""
    if clearance.every_owner or clearance.every_token:
        return Q()
    own = Q(detail__owner=clearance.owner) if clearance.owner else Q(pk__in=())
    return ~Q(object_type="token") | own
