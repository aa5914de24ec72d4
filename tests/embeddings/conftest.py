"""A small provider of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoryhub.config import Config
from memoryhub.embeddings.base import Embedder, EmbeddingSettings
from memoryhub.embeddings.provider import StaticEmbedder, create_embedder
from tests.embeddings import models, servers

KEY = "sk-a-key-that-is-never-shown"
MODEL = "tiny-embed"


@pytest.fixture(scope="session")
def static() -> StaticEmbedder:
    return StaticEmbedder.load()


@pytest.fixture
def endpoint() -> Iterator[servers.Endpoint]:
    """An endpoint that answers well unless ``script`` says otherwise."""
    with servers.serving() as server:
        yield server


@pytest.fixture
def remote(endpoint: servers.Endpoint) -> Callable[..., Embedder]:
    """``remote(timeout_seconds=1)``: a client of ``endpoint``."""

    def made(**fields: object) -> Embedder:
        usual = {"url": endpoint.url, "model": MODEL, "key": KEY, "timeout_seconds": 10.0}
        return create_embedder(EmbeddingSettings("openai", **{**usual, **fields}))

    return made


@pytest.fixture(params=["wordllama", "onnx", "onnx of sentences", "openai"])
def embedder(request: pytest.FixtureRequest, tmp_path: Path) -> Embedder:
    """Each provider in turn."""
    if request.param == "wordllama":
        return request.getfixturevalue("static")
    if request.param == "openai":
        return request.getfixturevalue("remote")(batch=3)
    output = "sentence_embedding" if "sentences" in request.param else "last_hidden_state"
    folder = models.write_encoder(tmp_path / "tiny", output=output)
    return create_embedder(EmbeddingSettings("onnx", folder=str(folder), batch=3))


@pytest.fixture(autouse=True)
def as_delivered(configure: Callable[..., None]) -> None:
    """The default configuration."""
    configure(embeddings=Config().embeddings)
