"""Simulate six months of use: ``python -m tools.bench.decay``.

Stores generated memories that never expire, on one day. Every simulated day, prompts name some of them (few
are named often, half of them never), the best results count as used, and the nightly consolidation runs with
the default rates. Prints a Markdown table: importance, evictions, and the share of memories that a search
still finds by all words of their title, and by half of these words next to one other word. The same without
decay shows what consolidation, and not age, makes unreachable. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import random
import statistics
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from tools.bench import corpus
from tools.bench.in_process import empty_store

DAY = timedelta(days=1)
CHECKPOINTS = (0, 30, 60, 90, 120, 150, 180)
PROMPTS_PER_DAY, USED_RESULTS = 20, 3
FOREIGN_WORD = "zeppelin"  # in no memory
PROBES = 300  # memories that are searched at each checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1000, help="memories in the store")
    parser.add_argument("--days", type=int, default=180, help="simulated days")
    options = parser.parse_args()
    with empty_store():
        print(simulate(options.size, options.days))


def simulate(size: int, days: int) -> str:
    """Return the table of both simulations."""
    lines = [
        "| Day | importance, median | at 0 | in the trash | found by the title | by half of it |"
        " by half, without decay |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    with_decay = list(Simulation(size, days, decays=True).run())
    without = list(Simulation(size, days, decays=False).run())
    for row, other in zip(with_decay, without, strict=True):
        lines.append(" | ".join((*row, other[-1])).join(("| ", " |")))
    return "\n".join(lines)


class Simulation:
    """The use of one set of memories, from ``days`` ago until now."""

    def __init__(self, size: int, days: int, *, decays: bool) -> None:
        from django.utils import timezone

        from memoryhub.access.policy import system_actor

        self.pick, self.days, self.decays = random.Random(11), days, decays
        self.actor = system_actor("bench")
        self.begin = timezone.now() - days * DAY
        self.titles = self._fill(size)
        named = self.pick.sample(sorted(self.titles), size // 2)
        self.popularity = {uid: 1 / (rank + 1) for rank, uid in enumerate(named)}
        self.probes = self.pick.sample(sorted(self.titles), min(PROBES, size))

    def _fill(self, size: int) -> dict[str, str]:
        """Store the memories in a new project and return their titles by id."""
        from memoryhub import memories
        from memoryhub.memories.schemas import MemoryDraft

        self.project = "decay" if self.decays else "no-decay"
        drafts = [
            MemoryDraft(
                title=line["title"],
                content=line["content"],
                type=self.pick.choice(("change", "bugfix", "feature", "decision", "discovery")),
                project=self.project,
                created_at=self.begin,
                ttl_days=None,
            )
            for line in islice(corpus.memories(corpus.own_text(), size), size)
        ]
        made = memories.create_memories(drafts, self.actor)
        stored = [one.memory for one in made if isinstance(one, memories.StoreResult)]
        return {memory.uid: memory.title for memory in stored}

    def run(self) -> Any:
        """Yield a row of the table at each checkpoint."""
        for day in range(self.days + 1):
            now = self.begin + day * DAY
            if day:
                self._use(now)
                if self.decays:
                    self._consolidate(now)
            if day in CHECKPOINTS:
                yield self._row(day, now)

    def _use(self, now: datetime) -> None:
        from memoryhub.memories.evidence import count_accesses

        uids, weights = list(self.popularity), list(self.popularity.values())
        for uid in self.pick.choices(uids, weights, k=PROMPTS_PER_DAY):
            hits = self._search(self.titles[uid], now, USED_RESULTS)
            count_accesses([hit.memory for hit in hits], now)

    def _consolidate(self, now: datetime) -> None:
        from memoryhub.maintenance.operations import OPERATIONS

        operation = OPERATIONS["consolidate"]
        for step in operation.steps(operation.Params(project=self.project), self.actor, now):
            step.apply(f"{self.project}-{now:%Y%m%d}")

    def _search(self, words: str, now: datetime, limit: int) -> Any:
        from memoryhub.search.hybrid import search_memories

        return search_memories(self._memories().live(now), words, limit=limit, now=now, snippets=False).hits

    def _memories(self) -> Any:
        from memoryhub.models import Memory

        return Memory.objects.visible_to(self.actor.clearance).filter(project=self.project)

    def _row(self, day: int, now: datetime) -> tuple[str, ...]:
        rows = self._memories()
        live = list(rows.live(now).values_list("importance", flat=True))
        found = [self._share_found(half, now) for half in (False, True)]
        return (
            str(day),
            f"{statistics.median(live):.2f}",
            f"{sum(one < 0.005 for one in live):,}",
            f"{rows.trashed().count():,}",
            *(f"{share:.0%}" for share in found),
        )

    def _share_found(self, half: bool, now: datetime) -> float:
        """Return the share of the probed memories that a search finds by the words of their title."""
        found = 0
        for uid in self.probes:
            words = self.titles[uid].split()
            query = " ".join([*words[len(words) // 2 :], FOREIGN_WORD] if half else words)
            found += uid in {hit.memory.uid for hit in self._search(query, now, len(self.titles))}
        return found / len(self.probes)


if __name__ == "__main__":
    main()
