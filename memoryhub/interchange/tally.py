"""What became of the things in a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from memoryhub.drafts import MemoryDraft
from memoryhub.encoding.secrets import redact
from memoryhub.interchange.lines import READ_ONLY

# A file with a new field name in every line must not fill the memory.
_MOST_NAMES = 200
OTHER_FIELDS = "other fields"
_IDENTITY = READ_ONLY - {"content_hash"}


@dataclass
class Tally:
    """``outcomes`` are those of memories; ``others`` those of facts, sessions and so on, by kind."""

    outcomes: Counter[str] = field(default_factory=Counter)
    others: dict[str, Counter[str]] = field(default_factory=dict)
    failed: int = 0
    in_trash: int = 0
    without_ttl: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    not_taken: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)
    created_in: Counter[str] = field(default_factory=Counter)

    @property
    def stored(self) -> int:
        """Memories that are here now."""
        return sum(self.outcomes.values())

    @property
    def handled(self) -> int:
        """Things of any kind that are here now, and those that are not."""
        return self.stored + sum(counts.total() for counts in self.others.values()) + self.failed

    def count(self, kind: str, outcome: str) -> None:
        """One thing that is no memory."""
        self.others.setdefault(kind, Counter())[outcome] += 1

    def memory(self, draft: MemoryDraft, project: str, outcome: str, *, ended: bool, trusted: bool) -> None:
        """One memory, and what of its line was not taken over."""
        self.outcomes[outcome] += 1
        self.created_in[project] += outcome == "created" and not ended
        self.in_trash += ended and outcome == "created"
        self.without_ttl += outcome == "created" and "ttl_days" not in draft.given
        _add(self.ignored, [redact(name) for name in draft.ignored])  # the report is kept
        if not trusted:
            _add(self.not_taken, sorted(draft.model_fields_set & _IDENTITY))

    def without_home(self, what: str, count: int = 1) -> None:
        _add(self.unmapped, [what], count)

    def as_counts(self) -> dict[str, Any]:
        """All numbers, for a report that is not printed."""
        return {
            "memories": dict(self.outcomes),
            **{kind: dict(counts) for kind, counts in self.others.items()},
        }


def _add(counts: Counter[str], names: list[str], by: int = 1) -> None:
    for name in names:
        known = name in counts or len(counts) < _MOST_NAMES
        counts[name if known else OTHER_FIELDS] += by
