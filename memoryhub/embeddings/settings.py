"""Embedding settings and their validation."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from memoryhub.core import http_client
from memoryhub.core.http_client import EndpointProblem

ONNX_FILES = ("model.onnx", "tokenizer.json")
_PACKAGES = {"wordllama": ("wordllama",), "onnx": ("onnxruntime", "tokenizers")}


@dataclass(frozen=True)
class EmbeddingSettings:
    """The settings that determine the vectors."""

    provider: str
    folder: str = ""
    url: str = ""
    model: str = ""
    timeout_seconds: float = 30.0
    batch: int = 64
    key: str = field(default="", repr=False)

    @classmethod
    def now(cls) -> EmbeddingSettings:
        """Return the current settings."""
        config = settings.MEMORYHUB
        return cls(
            config.embeddings,
            config.embeddings_folder,
            config.embeddings_url,
            config.embeddings_model,
            config.embeddings_timeout_seconds,
            config.embeddings_batch,
            settings.EMBEDDINGS_KEY,
        )

    @property
    def path(self) -> Path:
        """Folder of the ONNX model, with ``~`` expanded."""
        return Path(os.path.expanduser(self.folder))


def find_problems(chosen: EmbeddingSettings) -> list[EndpointProblem]:
    """Return the configuration problems that are visible without loading a model or a network request."""
    found = [
        EndpointProblem(
            f'embeddings is "{chosen.provider}", and the package {package} is not installed',
            f"Install it: pip install {package}.",
        )
        for package in _PACKAGES.get(chosen.provider, ())
        if importlib.util.find_spec(package) is None
    ]
    if chosen.provider == "onnx":
        found += _folder_problems(chosen)
    if chosen.provider == "openai":
        found += http_client.find_endpoint_problems(
            "embeddings", chosen.url, chosen.model, chosen.key, "MEMORYHUB_EMBEDDINGS_KEY"
        )
    return found


def sends_key_in_clear(chosen: EmbeddingSettings) -> bool:
    """Return whether the key and all texts cross a network unencrypted."""
    return chosen.provider == "openai" and http_client.is_unencrypted(chosen.url)


def _folder_problems(chosen: EmbeddingSettings) -> Iterator[EndpointProblem]:
    if not chosen.folder:
        yield EndpointProblem(
            'embeddings is "onnx", and embeddings_folder is empty',
            "Set embeddings_folder to a folder with model.onnx and tokenizer.json.",
        )
        return
    for name in ONNX_FILES:
        if not _is_file(chosen.path / name):
            yield EndpointProblem(
                f"embeddings_folder holds no file {name} that can be seen",
                f"Put {name} of the model there, or set embeddings_folder to the folder that holds it.",
            )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
