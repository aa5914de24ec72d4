"""Data of people besides their Django account, and the tokens of agents."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Self
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Clearance, Sensitivity
from memoryhub.core.vocabulary import Right
from memoryhub.models.querysets import TokenQuerySet, name_field, uid_field


class Profile(models.Model):
    """Preferences, and whether memberships restrict what the person sees."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="profile")
    theme = name_field(10, help_text="Light or dark. Leave empty to follow the device.")
    time_zone = name_field(64, help_text="Leave empty to use the hub's time zone.")
    language = name_field(
        16, help_text="The language of dates. Leave empty for plain dates such as 2026-11-20."
    )
    confined = models.BooleanField(
        default=False,
        help_text="Sees only the projects that they are a member of. Set with the first membership and kept "
        "after the last one ends, so that removing it never reveals other projects.",
    )
    looked_at = models.DateTimeField(
        null=True, blank=True, help_text="When this person last finished the review."
    )

    def __str__(self) -> str:
        return f"profile of {self.user}"


class Membership(models.Model):
    """A person's access to a project, and the highest level that they may read there."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    project = models.CharField(max_length=200)
    clearance = models.CharField(
        max_length=10,
        blank=True,
        default="",
        choices=[(level, level) for level in LEVELS],
        help_text="Leave empty to use the levels of the person's own permissions.",
    )
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["user", "project"]
        constraints = [models.UniqueConstraint(fields=["user", "project"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} on {self.project}"


class SavedSearch(models.Model):
    """A list with filters that a person saved under a name."""

    uid = uid_field()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_searches")
    name = models.CharField(max_length=100)
    page = models.CharField(max_length=20, help_text="The list that this search opens.")
    query = models.CharField(
        max_length=2000, blank=True, default="", help_text="The query string of the search."
    )
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "saved searches"
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="saved_search_once")]

    def __str__(self) -> str:
        return self.name


CHANNELS = [("email", "E-mail"), ("webhook", "Webhook")]
PERIODS = [("daily", "Every day"), ("weekly", "Every Monday")]


class DigestQuerySet(models.QuerySet["Digest"]):
    def due(self, now: datetime) -> Self:
        """Return the digests of active people whose time has come, longest overdue first."""
        rows = self.filter(enabled=True, user__is_active=True, next_at__lte=now)
        return rows.order_by("next_at", "pk")


class Digest(models.Model):
    """A summary of memories that is sent to a person regularly. Only ``memoryhub.digests`` writes it.

    ``since``: the end of the period that the last one covered. ``next_at``: when the next one is due, or its
    next attempt. ``attempts``: failed ones for this period.
    """

    EMAIL, WEBHOOK = "email", "webhook"
    DAILY, WEEKLY = "daily", "weekly"

    uid = uid_field()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="digests")
    project = name_field(help_text="Leave empty for all projects that the person can see.")
    channel = models.CharField(max_length=10, choices=CHANNELS)
    period = models.CharField(max_length=10, choices=PERIODS)
    level = models.CharField(
        max_length=10,
        default=Sensitivity.PUBLIC.value,
        choices=[(level, level) for level in LEVELS[:2]],
        help_text="The highest level included in e-mails. Webhooks receive only public memories.",
    )
    url = name_field(500, help_text="The URL of the webhook.")
    secret = name_field(100, editable=False, help_text="The key that signs webhook requests.")
    hub_url = name_field(500, editable=False, help_text="The address of the hub, used in links.")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)
    since = models.DateTimeField(default=timezone.now)
    next_at = models.DateTimeField(default=timezone.now)
    attempts = models.PositiveSmallIntegerField(default=0, editable=False)
    error = name_field(500, editable=False)
    failed_at = models.DateTimeField(null=True, blank=True, editable=False)
    sent_at = models.DateTimeField(null=True, blank=True, editable=False)
    tested_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = DigestQuerySet.as_manager()

    class Meta:
        ordering = ["created_at", "pk"]
        indexes = [models.Index(fields=["next_at"], name="digest_next", condition=models.Q(enabled=True))]

    def __str__(self) -> str:
        return f"{self.period} digest of {self.user}"

    @property
    def target(self) -> str:
        """Where it is sent: the address of its owner, or the host of a webhook, whose path is a secret."""
        return self.user.email if self.channel == self.EMAIL else urlsplit(self.url).hostname or ""


def default_rights() -> list[str]:
    return [Right.READ.value, Right.WRITE.value]


class OAuthClient(models.Model):
    """A program that registered itself to act for people. It can do nothing before a person approves it."""

    uid = uid_field()
    name = models.CharField(max_length=100, help_text="The name that the app registered. It is not verified.")
    redirect_uris = models.JSONField(default=list)
    auth_method = models.CharField(max_length=30)
    secret_digest = models.CharField(max_length=64, blank=True, default="", editable=False)
    registered_at = models.DateTimeField(default=timezone.now)
    registered_from = name_field(45)
    approved_at = models.DateTimeField(null=True, blank=True)
    approved_by = name_field(150)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-registered_at"]
        verbose_name = "OAuth client"

    def __str__(self) -> str:
        return self.name

    @property
    def hosts(self) -> list[str]:
        """The hosts that it sends people back to."""
        return sorted({re.split("[/?:]", uri.partition("://")[2])[0] for uri in self.redirect_uris})


class AgentToken(models.Model):
    """A token. Only its hash is stored. ``projects``: empty for all.

    A grant to an OAuth client is a token whose secret is valid until ``secret_until``: a refresh replaces it.
    """

    uid = uid_field()
    name = models.CharField("agent", max_length=100)
    owner = models.CharField(
        max_length=150, help_text="The person whose personal memories this token reads and writes."
    )
    prefix = models.CharField(max_length=12, editable=False, help_text="The first characters of the token.")
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
    waiting_events = models.PositiveIntegerField(
        default=0, editable=False, help_text="Events that the agent's machine has not sent yet."
    )
    client = models.ForeignKey(
        OAuthClient, models.PROTECT, null=True, blank=True, editable=False, related_name="tokens"
    )
    audience = name_field(
        500, editable=False, help_text="The only MCP server that accepts this token. Empty for all."
    )
    secret_until = models.DateTimeField(null=True, blank=True, editable=False)

    objects = TokenQuerySet.as_manager()

    # Set by the lookup of a request (``tokens.authenticate``).
    owner_is_gone = False
    owner_is_confined = True  # unless the lookup shows otherwise

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def toolset(self) -> str:
        """The toolset of an OAuth client's token; empty for all."""
        return self.audience.rpartition("/")[2]

    def has_ended(self, now: datetime) -> bool:
        """Whether the token was revoked or has expired: not in ``AgentToken.objects.active(now)``."""
        return self.revoked_at is not None or (self.expires_at is not None and self.expires_at <= now)

    def full_clearance(self) -> Clearance:
        """Return the largest clearance of this token."""
        return Clearance.up_to(self.clearance, self.owner, self.projects or None)


class OAuthCode(models.Model):
    """What a person granted to a client, until the client collects the token. Only a hash is stored."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    client = models.ForeignKey(OAuthClient, models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    redirect_uri = models.CharField(max_length=500)
    audience = models.CharField(max_length=500)
    code_challenge = models.CharField(max_length=128)
    grant = models.JSONField(help_text="Name, clearance, permissions, projects and expiry of the token.")
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    token = models.ForeignKey(AgentToken, models.CASCADE, null=True, related_name="+")


class OAuthRefresh(models.Model):
    """A refresh token of a grant. It is used once; using it again later revokes the grant."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    token = models.ForeignKey(AgentToken, models.CASCADE, related_name="+")
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
