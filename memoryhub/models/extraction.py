"""The extraction queue, and the daily use of language models."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memoryhub.core.vocabulary import Scope
from memoryhub.models.fields import name_field, sensitivity_field, uid_field


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
    reach = models.JSONField(default=dict, blank=True, help_text="The clearance it stores under")
    messages = models.JSONField(default=list, blank=True)
    extractor = name_field(20, help_text="Who read it: rules, or the model")
    tries = models.PositiveIntegerField(default=0)
    result = models.JSONField(default=list, blank=True, help_text="An outcome and an id for each candidate")
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
