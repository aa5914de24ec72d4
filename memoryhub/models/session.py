"""Sessions of agents, their events, and injections."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.utils import timezone

from memoryhub.backends import bulk
from memoryhub.core.database import adapt_moment
from memoryhub.core.text import folder_name
from memoryhub.models.memory import Memory
from memoryhub.models.querysets import (
    EventQuerySet,
    InjectionQuerySet,
    SessionQuerySet,
    name_field,
    sensitivity_field,
    uid_field,
)


class Session(models.Model):
    """A session of an agent in a project. Starts with its first event or memory."""

    session_id = models.CharField(max_length=200)
    project = name_field()
    agent = name_field()
    cwd = name_field(1000)
    started_at = models.DateTimeField(default=timezone.now)
    last_at = models.DateTimeField(default=timezone.now, db_index=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = name_field(50)
    segment = models.PositiveIntegerField(default=0)
    state = models.JSONField(default=dict, blank=True, help_text="Working state of capture and boundaries.")
    summary = models.ForeignKey(Memory, models.SET_NULL, null=True, blank=True, related_name="+")

    # Set while an event is recorded (``capture.event_log``): whether it created the session, whether it
    # repeats the latest event, whether another event has its mark, whether a memory may name its files,
    # whether one has hashes of their lines, and whether it was shown memories.
    is_new = False
    is_repeated = False
    has_mark = False
    has_file_links = True
    has_code_references = True
    has_injections = False
    # The title for people, set by ``web.sessions.overview.name_sessions``.
    title = ""

    objects = SessionQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session_id", "project"], name="session_once")]
        indexes = [
            models.Index(fields=["started_at"], name="session_started"),
            models.Index(
                fields=["ended_at"], name="session_ended", condition=models.Q(ended_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return self.session_id

    @property
    def top(self) -> str:
        """The folder that paths are relative to: the top of the repository if known, or the first folder."""
        subfolder = self.state.get("subfolder")
        return self.cwd.rstrip("/\\")[: -len(subfolder) - 1] if subfolder else self.cwd

    @property
    def top_name(self) -> str:
        """The project if :attr:`top` is known to be the top of its repository, else empty."""
        is_known = self.state.get("subfolder") is not None
        return self.project if is_known or folder_name(self.top) == self.project else ""

    def path_in_folder(self, path: str) -> str:
        """Return a path below :attr:`top` as a session with an unknown top stores it."""
        return path.removeprefix(f"{self.state.get('subfolder') or '.'}/")

    @classmethod
    def widen(cls, spans: list[tuple[str, str, datetime, datetime]], agent: str) -> list[int]:
        """Insert or extend sessions ``(session_id, project, first, last)``. Return their keys."""
        return bulk.insert_or_extend(
            cls,
            (*_SPAN, *_FRESH),
            [
                (sid, project, adapt_moment(first), adapt_moment(last), agent, *_FRESH.values())
                for sid, project, first, last in spans
            ],
            unique=("session_id", "project"),
            lowest="started_at",
            highest="last_at",
        )


_SPAN = ("session_id", "project", "started_at", "last_at", "agent")
_FRESH = {"cwd": "", "end_reason": "", "segment": 0, "state": "{}"}


class Event(models.Model):
    """A tool call, a prompt, a start or an end, with a preview and the results, never the whole output."""

    session = models.ForeignKey(Session, models.CASCADE, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    event = models.CharField(max_length=30)
    tool_name = name_field()
    sensitivity = sensitivity_field()
    files = models.JSONField(default=list, blank=True)
    keywords = models.JSONField(default=list, blank=True)
    segment = models.PositiveIntegerField(default=0)
    boundary = models.BooleanField(default=False)
    memorability = models.FloatField(null=True, blank=True)
    memorability_parts = models.JSONField(default=dict, blank=True)
    skip_reason = name_field(50)
    handlers = models.JSONField(default=list, blank=True, help_text="The result of each handler, in order.")
    memory = models.ForeignKey(Memory, models.SET_NULL, null=True, blank=True, related_name="events")
    mark = name_field(16, help_text="Identifies a repeated delivery. Empty if the event cannot be repeated.")
    preview = models.TextField(blank=True, default="")
    digests = models.JSONField(
        null=True, blank=True, editable=False, help_text="Hashes of what the agent wrote after an injection."
    )
    lines = models.JSONField(
        null=True,
        blank=True,
        editable=False,
        help_text="Hashes of the lines of the file, stored until the session ends.",
    )

    objects = EventQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["session", "mark"], name="event_once", condition=~models.Q(mark="")
            )
        ]
        indexes = [
            models.Index(fields=["session", "at"], name="event_session_at"),
            models.Index(fields=["at"], name="event_at"),
        ]


class Injection(models.Model):
    """The memories that were added to a prompt, those that were withheld, and the reasons."""

    uid = uid_field()
    session = models.ForeignKey(Session, models.CASCADE, null=True, blank=True, related_name="injections")
    project = name_field()
    at = models.DateTimeField(default=timezone.now, db_index=True)
    sensitivity = sensitivity_field()
    prompt_preview = models.TextField(blank=True, default="")
    token_budget = models.PositiveIntegerField(default=0)
    tokens_used = models.PositiveIntegerField(default=0)
    took_ms = models.FloatField(default=0)
    injected = models.JSONField(
        default=list, blank=True, help_text="Id, score, scale and outcome of each memory that was sent."
    )
    helped = models.BooleanField(
        null=True,
        editable=False,
        help_text="Whether the agent used a memory that was sent. Empty if undecided.",
    )
    withheld = models.JSONField(default=list, blank=True, help_text="Id and reason of each withheld memory.")

    page = models.JSONField(
        default=list, blank=True, help_text="Kind and id of each line of the project page that was sent."
    )

    objects = InjectionQuerySet.as_manager()
