"""The governor looks at every memory once it is written, and flags what gives orders to the model.

A thread beside the requests follows the journal: each memory that was stored or changed is inspected within
seconds, at a tenth of a core's time. Injections are governed whether it has come by or not.
"""

from __future__ import annotations

import threading
import time
from typing import IO, Any

from memoryhub.access.policy import system_actor
from memoryhub.maintenance.worker import ExclusiveThread
from memoryhub.memories.rows import load_lists
from memoryhub.memories.update import PROMPT_INJECTION_FLAG, flag_memories
from memoryhub.models import JournalEntry, Memory
from memoryhub.security.prompt_injection import inspect_fields

ACTOR = system_actor(PROMPT_INJECTION_FLAG)
BATCH_SIZE = 50  # journal rows of one turn
REST_FACTOR = 9  # so many times as long as a turn took it leaves the machine to others
MAX_FIELD_CHARS = 20_000  # of a text that are inspected
_WRITE_OPERATIONS = ("insert", "update")
_TEXT_FIELDS = ("title", "subtitle", "abstract", "overview", "content")


class FlaggingWorker(ExclusiveThread):
    """Inspects what was written; the file of its lock says how far the journal is read."""

    def __init__(self) -> None:
        super().__init__(PROMPT_INJECTION_FLAG, threading.Condition())

    def turn(self) -> bool:
        """Inspect what the next rows of the journal are about; False when there are none."""
        file = self.hold()
        if file is None:
            return False
        began = time.thread_time()
        last = flag_next_memories(_read_position(file))
        if last is None:
            return False
        _save_position(file, last)
        self.ending.wait(REST_FACTOR * (time.thread_time() - began))
        return True


def flag_next_memories(after: int) -> int | None:
    """Inspect the memories of the next rows of the journal; the number of the last one, None for none."""
    rows = JournalEntry.objects.filter(seq__gt=after, object_type="memory", operation__in=_WRITE_OPERATIONS)
    found: list[tuple[int, str]] = list(rows.order_by("seq").values_list("seq", "object_id")[:BATCH_SIZE])
    if not found:
        return None
    flag_memories(find_flags({uid for _, uid in found}), ACTOR)
    return found[-1][0]


def find_flags(uids: set[str]) -> dict[str, list[str]]:
    """Of these memories those that give orders, each with flags that name what kind they are."""
    memories = list(Memory.objects.visible_to(ACTOR.clearance).filter(uid__in=uids))
    lists = load_lists(memories)
    flags: dict[str, list[str]] = {}
    for memory in memories:
        fields = {name: getattr(memory, name)[:MAX_FIELD_CHARS] for name in _TEXT_FIELDS}
        labels = {name: _to_texts(values) for name, values in lists[memory.pk].items() if values}
        verdict = inspect_fields({**fields, **labels, "project": memory.project})
        kinds = {one.finding.kind for one in verdict.findings if one.finding.removed}
        if kinds:
            flags[memory.uid] = [f"{PROMPT_INJECTION_FLAG}:{kind}" for kind in sorted(kinds)]
    return flags


def _to_texts(values: list[Any]) -> list[str]:
    """Of a list-valued field the texts; an entity is one by its name."""
    return [value["entity"] if isinstance(value, dict) else value for value in values]


def _read_position(file: IO[str]) -> int:
    """The last row that was looked at; 0 where another store, or one restored from a backup, has another."""
    file.seek(0)
    seq, _, digest = file.read().strip().partition(" ")
    if not (seq.isascii() and seq.isdecimal() and len(seq) < 16):
        return 0
    return int(seq) if JournalEntry.objects.filter(seq=int(seq), hash=digest).exists() else 0


def _save_position(file: IO[str], seq: int) -> None:
    digest = JournalEntry.objects.values_list("hash", flat=True).get(seq=seq)
    file.seek(0)
    file.truncate()
    file.write(f"{seq} {digest}")
    file.flush()
