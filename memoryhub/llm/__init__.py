"""The protocol of language models, the settings that choose one, and access to the chosen model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from django.conf import settings

from memoryhub.core import http_client
from memoryhub.core.http_client import EndpointProblem


class ModelError(Exception):
    """The model is unavailable; the message is safe for clients (no key, content or traceback)."""


@dataclass(frozen=True)
class Message:
    """One message of a request."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Reply:
    """An answer, with tokens as counted by the endpoint or else estimated."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class Charge(Protocol):
    """Reservation of one request; settled once with the actual cost."""

    def settle(self, prompt_tokens: int, completion_tokens: int, *, failed: bool = False) -> None:
        """Replace the reserved tokens by the used ones."""


class Meter(Protocol):
    """Checks each request against a budget."""

    def reserve(self, model: str, tokens: int) -> Charge:
        """Reserve one call and ``tokens`` tokens. Raise ModelError if the budget is exhausted."""


class Chat(Protocol):
    """A language model. Thread-safe."""

    @property
    def name(self) -> str:
        """Name of the model, for people and for the daily count."""

    def ask(self, messages: Sequence[Message], max_tokens: int) -> Reply:
        """Return an answer of at most ``most_tokens`` tokens.

        Raise ModelError with a message that is safe for clients.
        """


@dataclass(frozen=True)
class LlmSettings:
    """The settings that determine the model and its requests."""

    provider: str
    url: str = ""
    model: str = ""
    timeout_seconds: float = 120.0
    tries: int = 3
    key: str = field(default="", repr=False)
    private_names: bool = False

    @classmethod
    def now(cls) -> LlmSettings:
        """Return the current settings."""
        config = settings.MEMORYHUB
        return cls(
            config.llm,
            config.llm_url,
            config.llm_model,
            config.llm_timeout_seconds,
            config.llm_tries,
            settings.LLM_KEY,
            config.endpoint_private_names,
        )


def find_problems(config: LlmSettings) -> list[EndpointProblem]:
    """Return the configuration problems that are visible without a network request."""
    if config.provider == "none":
        return []
    return list(
        http_client.find_endpoint_problems("llm", config.url, config.model, config.key, "MEMORYHUB_LLM_KEY")
    )


def sends_in_clear(config: LlmSettings) -> bool:
    """Return whether conversations and the key cross a network unencrypted."""
    return config.provider != "none" and http_client.is_unencrypted(config.url)


def configured(meter: Meter, max_seconds: float = math.inf) -> Chat | None:
    """Return the configured model, or None for ``llm = "none"``. Raise ModelError if it is invalid.

    Each request is charged to ``meter``. It takes ``llm_timeout_seconds``, at most ``max_seconds``.
    """
    from memoryhub.llm import endpoint

    config = LlmSettings.now()
    config = replace(config, timeout_seconds=min(config.timeout_seconds, max_seconds))
    return endpoint.create_chat(config, meter)
