"""Memory checks: what a prompt must bring, and what it must never bring."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Exists, OuterRef
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Clearance, Sensitivity
from memoryhub.models.fields import name_field, sensitivity_field, uid_field
from memoryhub.models.memory import Memory
from memoryhub.models.querysets import AccessQuerySet


class CheckQuerySet(AccessQuerySet):
    def visible_to(self, clearance: Clearance) -> Self:
        """Return checks of visible levels and projects, without those that name a hidden memory."""
        hidden = Memory.objects.hidden_from(clearance)
        named = CheckedMemory.objects.filter(check_ref=OuterRef("pk"), memory__in=hidden)
        return super().visible_to(clearance).filter(~Exists(named))


class MemoryCheck(models.Model):
    """A prompt with expectations. Only ``memoryhub.checks`` writes it.

    ``level``: up to which level the prompt asks. ``sensitivity``: the strictest of that and of the memories
    that it names. ``result``: of the last run with the owner's clearance, without texts.
    """

    uid = uid_field()
    owner = models.CharField(
        max_length=150, help_text="The person whose clearance limits what a run can see."
    )
    project = name_field()
    sensitivity = sensitivity_field()
    prompt = models.TextField()
    level = models.CharField(
        max_length=10, default=Sensitivity.PUBLIC.value, choices=[(level, level) for level in LEVELS]
    )
    must_words = models.JSONField(default=list, blank=True)
    never_words = models.JSONField(default=list, blank=True)
    never_projects = models.JSONField(default=list, blank=True)
    never_level = name_field(10, help_text="This level and all more sensitive levels.")
    enabled = models.BooleanField(default=True)
    passed = models.BooleanField(null=True, editable=False)
    result = models.JSONField(default=dict, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = CheckQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-pk"]
        indexes = [models.Index(fields=["project"], name="memory_check_project")]

    def __str__(self) -> str:
        return f"check {self.uid}"

    def uids(self, rule: str) -> list[str]:
        """Return the ids of the memories of a rule, in the order in which they were given."""
        return [one.uid for one in self.memories.all() if one.rule == rule]


class CheckedMemory(models.Model):
    """A memory that a check must bring, or must never bring. The id stays when the memory is erased."""

    MUST, NEVER = "must", "never"

    check_ref = models.ForeignKey(MemoryCheck, models.CASCADE, related_name="memories")
    memory = models.ForeignKey(Memory, models.SET_NULL, null=True, blank=True, related_name="+")
    uid = models.CharField(max_length=32)
    rule = models.CharField(max_length=5, choices=[(MUST, MUST), (NEVER, NEVER)])

    class Meta:
        ordering = ["pk"]
        verbose_name_plural = "checked memories"

    def __str__(self) -> str:
        return f"{self.rule} bring {self.uid}"
