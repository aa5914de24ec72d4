"""ONNX encoders: inputs, outputs and unusable models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from memoryhub.embeddings import EmbeddingError
from memoryhub.embeddings.base import EmbeddingSettings
from memoryhub.embeddings.onnx import OnnxEmbedder
from memoryhub.embeddings.provider import create_embedder
from tests.embeddings import models
from tests.embeddings.models import WORDS, table, write_encoder


def unit(row):
    return row / np.linalg.norm(row)


def load(folder: Path, batch: int = 4) -> OnnxEmbedder:
    return OnnxEmbedder.load(folder, batch)


def mean_of(text: str):
    """Return the expected mean pooling: special tokens count, padding does not."""
    tokens = ["[CLS]", *text.split(), "[SEP]"]
    return unit(np.mean([table()[WORDS.index(token)] for token in tokens], axis=0))


def test_text_is_the_mean_of_its_tokens_without_padding(tmp_path):
    texts = ["zebra", "money is on the bank", "apple pear"]
    rows = load(write_encoder(tmp_path)).documents(texts)
    assert rows == pytest.approx(np.array([mean_of(text) for text in texts]), abs=1e-5)


def test_sentence_embedding_is_used_directly(tmp_path):
    rows = load(write_encoder(tmp_path, output="sentence_embedding")).documents(
        ["zebra money", "money zebra"]
    )
    assert rows[0] == pytest.approx(unit(table()[WORDS.index("zebra")]), abs=1e-5)
    assert rows[1] == pytest.approx(unit(table()[WORDS.index("money")]), abs=1e-5)


@pytest.mark.parametrize(
    "inputs",
    [models.ALL_INPUTS, ("input_ids", "attention_mask"), ("input_ids",)],
    ids=["three", "two", "one"],
)
def test_only_inputs_of_the_model_are_given(tmp_path, inputs):
    row = load(write_encoder(tmp_path, inputs=inputs)).documents(["zebra stripes"])[0]
    assert row == pytest.approx(mean_of("zebra stripes"), abs=1e-5)


def test_inputs_of_32_bits_are_supported(tmp_path):
    row = load(write_encoder(tmp_path, kind=TensorProto.INT32)).documents(["zebra stripes"])[0]
    assert row == pytest.approx(mean_of("zebra stripes"), abs=1e-5)


def test_text_is_truncated_at_the_tokenizers_limit(tmp_path):
    embedder = load(write_encoder(tmp_path, truncation=5))
    assert embedder.documents(["zebra stripes horse money money"])[0] == pytest.approx(
        mean_of("zebra stripes horse"), abs=1e-5
    )


def test_text_is_truncated_at_256_tokens_by_default(tmp_path):
    embedder = load(write_encoder(tmp_path))
    long = embedder.documents(["zebra " * 254 + "money " * 500])[0]
    assert long == pytest.approx(embedder.documents(["zebra " * 254])[0], abs=1e-5)


def test_texts_of_similar_length_share_a_batch(tmp_path, monkeypatch):
    embedder = load(write_encoder(tmp_path), batch=2)
    seen = []
    run = OnnxEmbedder._run
    monkeypatch.setattr(OnnxEmbedder, "_run", lambda self, texts: seen.append(texts) or run(self, texts))
    embedder.documents(["zebra " * 9, "pear", "", "zebra " * 8, "tree"])
    assert seen == [["pear", "tree"], ["zebra " * 8, "zebra " * 9]]


def test_name_contains_folder_and_dimensions_and_changes_with_the_model(tmp_path):
    name = load(write_encoder(tmp_path / "minilm")).name
    provider, model, dimensions = name.split("/")
    assert (provider, model.split("@")[0], dimensions) == ("onnx", "minilm", "16")
    assert load(tmp_path / "minilm").name == name
    assert load(write_encoder(tmp_path / "minilm", seed=8)).name != name
    assert load(write_encoder(tmp_path / "minilm", truncation=8)).name != name


def test_vectors_are_computed_in_the_background(tmp_path):
    assert load(write_encoder(tmp_path)).in_process is False


# Unusable models


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_missing_file_is_named(tmp_path, name):
    write_encoder(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(EmbeddingError, match=f"embeddings_folder contains no readable file {name}"):
        create_embedder(EmbeddingSettings("onnx", folder=str(tmp_path)))


def test_missing_folder_is_reported():
    with pytest.raises(EmbeddingError, match="embeddings_folder is empty"):
        create_embedder(EmbeddingSettings("onnx"))


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"nonsense", b"{}"])
def test_broken_file_is_reported_without_its_path(tmp_path, name, content):
    write_encoder(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EmbeddingError, match="cannot be used") as caught:
        load(tmp_path)
    assert str(tmp_path) not in str(caught.value)


def test_missing_package_is_reported_with_the_fix(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbeddingError, match=r"onnxruntime cannot be imported; .* pip install onnxruntime"):
        load(write_encoder(tmp_path))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"inputs": ("input_ids", "pixel_values")}, "asks for the input pixel_values"),
        ({"output": "numbers"}, "output is not a vector"),
        ({"scale": float("nan")}, "not finite"),
    ],
)
def test_model_that_is_no_sentence_encoder_is_reported(tmp_path, made, why):
    with pytest.raises(EmbeddingError, match=why):
        load(write_encoder(tmp_path, **made))


def test_tokenizer_of_another_model_is_reported(tmp_path):
    write_encoder(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(
        file.read_text().replace('"zebra":4', '"zebra":4000').replace('"zebra": 4', '"zebra": 4000')
    )
    with pytest.raises(EmbeddingError, match="it fails"):
        load(tmp_path).documents(["zebra"])


def test_package_onnx_is_needed_only_by_minilm(tmp_path):
    write_encoder(tmp_path)
    code = (
        "import sys; sys.modules['onnx'] = None; from pathlib import Path;"
        " from memoryhub.embeddings.onnx import OnnxEmbedder;"
        " print(OnnxEmbedder.load(Path(sys.argv[1]), 4).dimensions)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.strip() == str(table().shape[1]), done.stderr
