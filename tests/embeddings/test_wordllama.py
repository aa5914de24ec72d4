"""wordllama, and word weights of questions."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import wordllama

from memoryhub.core.text import words
from memoryhub.embeddings import provider as module
from memoryhub.embeddings.base import EmbeddingError
from memoryhub.embeddings.provider import StaticEmbedder

QUESTION = "What did Caroline's café cost, in 2023?"


def test_name_contains_model_and_dimensions(static: StaticEmbedder):
    assert static.name == "wordllama/l2_supercat/256"
    assert static.dimensions == 256
    assert static.in_process


def test_document_has_the_vector_of_the_library(static: StaticEmbedder):
    folder = Path(wordllama.__file__).parent
    library = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    texts = ["zebra", "What did Caroline's café cost, in 2023?", "naïve 縞馬 🦓", "long " * 500]
    assert static.documents(texts) == pytest.approx(library.embed(texts, norm=True), abs=1e-5)


def test_many_long_texts_are_embedded_in_chunks(static: StaticEmbedder, monkeypatch):
    texts = ["zebra stripes", "", "money " * 30, "river"] * 5
    whole = static.documents(texts)
    sizes = []
    embed = StaticEmbedder._embed_chunk

    def counted(self: StaticEmbedder, step: Sequence[str]) -> object:
        sizes.append(sum(map(len, step)))
        return embed(self, step)

    monkeypatch.setattr(StaticEmbedder, "_embed_chunk", counted)
    monkeypatch.setattr(module, "_CHUNK_CHARS", 200)
    assert (static.documents(texts) == whole).all()
    assert len(sizes) > 1
    assert max(sizes) <= 200


def test_question_without_weights_is_embedded_like_a_document(static: StaticEmbedder):
    plain = static.documents([QUESTION])[0]
    assert (static.query(QUESTION) == plain).all()
    assert (static.query(QUESTION, {}) == plain).all()


def test_word_with_zero_weight_is_ignored(static: StaticEmbedder):
    found = static.query("zebra money", {"money": 0.0})
    assert found == pytest.approx(static.query("zebra", {"zebra": 1.0}), abs=1e-6)


def test_word_without_weight_counts_fully(static: StaticEmbedder):
    assert static.query("zebra money", {"zebra": 1.0}) == pytest.approx(
        static.query("zebra money", {"zebra": 1.0, "money": 1.0}), abs=1e-6
    )


def test_only_the_ratio_of_weights_matters(static: StaticEmbedder):
    one = static.query("zebra money", {"zebra": 1.0, "money": 0.5})
    other = static.query("zebra money", {"zebra": 0.2, "money": 0.1})
    assert one == pytest.approx(other, abs=1e-6)


def test_heavier_word_pulls_the_vector(static: StaticEmbedder):
    zebra = static.documents(["zebra"])[0]
    near = [
        static.query("zebra money", {"zebra": share, "money": 1 - share}) @ zebra for share in (0.1, 0.5, 0.9)
    ]
    assert near == sorted(near)


def test_all_tokens_of_a_word_have_its_weight(static: StaticEmbedder):
    tokens = static._tokenizer.encode("antidisestablishmentarianism", add_special_tokens=False).tokens
    assert len(tokens) > 2
    found = static.query("antidisestablishmentarianism zebra", {"antidisestablishmentarianism": 0.0})
    assert found == pytest.approx(static.query("zebra", {"zebra": 1.0}), abs=1e-6)


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        ("CAFÉ", "cafe"),
        ("cafe\u0301", "cafe"),
        ("Ünïcode", "unicode"),
        ("İstanbul", "istanbul"),
        ("Οδυσσεύς", "οδυσσεύσ"),
        ("x\u0302y", "xy"),
        ("и\u0306од", "йод"),
    ],
)
def test_words_are_matched_by_their_folded_form(static: StaticEmbedder, written, folded):
    weighed = static.query(f"{written} zebra", {folded: 0.0})
    assert weighed == pytest.approx(static.query("zebra", {"zebra": 1.0}), abs=1e-6)


def test_word_that_folds_into_several_gets_the_greatest_weight(static: StaticEmbedder):
    stressed = "зе\u0301бра"
    assert words(stressed) == ["зе", "бра"]
    found = static.query(f"{stressed} zebra", {"зе": 0.0, "zebra": 0.0})
    assert found == pytest.approx(static.query(stressed, {"бра": 1.0}), abs=1e-6)


def test_punctuation_has_no_weight(static: StaticEmbedder):
    bare, dressed = static.query("zebra", {"zebra": 1.0}), static.query("zebra ?!! ...", {"zebra": 1.0})
    assert dressed == pytest.approx(bare, abs=1e-6)


def test_question_with_only_zero_weights_is_embedded_unweighted(static: StaticEmbedder):
    plain = static.documents(["zebra money"])[0]
    assert (static.query("zebra money", {"zebra": 0.0, "money": 0.0}) == plain).all()
    assert static.query("?!", {"zebra": 1.0}).any()


def test_token_beyond_the_table_uses_the_last_row(static: StaticEmbedder):
    small = StaticEmbedder(static._table[:5000], static._tokenizer, "cut")
    row = small.documents(["zebra stripes 縞馬"])[0]
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)


@pytest.fixture
def load():
    """Load the model from its files, not the one that the tests share (``tests/conftest.py``)."""
    return StaticEmbedder.load.__wrapped__


@pytest.mark.parametrize(
    "content", ["", "no tensors", (b"\x02" + bytes(7)).decode() + "{}"], ids=["empty", "text", "no table"]
)
def test_load_error_is_reported(monkeypatch, tmp_path, load, content):
    folder = Path(wordllama.__file__).parent
    shutil.copytree(folder / "tokenizers", tmp_path / "wordllama" / "tokenizers")
    (tmp_path / "wordllama" / "weights").mkdir()
    weights = tmp_path / "wordllama" / "weights" / f"{module.MODEL}_{module.DIMENSIONS}.safetensors"
    weights.write_text(content)
    monkeypatch.setattr(metadata.PathDistribution, "locate_file", lambda self, name: tmp_path / name)
    with pytest.raises(EmbeddingError, match="wordllama cannot be loaded"):
        load()


def test_missing_package_is_reported(monkeypatch, load):
    def find(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", find)
    with pytest.raises(EmbeddingError, match="wordllama cannot be loaded"):
        load()


@pytest.mark.slow
def test_commands_that_do_not_embed_do_not_load_it():
    code = (
        "import os, sys, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'; django.setup();"
        "import memoryhub.embeddings, memoryhub.urls;"
        "print(sorted({'wordllama', 'tokenizers', 'onnxruntime'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_missing_weights_are_not_downloaded(monkeypatch, load):
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("it asked the network")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(module, "DIMENSIONS", 64)  # its weights are not in the wheel
    with pytest.raises(EmbeddingError, match="FileNotFoundError"):
        load()
