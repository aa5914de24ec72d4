"""Measure previews of a change: ``python -m tools.bench.effects --size 3000``.

Makes a store with generated memories and logged prompts, and previews an edit, a merge and a threshold.
Prints a Markdown table: the median time of a preview, its SQL statements, and the longest time that it kept
other writers waiting.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import Any
from unittest import mock

from tools.bench import corpus
from tools.bench.in_process import TRANSACTION_CONTROL, empty_store

WORDS_OF_PROMPT = 12


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=3000, help="memories in the store")
    parser.add_argument("--runs", type=int, default=5, help="previews of each kind")
    options = parser.parse_args()
    with empty_store():
        print(measure(options.size, options.runs))


def measure(size: int, runs: int) -> str:
    from memoryhub import memories
    from memoryhub.access.policy import system_actor
    from memoryhub.injection.effects import Thresholds, preview_change, preview_settings
    from memoryhub.memories.schemas import MemoryPatch
    from memoryhub.models import Memory

    actor = system_actor("bench")
    fill(actor, size)
    first = Memory.objects.order_by("pk")[0]
    alike = Memory.objects.filter(project=first.project, scope=first.scope).order_by("pk")
    keep, other = alike.values_list("uid", flat=True)[:2]
    patch = MemoryPatch(content="something else entirely, about a harbour at night")
    seen = actor.clearance
    kinds: dict[str, Callable[[], Any]] = {
        "edit": lambda: preview_change(seen, lambda: memories.update_memory(keep, patch, actor)),
        "merge": lambda: preview_change(seen, lambda: memories.merge_memories(keep, [other], actor)),
        "minimum score": lambda: preview_settings(seen, thresholds=Thresholds(min_score=0.5)),
    }
    lines = [
        "| Change | prompts | median | SQL statements | longest lock |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, preview in kinds.items():
        found = [observe(preview) for _ in range(runs)]
        seconds, statements, locks, effects = zip(*found, strict=True)
        prompts = f"{effects[-1].replayed} of {effects[-1].total}"
        lines.append(
            f"| {name} | {prompts} | {statistics.median(seconds):.2f} s | {statements[-1]:,} |"
            f" {1000 * max(locks):.0f} ms |"
        )
    return "\n".join(lines)


def fill(actor: Any, size: int) -> None:
    """Store the memories, and log prompts that are about the words of some of them."""
    from memoryhub import memories
    from memoryhub.injection.effects import MAX_PROMPTS
    from memoryhub.memories.schemas import MemoryDraft
    from memoryhub.models import Injection

    lines = list(corpus.memories(corpus.own_text(), size))
    fields = MemoryDraft.model_fields
    memories.create_memories(
        [MemoryDraft(**{name: line[name] for name in line if name in fields}) for line in lines], actor
    )
    texts = islice(lines, 0, None, max(len(lines) // MAX_PROMPTS, 1))
    Injection.objects.bulk_create(
        Injection(prompt_preview=f"{' '.join(line['content'].split()[:WORDS_OF_PROMPT])}?") for line in texts
    )


def observe(preview: Callable[[], Any]) -> tuple[float, int, float, Any]:
    """Return the seconds of a preview, its statements, its longest lock, and the effect."""
    from django.db import connection

    from memoryhub.core.database import write_transaction
    from memoryhub.injection import effects

    locks: list[float] = []
    statements = 0

    class Timed:
        def __init__(self, patience: float) -> None:
            self._transaction = write_transaction(patience)

        def __enter__(self) -> None:
            self._transaction.__enter__()
            self._began = time.perf_counter()

        def __exit__(self, *error: Any) -> Any:
            result = self._transaction.__exit__(*error)
            locks.append(time.perf_counter() - self._began)
            return result

    def count(execute: Any, sql: str, *rest: Any) -> Any:
        nonlocal statements
        statements += not sql.startswith(TRANSACTION_CONTROL)
        return execute(sql, *rest)

    began = time.perf_counter()
    with mock.patch.object(effects, "write_transaction", Timed), connection.execute_wrapper(count):
        effect = preview()
    return time.perf_counter() - began, statements, max(locks, default=0.0), effect


if __name__ == "__main__":
    main()
