"""The processes that serve a store, and the tasks that one of them has."""

from __future__ import annotations

from django.db import models

from memoryhub.models.fields import name_field


class ServerProcess(models.Model):
    """A process of a server. Only ``memoryhub.maintenance.nodes`` writes it."""

    process = models.CharField(max_length=200, unique=True, help_text="Machine, process id and start")
    node = name_field(help_text="The name of its node")
    pid = models.PositiveIntegerField(help_text="The process id on that machine")
    version = name_field(help_text="The release that it runs")
    key_digest = name_field(help_text="Tells nodes with different secret keys apart")
    started_at = models.DateTimeField(help_text="By the clock of the database, as the next one")
    heartbeat_at = models.DateTimeField(help_text="When the process last renewed this row")
    clock_at = models.DateTimeField(help_text="The clock of the process at that moment")

    class Meta:
        ordering = ["node", "process"]
        verbose_name_plural = "server processes"

    def __str__(self) -> str:
        return f"{self.node} {self.process}"


class Lease(models.Model):
    """A task that only one process does at a time. Only ``memoryhub.maintenance.nodes`` writes it."""

    name = models.CharField(max_length=50, unique=True)
    holder = name_field(help_text="The process that does it, and which of its threads")
    term = models.PositiveIntegerField(default=0, help_text="How many holders it has had")
    taken_at = models.DateTimeField(null=True, help_text="By the clock of the database")
    position = models.TextField(blank=True, default="", help_text="Where the next holder goes on")

    def __str__(self) -> str:
        return f"{self.name}: {self.holder or 'free'}"
