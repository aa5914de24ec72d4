"""Protocol of language models. No Django."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


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
