"""The settings of a project, what it is recognised by, and the events counted while it was only observed."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.utils import timezone

from memoryhub.backends.statements import column_names, read_project, to_object
from memoryhub.core.vocabulary import PROJECT_MODES, ProjectMode
from memoryhub.models.querysets import (
    name_field,
)


class Project(models.Model):
    """The settings of a project. Without a row, the defaults apply.

    ``name``: the value of ``Memory.project``. Only ``memoryhub.capture.projects`` writes it.
    """

    name = models.CharField(max_length=200, unique=True)
    mode = models.CharField(
        max_length=10, default=ProjectMode.AUTOMATIC.value, choices=[(mode, mode) for mode in PROJECT_MODES]
    )
    paused_until = models.DateTimeField(null=True, blank=True)
    ignored_paths = models.TextField(
        blank=True, default="", help_text="File patterns, in the syntax of .gitignore."
    )
    sends_page = models.BooleanField(
        default=True, help_text="Send the project page to agents at the start of a session."
    )
    off_page_facts = models.JSONField(
        default=list, blank=True, help_text="Ids of public facts that the project page omits."
    )
    max_memories = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Maximum number of memories per owner. 0 for no limit; empty for the default.",
    )
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def named(cls, name: str) -> Project:
        """Return the settings of a project; unsaved defaults if it has none."""
        found = read_project(column_names(cls), name) if name else None
        return to_object(cls, found) if found else cls(name=name)

    def is_paused(self, now: datetime) -> bool:
        return self.paused_until is not None and self.paused_until > now

    @property
    def is_recorded(self) -> bool:
        """Whether the mode lets hooks store and inject anything. A pause does not count."""
        return self.mode in (ProjectMode.AUTOMATIC, ProjectMode.APPROVE)

    def records_events(self, now: datetime) -> bool:
        """Whether hooks may store and inject anything."""
        return self.is_recorded and not self.is_paused(now)


class EventCount(models.Model):
    """How many events of a kind arrived on a day (UTC) in an observed project."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="event_counts")
    day = models.DateField()
    event = models.CharField(max_length=30)
    count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "day", "event"], name="event_count_once")]

    def __str__(self) -> str:
        return f"{self.event} on {self.day}: {self.count}"


class ProjectIdentity(models.Model):
    """What a project is recognised by. Only ``memoryhub.capture`` writes it.

    ``key``: ``remote:HOST/PATH`` or ``root:COMMIT`` of a repository, ``name:PROJECT``, a former name, or
    ``folder:PATH``, a folder that was split off.
    ``owner``: whose agents it applies to, empty for everyone's. An agent that is confined to some projects
    identifies them only for its owner, because others would store in the project that it names.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="identities")
    key = models.CharField(max_length=400)
    owner = name_field(150)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "project identities"
        constraints = [models.UniqueConstraint(fields=["key", "owner"], name="project_identity_once")]

    def __str__(self) -> str:
        return self.key

    @property
    def title(self) -> str:
        """The key in words, a commit abbreviated as git does."""
        kind, _, value = self.key.partition(":")
        if kind == "root":
            return f"first commit {value[:12]}"
        return {"name": "former name ", "folder": "folder "}.get(kind, "") + value


class ProjectMove(models.Model):
    """Rows of one table that an action moved to another project, for its undo. It contains no texts.

    ``rows``: the primary key and the previous value of the changed column of each; for identities that were
    replaced, their key and what it identified.
    """

    action = models.CharField(max_length=32, db_index=True)
    table = models.CharField(max_length=20)
    rows = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)
