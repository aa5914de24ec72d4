"""Example notes with human importance ratings, and the notes of the demo."""

from __future__ import annotations

import json
from pathlib import Path

# Text, type, minimum and maximum importance.
NOTES = [
    ("The user is allergic to penicillin", "self", 8, 10),
    ("Never forget: the backup key lives in the safe, not on the server", "fact", 8, 10),
    ("Production deploys must be approved by two people, always", "fact", 7, 10),
    ("We decided to keep SQLite because a single file is easy to back up", "fact", 6, 9),
    ("The user prefers short answers without bullet points", "self", 6, 8),
    ("Priya leads the payments team and reports to Jonas", "relationship", 4, 7),
    ("The customer Initech pays in euros", "entity", 3, 6),
    ("The API listens on port 8080", "fact", 4, 6),
    ("The logo on the landing page is green", "fact", 4, 6),
    ("I am looking at the login page right now", "self", 1, 4),
    ("We are testing the blue theme today, only for now", "fact", 1, 3),
    ("Maybe the cache is to blame, not sure", "fact", 3, 5),
    ("hi there, how are you", "fact", 1, 3),
    ("ok", "fact", 1, 4),
    ("Die Nutzerin darf keine Erdnüsse essen, das ist lebenswichtig", "self", 8, 10),
    ("Wir haben beschlossen, freitags nie auszuliefern", "fact", 7, 9),
    ("本番環境では必ずバックアップを取る", "fact", 6, 9),
    ("今日は新しい画面を試している", "fact", 1, 4),
]
_DEMO = Path(__file__).parents[2] / "fixtures" / "demo" / "memories.jsonl"


def demo_notes() -> list[tuple[str, float]]:
    """Return content and importance (0 to 1) of the demo memories."""
    rows = map(json.loads, _DEMO.read_text("utf-8").splitlines())
    return [(row["content"], row["importance"]) for row in rows if "importance" in row and "content" in row]
