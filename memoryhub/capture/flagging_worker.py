"""Background thread that inspects every written memory for prompt injection and flags what it finds.

The thread follows the journal and uses at most a tenth of a core. It inspects a new or changed memory within
seconds. Context injection has its own check and does not depend on these flags.
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
REST_FACTOR = 9  # rest after each turn, as a multiple of its CPU time
MAX_FIELD_CHARS = 20_000
_WRITE_OPERATIONS = ("insert", "update", "accept")
_TEXT_FIELDS = ("title", "subtitle", "abstract", "overview", "content")


class FlaggingWorker(ExclusiveThread):
    """Follows the journal. Its lock file stores the position of the last row that it has read."""

    def __init__(self) -> None:
        super().__init__(PROMPT_INJECTION_FLAG, threading.Condition())

    def run_once(self) -> bool:
        """Inspect the memories of the next journal rows; return False if there are none."""
        file = self.acquire_lock()
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
    """Inspect the memories of the next journal rows; return the number of the last row, None if none."""
    rows = JournalEntry.objects.filter(seq__gt=after, object_type="memory", operation__in=_WRITE_OPERATIONS)
    found: list[tuple[int, str]] = list(rows.order_by("seq").values_list("seq", "object_id")[:BATCH_SIZE])
    if not found:
        return None
    flag_memories(find_flags({uid for _, uid in found}), ACTOR)
    return found[-1][0]


def find_flags(uids: set[str]) -> dict[str, list[str]]:
    """Return the flags of those memories that contain injected instructions, one for each kind."""
    memories = list(Memory.objects.visible_to(ACTOR.clearance).filter(uid__in=uids))
    lists = load_lists(memories)
    flags: dict[str, list[str]] = {}
    for memory in memories:
        fields = {name: getattr(memory, name)[:MAX_FIELD_CHARS] for name in _TEXT_FIELDS}
        labels = {name: _to_texts(values) for name, values in lists[memory.pk].items() if values}
        verdict = inspect_fields({**fields, **labels, "project": memory.project})
        kinds = {found.finding.kind for found in verdict.findings if found.finding.removed}
        if kinds:
            flags[memory.uid] = [f"{PROMPT_INJECTION_FLAG}:{kind}" for kind in sorted(kinds)]
    return flags


def _to_texts(values: list[Any]) -> list[str]:
    """Return the texts of a list field; of an entity, its name."""
    return [value["entity"] if isinstance(value, dict) else value for value in values]


def _read_position(file: IO[str]) -> int:
    """Return the last journal row that was read; 0 if the journal does not contain it, as after a restore."""
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
