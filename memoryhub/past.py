"""What a memory or a fact has behind it that no draft can say: for imports of history. No Django."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self

# What only those may say who may restore a store: whose it is, who wrote it, which id it has.
IDENTITY = ("uid", "author", "owner", "copy", "flags", "reviewed_at", "scale", "consolidated_at")


@dataclass(frozen=True, slots=True)
class Past:
    """Of what is new here; what is stored already keeps its own. ``None``, 0 and empty: not known.

    Moments are zone-aware. ``deleted_at``: it lies in the trash since then, for ``trash_reason``.
    ``expires_at`` replaces what ``ttl_days`` would make of it now; one that lies in the past makes an expired
    memory, which purging ends. ``valid_from`` and ``valid_until`` are of facts.

    With a ``uid`` it is the very memory or fact of this id, which is found again by it; ``copy`` then is its
    place beside others that say the same.
    """

    updated_at: datetime | None = None
    accessed_count: int = 0
    last_accessed_at: datetime | None = None
    expires_at: datetime | None = None
    deleted_at: datetime | None = None
    trash_reason: str = ""
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    created_at: datetime | None = None
    uid: str = ""
    author: str = ""
    owner: str = ""
    copy: int = 0
    flags: tuple[str, ...] = ()
    reviewed_at: datetime | None = None
    scale: str = ""
    consolidated_at: datetime | None = None
    consolidated_accesses: int = 0

    def anonymous(self) -> Self:
        """Without what only those may say who may restore a store."""
        blank: dict[str, Any] = {f.name: f.default for f in fields(self) if f.name in IDENTITY}
        return replace(self, **blank)

    def has_ended(self, now: datetime) -> bool:
        """In the trash, or expired."""
        return self.deleted_at is not None or (self.expires_at is not None and self.expires_at <= now)
