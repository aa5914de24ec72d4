"""How many memories a session was shown and left, and in how many prompts of a week memories were used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Count, Exists, OuterRef

from memoryhub.access.policy import Actor
from memoryhub.capture.projects import mode_note
from memoryhub.core.text import format_count
from memoryhub.core.vocabulary import SUMMARY_TYPES
from memoryhub.hooks import PROMPT_SUBMIT, SESSION_START
from memoryhub.models import Event, Injection, Memory, Profile, Project

WEEK = timedelta(days=7)


@dataclass(frozen=True)
class SessionUse:
    """How many visible memories a session was shown, and how many it left, without its summaries."""

    shown: int
    kept: int

    def __str__(self) -> str:
        return f"{format_count(self.shown, 'memory')} shown, {self.kept} kept"


def count_session_use(session_id: str, project: str, actor: Actor) -> SessionUse:
    """Count the memories of a session that the actor may see."""
    visible = Memory.objects.visible_to(actor.clearance)
    logged = Injection.objects.visible_to(actor.clearance).filled()
    logged = logged.filter(session__session_id=session_id, project=project)
    shown = {one["id"] for injected in logged.values_list("injected", flat=True) for one in injected}
    kept = visible.live().in_session(session_id, project=project).exclude(type__in=SUMMARY_TYPES)
    return SessionUse(visible.filter(uid__in=shown).count() if shown else 0, kept.count())


def last_shown(session_id: str, project: str, actor: Actor) -> list[Memory]:
    """Return the memories that the session was shown last, as far as the actor may see them, in order."""
    logged = Injection.objects.visible_to(actor.clearance).filled()
    row = logged.filter(session__session_id=session_id, project=project).order_by("-at", "-pk").first()
    shown = [one["id"] for one in row.injected] if row else []
    visible = Memory.objects.visible_to(actor.clearance).live().filter(uid__in=shown)
    return sorted(visible, key=lambda memory: shown.index(memory.uid))


def status_line(session_id: str, project: Project, actor: Actor, now: datetime) -> str:
    """Return what memory did in a session, and the mode of its project unless that is automatic."""
    note = mode_note(project, now, time_zone(actor))
    if not project.records_events(now):
        return f"memoryhub: {note}"
    line = f"memoryhub: {count_session_use(session_id, project.name, actor)}"
    return f"{line}, {note}" if note else line


def time_zone(actor: Actor) -> ZoneInfo | None:
    """Return the time zone that the owner of a token has chosen."""
    chosen = Profile.objects.filter(user__username=actor.owner).values_list("time_zone", flat=True).first()
    return ZoneInfo(chosen) if chosen else None


def is_week_new(actor: Actor, now: datetime) -> bool:
    """Whether the agent has started no session since Monday (UTC)."""
    monday = now.date() - timedelta(days=now.weekday())
    starts = Event.objects.live().filter(event=SESSION_START, at__gte=f"{monday}T00:00:00Z", at__lt=now)
    return not starts.filter(session__agent=actor.name, session__last_at__gte=f"{monday}T00:00:00Z").exists()


def weekly_line(actor: Actor, now: datetime) -> str:
    """Return in how many prompts of the last week a memory helped, or was shown; empty without prompts."""
    prompts = (
        Event.objects.visible_to(actor.clearance)
        .live()
        .filter(session__agent=actor.name, event=PROMPT_SUBMIT, at__gte=now - WEEK)
    )
    shown = Injection.objects.visible_to(actor.clearance).filled()
    shown = shown.filter(session=OuterRef("session"), at=OuterRef("at"))
    counts = prompts.aggregate(
        prompts=Count("pk"),
        shown=Count("pk", filter=Exists(shown)),
        used=Count("pk", filter=Exists(shown.filter(helped=True))),
    )
    if not counts["prompts"]:
        return ""
    used, total, seen = counts["used"], counts["prompts"], counts["shown"]
    return f"memories were used in {used} of {total} prompts of the last 7 days, and shown in {seen}"
