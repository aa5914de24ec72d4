"""Candidate memories for a tool call: about the files that it touches, or of a repair of the same failure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from django.db.models import Q

from memoryhub.backends.statements import keys_of_files
from memoryhub.core.text import fold
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType
from memoryhub.injection.candidates import Candidate, find_candidates, full_match
from memoryhub.memories.rows import load_memories
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

MAX_SHOWN = 3  # memories in one block
MAX_FILES = 3  # of one call
MAX_READ = 20  # memories about these files
MAX_FILES_OF_MEMORY = 12  # a memory that lists more files is not about one of them
MIN_IMPORTANCE = 0.7  # of other types than those below
MIN_REPAIR_MATCH = 0.5  # a weaker match is another failure
MIN_UNNAMED_MATCH = 0.75  # for a failure without a name in it
# Names in a failure: quoted words, and words with a dot, an underscore or a slash inside.
_NAME = re.compile(r"['\"`]([^'\"`\s]{2,100})['\"`]|\b(\w[\w-]{0,100}[._/][\w./-]{0,100}\w)")
# What a colleague would mention about a file: decisions, past failures, discoveries.
_TYPE_ORDER = (MemoryType.DECISION.value, MemoryType.BUGFIX.value, MemoryType.DISCOVERY.value)


def find_about_files(
    memories: MemoryQuerySet, files: Sequence[str], project: str, session_id: str, now: datetime
) -> list[Candidate]:
    """Return pinned memories, decisions and past failures about these files, the most useful first.

    Memories of the session itself are left out: its agent knows them. So are those of other projects, also of
    the team: the same path is another file there.
    """
    informative = Q(pinned_at__isnull=False) | Q(type__in=_TYPE_ORDER) | Q(importance__gte=MIN_IMPORTANCE)
    wanted = memories.filter(informative, project=project, pk__in=keys_of_files(files[:MAX_FILES]))
    wanted = wanted.exclude(type__in=SUMMARY_TYPES)
    if session_id:
        wanted = wanted.exclude(session_id=session_id)
    best = wanted.order_by("-importance", "-updated_at", "-pk").values_list("pk", "superseded_by")
    replacements = dict(best[:MAX_READ])
    replaced_by = set(filter(None, replacements.values()))
    known = set(memories.filter(pk__in=replaced_by).values_list("pk", flat=True)) if replaced_by else set()
    found = load_memories(pk for pk, replacement in replacements.items() if replacement not in known)
    about = [memory for memory in found.values() if _count_files(memory) <= MAX_FILES_OF_MEMORY]
    return [full_match(memory, now) for memory in sorted(about, key=_usefulness)]


def find_repairs(memories: MemoryQuerySet, failure: str, now: datetime) -> list[Candidate]:
    """Return memories of how the same failure was repaired before, the best match first.

    They contain every name in the failure: another module or test is another failure.
    """
    found = find_candidates(memories.filter(type=MemoryType.BUGFIX.value), failure, now)
    names = {fold(name) for groups in _NAME.findall(failure) for name in groups if name}
    least = MIN_REPAIR_MATCH if names else MIN_UNNAMED_MATCH
    return [
        one
        for one in found
        if one.components.match >= least and all(name in fold(_all_text(one.memory)) for name in names)
    ]


def _all_text(memory: Memory) -> str:
    return f"{memory.title}\n{memory.content}"


def _count_files(memory: Memory) -> int:
    lists = memory.loaded_lists or {}
    return len({*lists["files_read"], *lists["files_modified"]})


def _usefulness(memory: Memory) -> tuple[bool, bool, int, float, float]:
    order = _TYPE_ORDER.index(memory.type) if memory.type in _TYPE_ORDER else len(_TYPE_ORDER)
    return (
        not memory.pinned,
        memory.may_be_outdated,
        order,
        -memory.importance,
        -memory.updated_at.timestamp(),
    )
