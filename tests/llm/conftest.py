"""A chat endpoint that misbehaves on demand, and a ledger that records its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from memoryhub.core.network import CircuitBreaker
from memoryhub.llm import Chat, EndpointChat, LlmSettings, ModelError, Settle
from tests.llm import servers

KEY = "sk-a-key-that-is-never-shown"
MODEL = "tiny-chat"


@dataclass
class Ledger:
    """Reservations with a call limit. Each entry has reserved, prompt and completion tokens, and failed."""

    most: int = 100
    charges: list[list[object]] = field(default_factory=list)

    def reserve(self, model: str, tokens: int) -> Settle:
        if len(self.charges) >= self.most:
            raise ModelError("no more calls")
        row: list[object] = [tokens]
        self.charges.append(row)

        def settle(prompt_tokens: int, completion_tokens: int, *, failed: bool = False) -> None:
            assert len(row) == 1, "settled twice"
            row.extend([prompt_tokens, completion_tokens, failed])

        return settle


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def endpoint() -> Iterator[servers.ChatServer]:
    """An endpoint that answers well unless ``script`` says otherwise."""
    with servers.serving() as server:
        yield server


@pytest.fixture
def chat(endpoint: servers.ChatServer, ledger: Ledger) -> Callable[..., Chat]:
    """``chat(timeout_seconds=1)``: a client of ``endpoint``."""

    def made(**fields: object) -> Chat:
        usual = {"url": endpoint.url, "model": MODEL, "key": KEY, "timeout_seconds": 10.0, "tries": 3}
        return EndpointChat(LlmSettings("openai", **{**usual, **fields}), ledger.reserve, CircuitBreaker())

    return made
