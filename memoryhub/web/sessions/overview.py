"""The rows of the list of sessions: what each session was about, how long it took, what was kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, Min, OuterRef, Q

from memoryhub.access.policy import Clearance
from memoryhub.core.text import collapse_whitespace
from memoryhub.models import Event, Memory, Session
from memoryhub.models.querysets import SessionQuerySet
from memoryhub.web.base.session_titles import IS_PROMPT, name_sessions
from memoryhub.web.sessions.time_axis import format_pause

MAX_QUERY_WORDS = 8


@dataclass(frozen=True)
class SessionRow:
    """A session with what its reader may see of it: the summary, the first prompt, and the skipped events."""

    session: Any  # a Session with the annotations of sessions_with_counts
    summary: Memory | None
    prompt: Event | None
    skipped: int

    @property
    def duration(self) -> str:
        """Return the time from the first visible row to the end, such as ``45 min``; empty if none."""
        last = max(self.session.last_seen, self.session.ended_seen or self.session.last_seen)
        span = last - self.session.first_seen
        return format_pause(span) if span else ""

    @property
    def shows_prompt(self) -> bool:
        """Whether the prompt is shown below the title, because it says something else."""
        if not self.summary or not self.prompt:
            return False
        title = self.summary.title.removeprefix("Session: ").rstrip("…")
        return not collapse_whitespace(self.prompt.preview).startswith(title)

    @property
    def version(self) -> tuple[Any, ...]:
        """Return the values that change during a session."""
        texts = (self.summary and self.summary.title, self.prompt and self.prompt.pk)
        return (*session_version(self.session), self.skipped, *texts)


def session_version(session: Any) -> tuple[Any, ...]:
    """Return what changes of a session of ``sessions_with_counts`` during it."""
    counts = (session.memory_count, session.event_count)
    return (session.session_id, session.project, *counts, session.last_seen, session.ended_seen)


def describe(sessions: Sequence[Session], clearance: Clearance) -> list[SessionRow]:
    """Return the rows of some sessions. Three queries, and one if a session has no summary or prompt."""
    summary_ids = [session.summary_id for session in sessions if session.summary_id]
    summaries = Memory.objects.visible_to(clearance).live().in_bulk(summary_ids)
    events = Event.objects.visible_to(clearance).filter(session__in=sessions)
    skipped = Count("pk", filter=Q(memory=None) & ~Q(skip_reason=""))
    groups = events.order_by().values("session").annotate(skipped=skipped, first=Min("pk", filter=IS_PROMPT))
    by_session = {group["session"]: group for group in groups}
    first = [group["first"] for group in by_session.values() if group["first"]]
    prompts = events.select_related("memory").in_bulk(first)
    rows = []
    for session in sessions:
        group = by_session.get(session.pk, {"skipped": 0, "first": None})
        summary, prompt = summaries.get(session.summary_id), prompts.get(group["first"])
        rows.append(SessionRow(session, summary, prompt, group["skipped"]))
    name_sessions([row.session for row in rows if not (row.summary or row.prompt)], clearance)
    return rows


def find_words(rows: SessionQuerySet, words: str, clearance: Clearance) -> SessionQuerySet:
    """Return the sessions in which each word occurs.

    Words are looked for in the id, the project, visible prompts, titles of visible memories, and the visible
    summary.
    """
    prompts = Event.objects.visible_to(clearance).filter(IS_PROMPT, session=OuterRef("pk"))
    memories = Memory.objects.visible_to(clearance).live()
    of_session = memories.in_session(OuterRef("session_id"), project=OuterRef("project"))
    summary = memories.filter(pk=OuterRef("summary_id"))
    for word in words.split()[:MAX_QUERY_WORDS]:
        rows = rows.filter(
            Q(session_id__icontains=word)
            | Q(project__icontains=word)
            | Exists(prompts.filter(preview__icontains=word))
            | Exists(of_session.filter(title__icontains=word))
            | Exists(summary.filter(content__icontains=word))
        )
    return rows
