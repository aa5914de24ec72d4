"""What a summary takes over from its sources, whoever wrote its text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import reduce
from statistics import fmean
from typing import TypeVar

from memoryhub.drafts import MemoryDraft
from memoryhub.lifecycle.plan import Pace, give_back
from memoryhub.models import JournalEntry, Memory
from memoryhub.sensitivity import Actor, higher
from memoryhub.store import upkeep
from memoryhub.store.condense import bring_back, put_away
from memoryhub.store.rows import LISTS, united
from memoryhub.text import shorten
from memoryhub.vocabulary import SUMMARIES, MemoryType

# One summary must stay readable, and its step short (1 ms for each member): larger groups become several.
MOST = 40
__all__ = ["MOST", "SUMMARIES", "draft_of", "parts"]
T = TypeVar("T")


def parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """As few parts of at most :data:`MOST` as there can be, of nearly the same size."""
    number = -(-len(items) // MOST)
    for n in range(number):
        yield items[n * len(items) // number : (n + 1) * len(items) // number]


def spread(name: str, run_uid: str, actor: Actor, now: datetime) -> Iterator[int]:
    """Undo what a run condensed: the sources come back, some at a time, then their summary goes."""
    pace = Pace(10, least=4)
    for entry in upkeep.noted(name, run_uid, actor):

        def back(uids: Sequence[str], entry: JournalEntry = entry) -> int:
            return bring_back(entry, uids, actor, now)

        yield from give_back(entry.detail["members"], back, pace)
        put_away(entry, actor, now)


def draft_of(memories: Sequence[Memory], title: str, content: str, now: datetime) -> MemoryDraft:
    """A summary of memories that share project, scope and owner.

    It is as old as its youngest source, lives as long as the one that would have lived longest, and is as
    secret as the most secret of them.
    """
    sessions = {memory.session_id for memory in memories}
    return MemoryDraft(
        title=shorten(title, 200),
        content=content,
        type=MemoryType.COMPRESSED_SUMMARY,
        category=Counter(memory.category for memory in memories).most_common(1)[0][0],
        project=memories[0].project,
        scope=memories[0].scope,
        session_id=sessions.pop() if len(sessions) == 1 else "",
        sensitivity=reduce(higher, (memory.sensitivity for memory in memories)),
        importance=max(memory.importance for memory in memories),
        trust=fmean(memory.trust for memory in memories),
        confidence=fmean(memory.confidence for memory in memories),
        discovery_tokens=min(sum(memory.discovery_tokens or 0 for memory in memories), 2_000_000_000) or None,
        created_at=max(memory.updated_at for memory in memories),
        ttl_days=_ttl(memories, now),
        **{name: united(memories, name) for name in LISTS},
    )


def _ttl(memories: Iterable[Memory], now: datetime) -> float | None:
    ends = [memory.expires_at for memory in memories]
    known = [end for end in ends if end]
    return (max(known) - now) / timedelta(days=1) if len(known) == len(ends) else None
