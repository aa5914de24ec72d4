"""Titles and URLs of sessions, on the pages of every feature."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import OuterRef, Q, Subquery
from django.urls import reverse

from memoryhub.access.policy import Clearance, Sensitivity, format_display_name
from memoryhub.core.text import collapse_whitespace, shorten
from memoryhub.models import Event, Memory, Session

IS_PROMPT = Q(event="prompt:submit")
_SESSION_ID_CHARS = 40
_NAMING_FIELDS = ("title", "uid", "sensitivity")  # of the summary, in the order of format_display_name


def session_name(session: Session | None, session_id: str = "") -> str:
    """Return the title that ``name_sessions`` found for a session, else the start of its id."""
    title = session.title if session else ""
    return title or f"Session {shorten(session.session_id if session else session_id, _SESSION_ID_CHARS)}"


def session_url(session_id: str, project: str) -> str:
    return reverse("session", args=[session_id], query={"project": project})


def name_sessions(sessions: Iterable[Session], clearance: Clearance) -> None:
    """Set the ``title`` of each session, see :func:`make_title`. One query."""
    by_key: dict[int, list[Any]] = defaultdict(list)
    for session in sessions:
        session.title = ""
        by_key[session.pk].append(session)
    if not by_key:
        return
    rows = Session.objects.filter(pk__in=by_key).annotate(**title_columns(clearance))
    for row in rows.only("pk"):
        for session in by_key[row.pk]:
            session.title = make_title(row)


def title_columns(clearance: Clearance) -> dict[str, Subquery]:
    """Return the annotations of sessions that :func:`make_title` needs."""
    prompts = Event.objects.visible_to(clearance).filter(IS_PROMPT, session=OuterRef("pk"))
    prompts = prompts.exclude(memory__sensitivity=Sensitivity.SECRET.value).order_by("at", "pk")
    memories = Memory.objects.visible_to(clearance).live()
    summaries = memories.filter(pk=OuterRef("summary_id"))
    stored = memories.in_session(OuterRef("session_id"), project=OuterRef("project"))
    stored = stored.exclude(sensitivity=Sensitivity.SECRET.value).order_by("created_at", "pk")
    return {
        "first_prompt": Subquery(prompts.values("preview")[:1]),
        "first_memory": Subquery(stored.values("title")[:1]),
        **{f"summary_{name}": Subquery(summaries.values(name)[:1]) for name in _NAMING_FIELDS},
    }


def make_title(session: Any) -> str:
    """Return the title of a session with the annotations of :func:`title_columns`.

    It comes from the visible summary, else the first visible prompt, else the first visible memory, as in
    imported sessions.
    """
    summary = [getattr(session, f"summary_{name}") for name in _NAMING_FIELDS]
    title = format_display_name(*summary) if session.summary_uid else ""
    title = title or session.first_prompt or session.first_memory or ""
    return collapse_whitespace(title).removeprefix("Session: ")
