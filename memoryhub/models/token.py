"""The tokens of agents."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Clearance, Sensitivity
from memoryhub.core.vocabulary import Right
from memoryhub.models.fields import name_field, uid_field
from memoryhub.models.querysets import TokenQuerySet


def default_rights() -> list[str]:
    return [Right.READ.value, Right.WRITE.value]


class AgentToken(models.Model):
    """A token. Only its hash is stored. ``projects``: empty for all."""

    uid = uid_field()
    name = models.CharField("agent", max_length=100)
    owner = models.CharField(max_length=150, help_text="Whose personal memories it reads and writes")
    prefix = models.CharField(max_length=12, editable=False, help_text="The readable start of the token")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    clearance = models.CharField(
        max_length=10, default=Sensitivity.PUBLIC.value, choices=[(level, level) for level in LEVELS]
    )
    rights = models.JSONField(default=default_rights)
    projects = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    last_used_from = name_field(45)

    objects = TokenQuerySet.as_manager()

    # Set by the lookup of a request (``tokens.authenticate``).
    owner_is_gone = False
    owner_is_confined = True  # unless the lookup shows otherwise

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def reach(self) -> Clearance:
        """Return the largest clearance of this token."""
        return Clearance.up_to(self.clearance, self.owner, self.projects or None)
