"""What every language model is to the rest of the hub. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


class ModelError(Exception):
    """The model cannot be used now; the message is fit for a client: no key, no content, no stack."""


@dataclass(frozen=True)
class Message:
    """One turn of what is sent."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Reply:
    """What came back. Tokens as the endpoint counts them, or as the hub estimates where it does not tell."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class Charge(Protocol):
    """What one request was allowed to cost; settled by what it did cost, once."""

    def settle(self, prompt_tokens: int, completion_tokens: int, *, failed: bool = False) -> None:
        """Exchange what was set aside for what was used."""


class Meter(Protocol):
    """Holds every request against a budget."""

    def reserve(self, model: str, tokens: int) -> Charge:
        """Set one call and so many tokens aside; ModelError when the budget does not hold them."""


class Chat(Protocol):
    """A language model; safe to be used by several threads at once."""

    @property
    def name(self) -> str:
        """Which model, for people and for the daily count."""

    def ask(self, messages: Sequence[Message], most_tokens: int) -> Reply:
        """The model's answer of at most so many tokens; ModelError in words fit for a client."""
