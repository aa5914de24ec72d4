"""Maintenance runs, queued extractions, the use of language models, and the processes that serve a store."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from memoryhub.core.vocabulary import Scope
from memoryhub.models.querysets import name_field, sensitivity_field, uid_field


class MaintenanceRun(models.Model):
    """One run of one operation. Only ``memoryhub.maintenance`` writes it."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    class Cause(models.TextChoices):
        """Why a run failed. The run can be resumed from its position."""

        ERROR = "error"
        INTERRUPTED = "interrupted"
        STOPPED = "stopped"

    uid = uid_field()
    operation = models.CharField(max_length=30)
    params = models.JSONField(default=dict, blank=True)
    project = name_field(help_text="The project to run on. Empty for all projects that the run may access.")
    reach = models.JSONField(default=dict, blank=True, help_text="The clearance that limits the run.")
    dry_run = models.BooleanField(default=False)
    undoes = models.ForeignKey(
        "self",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="undoings",
        help_text="The run that this one undoes.",
    )
    day = models.DateField(
        null=True, blank=True, help_text="The day of the daily maintenance that this run belongs to."
    )
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    cause = models.CharField(max_length=20, choices=Cause.choices, blank=True, default="")
    actor = name_field()
    worker = name_field(help_text="The process and thread that execute it.")
    stop_requested = models.BooleanField(default=False)
    interruptions = models.PositiveIntegerField(
        default=0, help_text="How often its worker stopped before it finished."
    )
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    position = models.JSONField(default=dict, blank=True, help_text="Where an interrupted run continues.")
    result = models.JSONField(default=dict, blank=True, help_text="The number of changes of each kind.")
    error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "day"], condition=Q(day__isnull=False), name="run_once_a_day"
            )
        ]
        indexes = [
            models.Index(fields=["status"], name="run_pending"),  # polled every two seconds
            models.Index(fields=["created_at"], name="run_created"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.status}"


class RunChanges(models.Model):
    """The changes of one step of a run or dry run: ids and numbers, never a text."""

    run = models.ForeignKey(MaintenanceRun, models.CASCADE, related_name="steps")
    changes = models.JSONField(default=list)

    class Meta:
        verbose_name_plural = "run changes"


class UploadPart(models.Model):
    """A part of an uploaded file, for other nodes. Only ``memoryhub.transfer.import_files`` writes it."""

    key = models.CharField(max_length=32)
    number = models.PositiveIntegerField()
    size = models.PositiveIntegerField()
    content = models.BinaryField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["key", "number"], name="upload_part_once")]

    def __str__(self) -> str:
        return f"part {self.number} of {self.key}"


class Extraction(models.Model):
    """One conversation from which memories are extracted. Only ``memoryhub.extraction`` writes it.

    The messages are stored without secrets, and only until the extraction is done.
    """

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    uid = uid_field()
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    project = name_field()
    session_id = name_field()
    scope = models.CharField(max_length=10, default=Scope.PROJECT.value)
    sensitivity = sensitivity_field()
    actor = name_field()
    reach = models.JSONField(default=dict, blank=True, help_text="The clearance that limits what it stores.")
    messages = models.JSONField(default=list, blank=True)
    extractor = name_field(20, help_text="What extracted the memories: rules or the language model.")
    tries = models.PositiveIntegerField(default=0)
    result = models.JSONField(
        default=list, blank=True, help_text="The outcome and the id for each candidate."
    )
    error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["status"], name="extraction_status")]

    def __str__(self) -> str:
        return f"extraction {self.uid} {self.status}"


class ModelUse(models.Model):
    """The use of one language model on one day (UTC), for the daily budget."""

    day = models.DateField()
    model = models.CharField(max_length=200)
    calls = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["-day", "model"]
        constraints = [models.UniqueConstraint(fields=["day", "model"], name="model_use_once_a_day")]

    def __str__(self) -> str:
        return f"{self.model} on {self.day}"


class ServerProcess(models.Model):
    """A process of a server. Only ``memoryhub.maintenance.nodes`` writes it."""

    process = models.CharField(max_length=200, unique=True, help_text="Machine, process id and start time.")
    node = name_field(help_text="The name of the node.")
    pid = models.PositiveIntegerField(help_text="The process id on that machine.")
    version = name_field(help_text="The version that the process runs.")
    key_digest = name_field(help_text="Identifies the secret key of the node without revealing it.")
    started_at = models.DateTimeField(help_text="By the clock of the database.")
    heartbeat_at = models.DateTimeField(
        help_text="When the process last renewed this row, by the clock of the database."
    )
    clock_at = models.DateTimeField(help_text="The clock of the process at that moment.")

    class Meta:
        ordering = ["node", "process"]
        verbose_name_plural = "server processes"

    def __str__(self) -> str:
        return f"{self.node} {self.process}"


class Lease(models.Model):
    """A task that only one process does at a time. Only ``memoryhub.maintenance.nodes`` writes it."""

    name = models.CharField(max_length=50, unique=True)
    holder = name_field(help_text="The process and thread that hold the lease.")
    term = models.PositiveIntegerField(default=0, help_text="How many holders the lease has had.")
    taken_at = models.DateTimeField(null=True, help_text="By the clock of the database.")
    position = models.TextField(blank=True, default="", help_text="Where the next holder continues.")

    def __str__(self) -> str:
        return f"{self.name}: {self.holder or 'free'}"
