"""A reproducible corpus of realistic memories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

SIZE = 320
PARTS = [
    "invoice exporter",
    "payment webhook",
    "tenant router",
    "session cache",
    "audit trail",
    "PDF renderer",
    "import queue",
    "search facet",
    "rate limiter",
    "e-mail digest",
    "feature flag",
    "password reset",
    "CSV parser",
    "image thumbnailer",
    "calendar sync",
    "billing cron",
    "GraphQL gateway",
    "health probe",
    "backup rotation",
    "translation catalogue",
]
FAULTS = [
    "drops rows after a timeout",
    "leaks connections under load",
    "rounds amounts to whole cents",
    "loops on an empty page",
    "ignores the time zone",
    "double-encodes ampersands",
    "forgets the retry header",
    "locks the table for minutes",
    "misreads a byte-order mark",
    "crashes on a missing locale",
    "sorts umlauts last",
    "keeps stale permissions",
    "swallows the original traceback",
    "blocks the event loop",
    "truncates long identifiers",
    "trusts the client clock",
]
CAUSES = [
    "the adapter reuses one cursor for two statements",
    "a default argument is shared between calls",
    "the migration forgot a partial index",
    "the upstream answers 202 before the work is done",
    "two workers race for the same lease",
    "the regular expression backtracks on nested brackets",
    "the serializer walks the relation once per row",
    "the proxy strips the trailing slash",
    "an optimistic lock compares seconds and not microseconds",
    "the container has no tzdata",
]
FIXES = [
    "We now open a savepoint around each chunk",
    "A property test generates the awkward inputs",
    "The worker renews its lease every ten seconds",
    "The query prefetches what the template prints",
    "A constraint in the database makes it impossible",
    "The client sends an idempotency key",
    "The parser falls back to a streaming reader",
    "A circuit breaker opens after five failures",
]
TYPES = ("bugfix", "decision", "discovery", "change", "feature", "refactor")


def make_corpus(size: int = SIZE, seed: int = 20) -> list[dict[str, Any]]:
    """Return the fields of ``size`` memories with distinct titles and contents."""
    rng = Random(seed)
    pairs = [(part, fault) for part in PARTS for fault in FAULTS]
    rng.shuffle(pairs)
    began = datetime(2024, 1, 1, tzinfo=UTC)
    return [_one(rng, number, part, fault, began) for number, (part, fault) in enumerate(pairs[:size])]


def _one(rng: Random, number: int, part: str, fault: str, began: datetime) -> dict[str, Any]:
    stem = part.replace(" ", "_").replace("-", "_").lower()
    title = f"{part[0].upper()}{part[1:]} {fault}"
    sentences = [
        f"In ticket {1000 + number} the {part} {fault}.",
        f"It turned out that {rng.choice(CAUSES)}.",
        f"{rng.choice(FIXES)}, and the change was rolled out with release {number // 40}.{number % 40}.",
        f"See src/{stem}/core.py for the details.",
    ]
    return {
        "title": title,
        "content": f"{title}\n\n" + " ".join(sentences),
        "type": rng.choice(TYPES),
        "category": rng.choice(("backend", "frontend", "operations")),
        "tags": rng.sample(["urgent", "customer", "flaky", "performance"], k=rng.randint(0, 2)),
        "files_modified": [f"src/{stem}/core.py", f"tests/test_{stem}.py"],
        "project": rng.choice(("shop", "shop", "portal")),
        "session_id": f"s-{number // 8}",
        "importance": round(rng.uniform(0.2, 0.8), 2),
        "created_at": began + timedelta(hours=7 * number),
    }
