"""What the configuration says about embeddings, and what of it cannot work."""

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
    """Everything that decides which vectors come out."""

    provider: str
    folder: str = ""
    url: str = ""
    model: str = ""
    timeout_seconds: float = 30.0
    batch: int = 64
    key: str = field(default="", repr=False)

    @classmethod
    def now(cls) -> EmbeddingSettings:
        """As the settings stand."""
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
        """The folder of the ONNX model; ``~`` is the user's home."""
        return Path(os.path.expanduser(self.folder))


def find_problems(chosen: EmbeddingSettings) -> list[EndpointProblem]:
    """Why this configuration cannot work, as far as can be told without loading a model or asking anybody."""
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
    """Whether the key, and every text, crosses a network unencrypted."""
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
