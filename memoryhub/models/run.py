"""A maintenance run: purge, consolidate, compress, …, with its progress and its result."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memoryhub.models.fields import name_field, uid_field


class MaintenanceRun(models.Model):
    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    uid = uid_field()
    operation = models.CharField(max_length=30)
    params = models.JSONField(default=dict, blank=True)
    dry_run = models.BooleanField(default=False)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    actor = name_field()
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    position = models.JSONField(default=dict, blank=True, help_text="Where an interrupted run goes on")
    result = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.operation} {self.status}"
