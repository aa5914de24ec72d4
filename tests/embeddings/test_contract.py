"""Rules for all providers; each test runs for each provider."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memoryhub.embeddings.base import Embedder

TEXTS = ["zebra stripes", "the river bank", "", "money is on the bank", " \n", "apple pear tree", "Zebra!"]


def test_each_text_has_a_unit_row(embedder: Embedder):
    rows = embedder.documents(TEXTS)
    assert rows.shape == (len(TEXTS), embedder.dimensions)
    assert rows.dtype == np.float32
    filled = [at for at, text in enumerate(TEXTS) if text.strip()]
    assert np.linalg.norm(rows[filled], axis=1) == pytest.approx(1, abs=1e-5)


def test_text_without_content_has_a_zero_row(embedder: Embedder):
    rows = embedder.documents(TEXTS)
    assert not rows[2].any()
    assert not rows[4].any()


def test_no_texts_give_no_rows(embedder: Embedder):
    assert len(embedder.documents([])) == 0


def test_rows_are_in_the_order_of_the_texts(embedder: Embedder):
    texts = [text for text in TEXTS if text.strip()]
    together = embedder.documents(texts)
    for row, text in zip(together, texts, strict=True):
        assert row == pytest.approx(embedder.documents([text])[0], abs=1e-4)


def test_question_without_weights_has_the_vector_of_a_document(embedder: Embedder):
    for text in ("zebra stripes", "money is on the bank"):
        assert embedder.query(text) == pytest.approx(embedder.documents([text])[0], abs=1e-4)


def test_question_vector_is_normalized_with_any_weights(embedder: Embedder):
    for weights in (None, {}, {"zebra": 0.2}, {"zebra": 0.0, "stripes": 0.0}):
        found = embedder.query("zebra stripes", weights)
        assert found.shape == (embedder.dimensions,)
        assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)


def test_question_without_content_is_zero(embedder: Embedder):
    embedder.documents(["zebra"])  # an endpoint's dimensions are known after the first answer
    assert not embedder.query("  ", {"zebra": 1.0}).any()
    assert embedder.query("").shape == (embedder.dimensions,)


def test_vectors_are_deterministic(embedder: Embedder):
    assert (embedder.documents(["zebra stripes"]) == embedder.documents(["zebra stripes"])).all()


def test_texts_with_common_words_are_nearer(embedder: Embedder):
    zebra, striped, money = embedder.documents(["zebra", "zebra stripes", "money"])
    assert zebra @ striped > zebra @ money


@pytest.mark.parametrize(
    "text", ["\ud800 half a pair", "x" * 50_000, "word " * 20_000, "\x00\x07", "🦓 縞馬"]
)
def test_hostile_texts_are_embedded(embedder: Embedder, text):
    [row] = embedder.documents([text])
    assert np.isfinite(row).all()
    assert np.isfinite(embedder.query(text, {"word": 0.5})).all()


def test_provider_is_thread_safe(embedder: Embedder):
    texts = [text for text in TEXTS if text.strip()] * 6
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda text: embedder.documents([text])[0], texts))
    assert np.array(found) == pytest.approx(embedder.documents(texts), abs=1e-4)


def test_name_contains_provider_and_model_and_is_stable(embedder: Embedder):
    before = embedder.name
    embedder.documents(["zebra"])
    assert embedder.name == before
    assert before.split("/")[0] in {"wordllama", "onnx", "openai"}
    assert len(before.split("/")) > 1
