"""The embedded text of a memory, and vector arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.core.text import make_title
from memoryhub.embeddings import base, text_to_embed
from memoryhub.embeddings.base import MAX_TEXT_CHARS


def of(content: str, title: str = "", **fields: str) -> str:
    return text_to_embed(
        title, fields.get("subtitle", ""), fields.get("abstract", ""), fields.get("overview", ""), content
    )


def test_custom_title_precedes_the_content():
    assert of("It has stripes.", title="The zebra") == "The zebra\nIt has stripes."


@pytest.mark.parametrize(
    "content",
    [
        "Short.",
        "# A heading with **marks**\n\nand a text",
        "A first line that goes on and on, " * 9,
        "- a point\n- another",
        "words over\nlines",
        "縞馬" * 300,
        "   blanks   between   words and then more of them, until the title has to be cut at last",
    ],
)
def test_generated_title_is_not_repeated(content):
    assert of(content, title=make_title(content)) == content.strip()


def test_title_mentioned_later_precedes_the_content():
    assert of("Of the zebra.", title="zebra") == "zebra\nOf the zebra."


def test_subtitle_follows_the_title():
    assert of("Text.", title="Zebra", subtitle="stripes") == "Zebra\nstripes\nText."


def test_summaries_are_omitted_for_a_short_content():
    assert of("Text.", abstract="An abstract", overview="An overview") == "Text."


def test_summaries_precede_a_too_long_content():
    found = of("word " * 5000, abstract="An abstract", overview="An overview")
    assert found.startswith("An abstract\nAn overview\nword word")
    assert len(found) <= MAX_TEXT_CHARS


@given(*[st.text(max_size=60)] * 4, st.text(max_size=200).map(lambda t: t * 60))
def test_text_is_bounded_and_contains_a_short_content(title, subtitle, abstract, overview, content):
    found = text_to_embed(title, subtitle, abstract, overview, content)
    assert len(found) <= MAX_TEXT_CHARS
    assert len(content) > 1000 or content.strip() in found


def test_rows_are_normalized_and_zero_stays_zero():
    found = base.normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0], [1e-20, 0.0]]))
    assert found.dtype == np.float32
    assert found == pytest.approx(np.array([[0.6, 0.8], [0, 0], [0, 0]]))
    assert base.normalize_rows(np.array([0.0, 2.0])) == pytest.approx(np.array([0.0, 1.0]))
