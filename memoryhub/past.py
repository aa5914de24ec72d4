"""What a memory or a fact has behind it that no draft can say: for imports of history. No Django."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Past:
    """Of what is new here; what is stored already keeps its own. ``None``, 0 and empty: not known.

    Moments are zone-aware. ``deleted_at``: it lies in the trash since then. ``expires_at`` replaces what
    ``ttl_days`` would make of it now; one that lies in the past makes an expired memory, which purging ends.
    ``valid_from`` and ``valid_until`` are of facts.
    """

    updated_at: datetime | None = None
    accessed_count: int = 0
    last_accessed_at: datetime | None = None
    expires_at: datetime | None = None
    deleted_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
