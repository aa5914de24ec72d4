"""What the configuration says about embeddings, and what of it cannot work."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings

ONNX_FILES = ("model.onnx", "tokenizer.json")
_PACKAGES = {"wordllama": ("wordllama",), "onnx": ("onnxruntime", "tokenizers")}
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Problem(NamedTuple):
    """What is wrong, naming the key, and its mend; neither holds a secret."""

    text: str
    mend: str


@dataclass(frozen=True)
class Chosen:
    """Everything that decides which vectors come out."""

    provider: str
    folder: str = ""
    url: str = ""
    model: str = ""
    timeout_seconds: float = 30.0
    batch: int = 64
    key: str = field(default="", repr=False)

    @classmethod
    def now(cls) -> Chosen:
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


def problems(chosen: Chosen) -> list[Problem]:
    """Why this configuration cannot work, as far as can be told without loading a model or asking anybody."""
    found = [
        Problem(
            f'embeddings is "{chosen.provider}", and the package {package} is not installed',
            f"Install it: pip install {package}.",
        )
        for package in _PACKAGES.get(chosen.provider, ())
        if importlib.util.find_spec(package) is None
    ]
    if chosen.provider == "onnx":
        found += _problems_of_folder(chosen)
    if chosen.provider == "openai":
        found += _problems_of_endpoint(chosen)
    return found


def sends_key_in_clear(chosen: Chosen) -> bool:
    """Whether the key, and every text, crosses a network unencrypted."""
    parts = urlsplit(chosen.url)
    return chosen.provider == "openai" and parts.scheme == "http" and parts.hostname not in _LOOPBACK


def _problems_of_folder(chosen: Chosen) -> Iterator[Problem]:
    if not chosen.folder:
        yield Problem(
            'embeddings is "onnx", and embeddings_folder is empty',
            "Set embeddings_folder to a folder with model.onnx and tokenizer.json.",
        )
        return
    for name in ONNX_FILES:
        if not _is_file(chosen.path / name):
            yield Problem(
                f"embeddings_folder holds no file {name} that can be seen",
                f"Put {name} of the model there, or set embeddings_folder to the folder that holds it.",
            )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _problems_of_endpoint(chosen: Chosen) -> Iterator[Problem]:
    if not chosen.url:
        yield Problem(
            'embeddings is "openai", and embeddings_url is empty',
            "Set embeddings_url to the address of the endpoint, such as https://host/v1.",
        )
    elif not _can_be_asked(chosen.url):
        yield Problem(
            "embeddings_url is no address that can be asked",
            "Write it as https://host/v1, or https://host:port/v1, in ASCII.",
        )
    if not chosen.model:
        yield Problem(
            'embeddings is "openai", and embeddings_model is empty',
            "Set embeddings_model to the name of a model that the endpoint serves.",
        )
    if not (chosen.key.isascii() and chosen.key.isprintable()):
        yield Problem(
            "MEMORYHUB_EMBEDDINGS_KEY holds characters that no HTTP header may hold",
            "Copy the key again, on one line.",
        )


def _can_be_asked(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable()
    except ValueError:
        return False
