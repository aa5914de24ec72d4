"""Addresses and keys of endpoints: what of them cannot work. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Problem(NamedTuple):
    """What is wrong, naming the key, and its mend; neither holds a secret."""

    text: str
    mend: str


def problems(name: str, url: str, model: str, key: str, variable: str) -> Iterator[Problem]:
    """Why an OpenAI-compatible endpoint cannot be asked, as far as can be told without asking it.

    ``name`` begins its tunables (``embeddings`` for ``embeddings_url``), ``variable`` holds its key.
    """
    if not url:
        yield Problem(
            f'{name} is "openai", and {name}_url is empty',
            f"Set {name}_url to the address of the endpoint, such as https://host/v1.",
        )
    elif not can_be_asked(url):
        yield Problem(
            f"{name}_url is no address that can be asked",
            "Write it as https://host/v1, or https://host:port/v1, in ASCII.",
        )
    if not model:
        yield Problem(
            f'{name} is "openai", and {name}_model is empty',
            f"Set {name}_model to the name of a model that the endpoint serves.",
        )
    if not (key.isascii() and key.isprintable()):
        yield Problem(
            f"{variable} holds characters that no HTTP header may hold", "Copy the key again, on one line."
        )


def can_be_asked(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable()
    except ValueError:
        return False


def in_clear(url: str) -> bool:
    """Whether what is sent there crosses a network unencrypted."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK


def ending_with(url: str, tail: str) -> str:
    """Where to post: the configured address with ``tail`` (such as ``/embeddings``), unless it ends so."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(tail) else f"{path}{tail}"))
