"""The settings of projects: mode, pause, ignored files and cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from django.db.models import F, Sum
from django.utils import timezone

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.capture.ignored_paths import check_patterns
from memoryhub.capture.observation import clean_text
from memoryhub.core.database import write_transaction
from memoryhub.core.dates import format_iso, parse_moment
from memoryhub.core.text import new_uid
from memoryhub.core.vocabulary import PROJECT_MODES, ProjectMode
from memoryhub.hooks import TOOL_CONTEXT
from memoryhub.memories.errors import NotFound, StoreError
from memoryhub.memories.undo import Inverse, Undo, inverse_of, record_action
from memoryhub.models import EventCount, JournalEntry, Project
from memoryhub.security.secrets import find_secrets

CONFIGURE, UNDO_CONFIGURE = "configure", "undo_configure"
MAX_PAUSE_HOURS = 24 * 7
PAUSE = "paused_until"
CAP = "max_memories"
MAX_CAP = 10**9
UNCHANGED: Any = object()
SETTINGS = ("mode", PAUSE, "ignored_paths", "sends_page", "off_page_facts", CAP)
_ONLY_OBSERVED = "this project is only observed"
_NOTES = {
    ProjectMode.OFF.value: "off",
    ProjectMode.OBSERVE.value: "observing",
    ProjectMode.APPROVE.value: "approve first",
}


@dataclass(frozen=True)
class ProjectChange:
    """The project after a change. ``undo``: the id with which to undo it, empty if nothing changed."""

    project: Project
    undo: str = ""


def get_project(name: str, actor: Actor) -> Project:
    """Return the settings of a project that is open to the actor."""
    if not 0 < len(name) <= 200 or "\x00" in name or not actor.clearance.includes_project(name):
        raise NotFound("there is no such project")
    return Project.named(name)


def configure_project(
    name: str,
    actor: Actor,
    now: datetime | None = None,
    *,
    mode: str | None = None,
    pause_hours: float | None = None,
    ignored_paths: str | None = None,
    sends_page: bool | None = None,
    off_page_facts: Sequence[str] | None = None,
    max_memories: int | None = UNCHANGED,
    uid: str = "",
) -> ProjectChange:
    """Change the given settings.

    ``pause_hours``: 0 ends a pause. ``max_memories``: None restores the cap of the hub's settings.
    ``uid``: the id of the change, by default a new one.

    The caller has checked that the actor may do so. Journaled, so that it can be undone. Raise
    :class:`StoreError` for an invalid value.
    """
    now = now or timezone.now()
    changes: dict[str, Any] = {}
    if mode is not None:
        if mode not in PROJECT_MODES:
            raise StoreError(f"must be one of: {', '.join(PROJECT_MODES)}", "mode")
        changes["mode"] = mode
    if pause_hours is not None:
        if not 0 <= pause_hours <= MAX_PAUSE_HOURS:
            raise StoreError(f"must be 0 to {MAX_PAUSE_HOURS}", "pause_hours")
        changes[PAUSE] = now + timedelta(hours=pause_hours) if pause_hours else None
    if ignored_paths is not None and ignored_paths != Project.named(name).ignored_paths:
        changes["ignored_paths"] = _check_text(check_patterns(ignored_paths), "ignored_paths")
    if sends_page is not None:
        changes["sends_page"] = sends_page
    if off_page_facts is not None:
        changes["off_page_facts"] = sorted(set(off_page_facts))
    if max_memories is not UNCHANGED:
        if not 0 <= (max_memories or 0) <= MAX_CAP:
            raise StoreError(f"must be 0 to {MAX_CAP}", CAP)
        changes[CAP] = max_memories
    get_project(_check_text(name, "project"), actor)
    with write_transaction():
        return _change_settings(Project.named(name), changes, actor, now, uid or new_uid())


def _check_text(text: str, field: str) -> str:
    if find_secrets(text):
        raise StoreError("contains what looks like a secret; remove it", field)
    return clean_text(text)


def _change_settings(
    project: Project, changes: Mapping[str, Any], actor: Actor, now: datetime, uid: str
) -> ProjectChange:
    was = {name: getattr(project, name) for name in changes if getattr(project, name) != changes[name]}
    if not was:
        return ProjectChange(project)
    left = {name: changes[name] for name in was}
    _save(project, left, now)
    _record(CONFIGURE, uid, project, {"was": to_detail(was), "left": to_detail(left)}, actor, now)
    return ProjectChange(project, uid)


def _save(project: Project, values: Mapping[str, Any], now: datetime) -> None:
    for name, value in values.items():
        setattr(project, name, value)
    project.updated_at = now
    project.save()


def _record(
    operation: str, uid: str, project: Project, detail: dict[str, Any], actor: Actor, now: datetime
) -> None:
    access = (project.name, Sensitivity.PUBLIC.value, "")
    record_action(operation, uid, {access: {"name": project.name, **detail}}, actor, now, about="project")


def to_detail(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as the journal stores them."""
    return {
        name: format_iso(value) if isinstance(value, datetime) else value for name, value in values.items()
    }


def _restore_settings(undo: Undo, rows: Sequence[JournalEntry]) -> int:
    for row in rows:
        project = Project.named(row.detail["name"])
        was, left = row.detail["was"], row.detail["left"]
        if to_detail({name: getattr(project, name) for name in left}) != left:
            undo.refused.append((project.name, "the settings were changed since"))
            continue
        if PAUSE in was:
            was = {**was, PAUSE: parse_moment(was[PAUSE] or "")}
        _save(project, was, undo.now)
        _record(UNDO_CONFIGURE, undo.id, project, {}, undo.actor, undo.now)
        undo.restored.append(project)
    return len(undo.restored)


inverse_of(Inverse(list, _restore_settings, UNDO_CONFIGURE), CONFIGURE, about="project")


def leave_out(project: Project, event: str, now: datetime) -> str:
    """Return why an event is not recorded; in an observed project, count it."""
    if project.is_paused(now):
        return "memory is paused in this project"
    if project.mode == ProjectMode.OBSERVE:
        if event == TOOL_CONTEXT:  # the call itself is counted when it has run
            return _ONLY_OBSERVED
        with write_transaction():
            day = {"project": project, "day": now.date(), "event": event}
            if not EventCount.objects.filter(**day).update(count=F("count") + 1):
                EventCount.objects.create(**day, count=1)
        return _ONLY_OBSERVED
    return "memory is off in this project"


def import_event_count(name: str, day: date, event: str, count: int, actor: Actor) -> bool:
    """Import a count from another store. Return False if this store counted such events on that day."""
    get_project(name, actor)
    project, _ = Project.objects.get_or_create(name=name)
    day_of = {"project": project, "day": day, "event": event}
    return EventCount.objects.get_or_create(**day_of, defaults={"count": count})[1]


def count_events(project: Project) -> dict[str, int]:
    """Return how many events were counted while the project was observed, by kind."""
    rows = EventCount.objects.filter(project=project) if project.pk else EventCount.objects.none()
    return dict(rows.values_list("event").annotate(n=Sum("count")).order_by("event"))


def mode_note(project: Project, now: datetime | None = None, zone: tzinfo | None = None) -> str:
    """Return the mode of a project in words, empty for the usual one. ``zone``: the reader's time zone."""
    now = now or timezone.now()
    if project.is_paused(now) and project.paused_until:
        until = timezone.localtime(project.paused_until, zone)
        is_today = until.date() == timezone.localtime(now, zone).date()
        return f"paused until {until:%H:%M}" if is_today else f"paused until {until:%Y-%m-%d %H:%M}"
    return "" if project.mode == ProjectMode.AUTOMATIC else _NOTES[project.mode]
