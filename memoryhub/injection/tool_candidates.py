"""Candidate memories for a tool call: about its files, and about earlier repairs of its failure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import Q
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.backends.statements import read_about_files
from memoryhub.core.text import fold
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType
from memoryhub.injection.candidates import (
    Candidate,
    find_candidates,
    full_match,
    injectable_memories,
    require_loaded,
)
from memoryhub.memories.replacements import existing_keys
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
# Names in a failure: quoted words, and words with a dot, an underscore or a slash inside, except measures.
_NAME = re.compile(r"['\"`]([^'\"`\s]{2,100})['\"`]|\b(\w[\w-]{0,100}[._/][\w./-]{0,100}\w)")
_LOCATION = re.compile(r"\([^()\s]*/[^()\s]*\)")  # of a module, after its name
_MEASURE = re.compile(r"\d[\d.:_-]*(?:[a-z]{1,2})?", re.IGNORECASE)
# What a colleague would mention about a file: decisions, past failures, discoveries.
_TYPE_ORDER = (MemoryType.DECISION.value, MemoryType.BUGFIX.value, MemoryType.DISCOVERY.value)


def find_about_files(
    clearance: Clearance, files: Sequence[str], root: str, project: str, session_id: str, now: datetime
) -> list[Candidate]:
    """Return pinned memories, decisions and past failures about these files, the most useful first.

    Memories of the session itself are left out, because its agent knows them. So are those of other projects,
    even team memories, because the same path is another file there. ``root``: see :func:`read_about_files`.
    """
    if not clearance.levels_in(project):
        return []
    now_or_later = max(now, timezone.now())
    query, params = _informative_memories(clearance, project)
    paths = files[:MAX_FILES]
    rows = read_about_files(query, params, paths, root, session_id, now_or_later, MAX_READ)
    replacements = dict(rows)
    visible = existing_keys(injectable_memories(clearance, project, now), replacements.values())
    keys = (pk for pk, replacement in replacements.items() if replacement not in visible)
    loaded = load_memories(keys, Memory.objects.visible_to(clearance))
    about = [memory for memory in loaded.values() if _count_files(memory) <= MAX_FILES_OF_MEMORY]
    return [full_match(memory, now) for memory in sorted(about, key=_usefulness)]


@lru_cache(maxsize=256)
def _informative_memories(clearance: Clearance, project: str) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL for memories that a tool call may show. Compiling it takes longer than running it."""
    informative = Q(pinned_at__isnull=False) | Q(type__in=_TYPE_ORDER) | Q(importance__gte=MIN_IMPORTANCE)
    memories = Memory.objects.visible_to(clearance).filter(informative, project=project)
    rows = memories.exclude(type__in=SUMMARY_TYPES).order_by().values_list("pk", "superseded_by")
    return rows.query.sql_with_params()


def find_repairs(memories: MemoryQuerySet, failure: str, now: datetime) -> list[Candidate]:
    """Return memories about earlier repairs of the same failure, the best match first.

    They contain every name in the failure, because another module or test is another failure.
    """
    bugfixes = memories.filter(type=MemoryType.BUGFIX.value)
    require_loaded(bugfixes)
    candidates = find_candidates(bugfixes, failure, now)
    names = _find_names(failure)
    min_match = MIN_REPAIR_MATCH if names else MIN_UNNAMED_MATCH
    repairs = [
        candidate
        for candidate in candidates
        if candidate.components.match >= min_match
        and all(name in fold(candidate.memory.titled_content) for name in names)
    ]
    visible = existing_keys(memories, (repair.memory.superseded_by_id for repair in repairs))
    return [repair for repair in repairs if repair.memory.superseded_by_id not in visible]


def _find_names(failure: str) -> set[str]:
    """Return the folded names in a failure; of absolute paths, which differ by machine, the last part."""
    names, failure = set(), _LOCATION.sub("", failure)
    for found in _NAME.finditer(failure):
        name = found[1] or found[2]
        is_absolute = name.startswith(("/", "~")) or failure[: found.start()].endswith(("/", "~/"))
        if found[1] or not _MEASURE.fullmatch(name):
            names.add(fold(name.rstrip("/").rpartition("/")[2] if is_absolute else name))
    return names - {""}


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
