"""Shared steps of undo: snapshots of numbers, and restoring of fields, numbers and copy numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.memories.schemas import to_patch
from memoryhub.memories.update import apply_patch, find_twins, next_copy_number
from memoryhub.models import Memory, Revision


def take_snapshot(memory: Memory, names: Iterable[str]) -> dict[str, Any]:
    """Return numbers and moments of a memory as the journal stores them."""
    return {
        name: format_moment(value) if isinstance(value := getattr(memory, name), datetime) else value
        for name in names
    }


def format_moment(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment else None


def parse_moment(text: str | None) -> datetime | None:
    return parse_datetime(text) if text else None


def revert_numbers(
    before: Mapping[str, Any], after: Mapping[str, Any], current: Mapping[str, Any], names: Iterable[str]
) -> dict[str, Any]:
    """Return the values from before a change. A value that was changed again since stays as it is now.

    Maintenance changes importances and readers renew expiries: neither makes an undo impossible.
    """
    return {name: before[name] if current[name] == after[name] else current[name] for name in names}


def apply_snapshot(memory: Memory, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(memory, name, parse_moment(value) if isinstance(value, str) else value)


def restore_fields(
    memory: Memory,
    revision: Revision,
    actor: Actor,
    now: datetime,
    *,
    reason: str,
    beside: Collection[int] = (),
    **detail: Any,
) -> list[journal.Change]:
    """Set the fields that a revision stores to their old values, which makes another revision.

    Title and abstract stay as they are unless the revision stores them: otherwise they would follow the
    content. See :func:`memoryhub.memories.update.apply_patch` for ``beside`` and the result.
    """
    patch = to_patch({"title": memory.title, "abstract": memory.abstract, **revision.before})
    return apply_patch(memory, patch, patch.given, actor, now, reason=reason, beside=beside, **detail)


def restore_copy_number(memory: Memory, copy: int) -> None:
    """Set an earlier copy number, or the next free one if a twin has it now."""
    twins = find_twins(memory)
    memory.copy = next_copy_number(twins) if twins.filter(copy=copy).exists() else copy
