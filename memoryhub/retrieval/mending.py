"""What a memory may lack or suffer from: one meaning for the health report and for the list that mends it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from memoryhub.models import FileLink

STALE_DAYS = 90  # neither read nor changed for so long
UNUSED_DAYS = 30  # so long a memory has had the chance to be read
STALE, UNUSED, NO_FILES, NO_PROJECT = "stale", "unused", "without-files", "without-project"
AILMENTS = (STALE, UNUSED, NO_FILES, NO_PROJECT)


def ailing(ailment: str, now: datetime | None = None) -> Q:
    """The condition on memories that have one of :data:`AILMENTS`; KeyError for another word."""
    now = now or timezone.now()
    old, ripe = now - timedelta(days=STALE_DAYS), now - timedelta(days=UNUSED_DAYS)
    unread = Q(last_accessed_at__isnull=True) | Q(last_accessed_at__lt=old)
    return {
        STALE: Q(updated_at__lt=old) & unread,
        UNUSED: Q(accessed_count=0, created_at__lt=ripe),
        NO_FILES: ~Q(Exists(FileLink.objects.filter(memory=OuterRef("pk")))),
        NO_PROJECT: Q(project=""),
    }[ailment]
