"""Facts: subject, predicate, object."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memoryhub.models.fields import name_field, sensitivity_field, share_constraint, share_field, uid_field
from memoryhub.models.memory import Memory
from memoryhub.models.querysets import FactQuerySet


class Fact(models.Model):
    """One fact. Only ``memoryhub.facts.services`` writes it. Storing it again updates its confidence."""

    uid = uid_field()
    subject = models.CharField(max_length=500)
    predicate = models.CharField(max_length=200)
    object = models.TextField()
    confidence = share_field(1.0)
    project = name_field()
    session_id = name_field()
    sensitivity = sensitivity_field()
    memory = models.ForeignKey(Memory, models.SET_NULL, null=True, blank=True, related_name="facts")
    author = name_field()
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now, db_index=True)
    valid_from = models.DateTimeField(null=True, blank=True)
    valid_until = models.DateTimeField(null=True, blank=True)
    superseded_by = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="supersedes"
    )
    copy = models.PositiveIntegerField(
        default=0,
        editable=False,
        help_text="Above 0 if an identical row exists that the author of this one may not see.",
    )

    objects = FactQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "predicate", "object", "project", "sensitivity", "copy"], name="fact_once"
            ),
            share_constraint("fact", "confidence"),
        ]
        indexes = [
            models.Index(fields=["predicate", "subject"], name="fact_predicate"),
            models.Index(fields=["object"], name="fact_object"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.predicate} {self.object}"
