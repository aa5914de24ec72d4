"""The journal: append-only by database triggers, a chain of hashes."""

from __future__ import annotations

from typing import Any, Self

from django.db import models

from memoryhub.models.fields import name_field, sensitivity_field
from memoryhub.models.querysets import JournalQuerySet


class JournalEntry(models.Model):
    """One change. Only ``memoryhub.audit.journal`` writes it. Never contains the text of a memory."""

    seq = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=200)
    operation = models.CharField(max_length=40)
    object_type = models.CharField(max_length=20)
    object_id = name_field(300)
    # The object's values at that time. They decide the visibility of this row.
    project = name_field()
    sensitivity = sensitivity_field()
    owner = name_field(150)
    detail = models.JSONField(default=dict)
    hash = models.CharField(max_length=64)

    objects = JournalQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "journal"
        ordering = ["-seq"]
        indexes = [
            models.Index(fields=["object_id", "seq"], name="journal_object"),
            models.Index(fields=["operation", "seq"], name="journal_operation"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.operation} {self.object_id}"

    @classmethod
    def from_db(cls, *args: Any, **options: Any) -> Self:
        """Load a row without the hash of a skipped text, unless the row has the level of that text.

        Old rows can be visible below that level, and the journal cannot be changed.
        """
        row = super().from_db(*args, **options)
        detail = row.__dict__.get("detail")  # missing if the field is deferred
        if isinstance(detail, dict) and "candidate_sensitivity" not in detail:
            detail.pop("candidate_hash", None)
        return row
