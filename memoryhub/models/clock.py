"""The last reading of the clock, to notice jumps."""

from __future__ import annotations

from django.db import models


class ClockState(models.Model):
    """The one row about the clock. Only ``memoryhub.audit.clock`` writes it."""

    at = models.DateTimeField(help_text="The wall clock at the last reading")
    boot = models.CharField(max_length=64, help_text="The id of the boot; empty where the system has none")
    seconds = models.FloatField(help_text="Seconds since the boot at the last reading")
    ahead = models.FloatField(default=0, help_text="Seconds by which the wall clock is ahead, unconfirmed")
    proven = models.BooleanField(default=False, help_text="Less time has passed than the wall clock shows")
    waited = models.FloatField(default=0, help_text="Seconds of uptime since the clock was found ahead")
    days = models.JSONField(default=list, help_text="The days on which the clock was read, in that order")

    def __str__(self) -> str:
        return f"clock at {self.at:%Y-%m-%d %H:%M}"
