"""Template tags of all pages."""

from __future__ import annotations

import pytest

from memoryhub.models import Memory
from memoryhub.search.hybrid import Hit
from memoryhub.search.scoring import Components
from memoryhub.web.templatetags import hub


@pytest.mark.parametrize(
    ("title", "abstract", "content", "expected"),
    [
        ("Oats", "Oats at six. And hay.", "Oats at six.", "at six. And hay."),
        ("Oats at six", "Oats at six", "Oats at six", ""),
        ("Oats", "", "# Oats\n\nMore  text", "More text"),
        ("Cut **at** noon", "", "Cut **at** noon, *not* before", ", not before"),
        ("", "Built in **1983**: `<b>`", "", "Built in 1983: <b>"),
        ("Oats…", "Oats and hay", "Oats and hay", "and hay"),
        ("", "", "x", "x"),
        ("Day", "", "Asked for: 'oats'\n\nFiles changed: a.py", "Asked for: 'oats' · Files changed: a.py"),
        ("Oats", "", "# Oats\n\nAt six.\n\nAnd hay", "At six. And hay"),
    ],
)
def test_preview_text_does_not_repeat_the_title(
    title: str, abstract: str, content: str, expected: str
) -> None:
    assert hub.preview_text(Memory(title=title, abstract=abstract, content=content)) == expected


def test_parts_of_a_score_fill_the_bar() -> None:
    parts = Components(match=0.8, recency=0.5, importance=0.4, trust=1.0)
    shown = hub.score(Hit(Memory(), 0.7, parts, ""))
    assert shown["total"] == "0.70"
    assert [(p["name"], p["x"], p["width"]) for p in shown["parts"]] == [
        ("match", 0.0, 44.0),
        ("recency", 44.0, 10.0),
        ("importance", 54.0, 6.0),
        ("trust", 60.0, 10.0),
    ]


def test_static_url_contains_a_digest() -> None:
    assert hub.asset("css/base.css").startswith("/static/css/base.css?v=")
    assert hub.asset("css/base.css") != hub.asset("css/forms.css").replace("forms", "base")
