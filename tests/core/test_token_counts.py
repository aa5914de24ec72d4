"""The token estimate compared with a tokenizer, and the properties that budgets need."""

import json
from pathlib import Path

import pytest
import wordllama
from hypothesis import given
from hypothesis import strategies as st
from wordllama import WordLlama

from memoryhub.core.text import estimate_tokens

PROSE = (
    "We moved the nightly export to a queue, because the request timed out whenever the archive held more "
    "than a few thousand invoices. The worker retries three times and then writes to the operators."
)
ENTRY = json.dumps(
    {
        "id": "kzptxgub5q2ttreb",
        "type": "decision",
        "created_at": "2024-10-24T02:36:44Z",
        "content_hash": "d6883dd534318f7b713acd60d6159fc7e0aedca561eab864a5c261c0e6026b3c",
        "files_modified": ["app/export/worker.py", "tests/test_worker.py"],
        "summary": PROSE[:100],
    }
)
CODE = "def retry(task: Task, times: int = 3) -> None:\n    for _ in range(times):\n        task.run()\n" * 5
GERMAN = "Die Straße war gesperrt, deshalb haben wir die Lieferung auf den übernächsten Morgen verschoben."


@pytest.fixture(scope="module")
def count():
    folder = Path(wordllama.__file__).parent
    tokenizer = WordLlama.load(cache_dir=folder, disable_download=True).tokenizer
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("text", [PROSE, ENTRY, CODE, GERMAN], ids=["prose", "json", "code", "german"])
def test_estimate_is_close_to_the_count_of_a_tokenizer(count, text):
    assert 0.85 <= estimate_tokens(text) / count(text) <= 1.3


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("word", 1),
        ("a word or two", 4),
        ("internationalisation", 5),
        ("2024", 4),
        ('{"a":', 3),
        ("検索エンジン", 6),
        ("🦓", 3),
        ("слово", 3),
        ("one\n\n\ntwo", 3),
        (" " * 40, 10),
    ],
)
def test_tokens_are_estimated_by_what_a_text_is_made_of(text, tokens):
    assert estimate_tokens(text) == tokens


@given(st.text(st.characters(max_codepoint=127)), st.text("ab5! \n\t\x00", max_size=40))
def test_ascii_is_counted_like_other_text(one, other):
    for text in (one, other):
        padded = text + "!?" * len(text)  # the pieces count, not the length
        assert estimate_tokens(f"§ {padded}") == 1 + estimate_tokens(padded)


@given(st.text(), st.text())
def test_two_texts_have_together_no_fewer_than_in_one(one, other):
    assert estimate_tokens(one + other) <= estimate_tokens(one) + estimate_tokens(other)
    assert estimate_tokens(one) <= estimate_tokens(one + other)


@given(st.text())
def test_there_is_never_less_than_one_token_for_four_characters(text):
    assert estimate_tokens(text) >= len(text) / 4
