"""Writing memories out, under a clearance that is named, and counting what it leaves out."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from itertools import islice

from django.utils import timezone

from memoryhub import journal
from memoryhub.interchange.jsonl import dump
from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.details import lists_of
from memoryhub.retrieval.filters import MemoryFilter
from memoryhub.retrieval.overview import counts
from memoryhub.sensitivity import LEVELS, Actor, Sensitivity
from memoryhub.transactions import write
from memoryhub.vocabulary import Scope

UNKNOWN = "unknown"
_CHUNK = 1000


@dataclass(frozen=True)
class Selection:
    """Which memories go out, and to whom: what the actor's clearance shows and the filter lets through."""

    actor: Actor
    filter: MemoryFilter

    def memories(self) -> MemoryQuerySet:
        """In the order in which they were stored. Lazy."""
        return self.filter.select(self.actor.clearance).order_by("pk")

    def lines(self) -> Generator[bytes]:
        """The memories as JSON lines, a thousand of them in memory at a time."""
        rows = self.memories().iterator(chunk_size=_CHUNK)
        while chunk := list(islice(rows, _CHUNK)):
            lists = lists_of(chunk)
            for row in chunk:
                yield dump(row, lists[row.pk])

    def left_out(self) -> dict[str, int]:
        """How many fit the filter and stay behind, by level, ``unknown`` or others' ``personal``."""
        fitting = self.filter.narrow(Memory.objects.hidden_from(self.actor.clearance))
        found: dict[str, int] = {}
        for level, n in counts(fitting.exclude(scope=Scope.PERSONAL.value), "sensitivity").items():
            name = level if level in LEVELS else UNKNOWN
            found[name] = found.get(name, 0) + n
        if personal := fitting.filter(scope=Scope.PERSONAL.value).count():
            found[Scope.PERSONAL.value] = personal
        return found

    def journal_secrets(self) -> int:
        """Reading a secret leaves a trace: a row that says how many secret memories go out, if any does."""
        secrets = self.memories().filter(sensitivity=Sensitivity.SECRET.value).count()
        if secrets:
            change = journal.Change(
                "export", "store", "", {"secret": secrets}, self.filter.project or "", "secret"
            )
            with write():
                journal.record(self.actor, [change], timezone.now())
        return secrets
