"""Access filters: the conditions on rows that a clearance may see, used by every read."""

from __future__ import annotations

from django.apps import apps
from django.db.models import Exists, OuterRef, Q

from memoryhub.access.policy import Clearance, waiting_level
from memoryhub.core.vocabulary import Scope


def level_filter(clearance: Clearance, project: str = "project") -> Q:
    """Return the condition on level and project. ``project``: the name of the project column."""
    found = Q()
    for levels, projects in clearance.parts():
        part = Q(sensitivity__in=sorted(levels))
        found |= part if projects is None else part & Q(**{f"{project}__in": sorted(projects)})
    return found


def waiting_filter(clearance: Clearance) -> Q:
    """Return the condition on memories that wait for a level that the clearance may see."""
    found = Q()
    for levels, projects in clearance.parts():
        part = Q(sensitivity__in=sorted(map(waiting_level, levels)))
        found |= part if projects is None else part & Q(project__in=sorted(projects))
    return found & owner_filter(clearance)


def project_filter(clearance: Clearance) -> Q:
    """Return the condition on open projects, regardless of the level."""
    return Q() if clearance.projects is None else Q(project__in=sorted(clearance.projects))


def owner_filter(clearance: Clearance) -> Q:
    """Return the condition on the owner: personal memories are visible to their owner and to maintenance."""
    if clearance.every_owner:
        return Q()
    shared = ~Q(scope=Scope.PERSONAL.value)
    return shared | Q(owner=clearance.owner) if clearance.owner else shared


def memory_filter(clearance: Clearance) -> Q:
    """Return the condition on visible memories."""
    return level_filter(clearance) & owner_filter(clearance)


def hidden_session_filter(clearance: Clearance) -> Q:
    """Return the condition on journal rows with the id of a session without visible events.

    Old versions wrote such rows for the maintenance at the end of a session. The journal cannot be changed.
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
    """Return the condition on rows about tokens and OAuth clients: visible to the owner of the token, or to
    the person who approved the client, and to managers of tokens.
    """
    if clearance.every_owner or clearance.every_token:
        return Q()
    own = Q(detail__owner=clearance.owner) if clearance.owner else Q(pk__in=())
    return ~Q(object_type__in=("token", "client")) | own
