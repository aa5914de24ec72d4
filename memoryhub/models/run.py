"""Maintenance runs (purge, consolidate, compress, …) with progress, result and changes."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from memoryhub.models.fields import name_field, uid_field


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
    project = name_field(help_text="The project it is about; empty: all that its reach leaves open")
    reach = models.JSONField(default=dict, blank=True, help_text="The clearance it runs under, never wider")
    dry_run = models.BooleanField(default=False)
    undoes = models.ForeignKey(
        "self",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="undoings",
        help_text="The run it takes back",
    )
    day = models.DateField(null=True, blank=True, help_text="The day whose daily maintenance it belongs to")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    cause = models.CharField(max_length=20, choices=Cause.choices, blank=True, default="")
    actor = name_field()
    worker = name_field(help_text="The process and thread at work on it")
    stop_requested = models.BooleanField(default=False)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    position = models.JSONField(default=dict, blank=True, help_text="Where an interrupted run goes on")
    result = models.JSONField(default=dict, blank=True, help_text="Counts for each kind of change")
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
