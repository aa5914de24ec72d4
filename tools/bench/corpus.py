"""Make any number of distinct memories from a corpus. The same seed makes the same memories."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

_NOUNS = """index query token cache migration request schema trigger session backup journal parser template
facet column plugin database thread lock cursor webhook release config worker queue metric snapshot""".split()
_VERBS = (
    "fix add remove rename document refactor cache test expose validate retry measure split merge".split()
)
_REASONS = (
    "because it blocked the release",
    "after a report from production",
    "so that agents can rely on it",
    "since the old way lost rows",
    "to keep start-up quick",
    "as agreed in the review",
)


def own_text(count: int = 3000, seed: int = 7) -> list[dict[str, Any]]:
    """Return a generated corpus."""
    pick = random.Random(seed)
    lines = []
    for n in range(count):
        noun, other, verb = pick.choice(_NOUNS), pick.choice(_NOUNS), pick.choice(_VERBS)
        title = f"{verb.capitalize()} the {noun} of the {other} {pick.choice('abcdefgh')}{n % 97}"
        body = " ".join(_sentence(pick) for _ in range(pick.randint(1, 8)))
        lines.append(
            {
                "title": title,
                "content": f"{title}\n\n{body}",
                "files_modified": [f"src/{noun}/{other}.py", f"tests/test_{noun}.py"][: pick.randint(1, 2)],
                "project": f"project-{n % 3}",
                "session_id": f"session-{n // 12}",
                "created_at": (datetime(2020, 1, 1) + timedelta(hours=n * 7)).isoformat() + "Z",
            }
        )
    return lines


def _sentence(pick: random.Random) -> str:
    subject, verb, thing = pick.choice(_NOUNS), pick.choice(_VERBS), pick.choice(_NOUNS)
    return f"The {subject} now {verb}s its {thing} {pick.choice(_REASONS)}."


def read(path: Path | None) -> list[dict[str, Any]]:
    """Return the lines of a JSONL corpus in the API's shape."""
    if path is None:
        return own_text()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def memories(lines: list[dict[str, Any]], count: int, seed: int | str = 1) -> Iterator[dict[str, Any]]:
    """Yield distinct memories: first the corpus, then copies of it with one word in five replaced."""
    vocabulary = [word for line in lines for word in line["content"].split() if word.isalpha()]
    for n in range(count):
        line = dict(lines[n % len(lines)])
        turn = n // len(lines)
        if turn:
            pick = random.Random(f"{seed}-{n}")
            line["content"] = f"{_varied(line['content'], vocabulary, pick)}\n\nrefs #{seed}-{n}"
            line["title"] = _varied(line.get("title") or "", vocabulary, pick)
            line["session_id"] = f"{line.get('session_id', 's')}-{turn}"
        line.pop("source", None)
        yield line


def _varied(text: str, vocabulary: list[str], pick: random.Random) -> str:
    return "\n".join(
        " ".join(
            pick.choice(vocabulary) if word.isalpha() and pick.random() < 0.2 else word
            for word in row.split(" ")
        )
        for row in text.split("\n")
    )
