"""A chat endpoint that misbehaves on demand, and a meter that records its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from memoryhub.core.http_client import CircuitBreaker
from memoryhub.llm import Chat, EndpointChat, LlmSettings, ModelError
from tests.llm import servers

KEY = "sk-a-key-that-is-never-shown"
MODEL = "tiny-chat"


@dataclass
class Ledger:
    """A meter with a call limit. Each entry has reserved, prompt and completion tokens, and failed."""

    most: int = 100
    charges: list[list[object]] = field(default_factory=list)

    def reserve(self, model: str, tokens: int) -> Entry:
        if len(self.charges) >= self.most:
            raise ModelError("no more calls")
        self.charges.append([tokens])
        return Entry(self.charges[-1])


@dataclass
class Entry:
    row: list[object]

    def settle(self, prompt_tokens: int, completion_tokens: int, *, failed: bool = False) -> None:
        assert len(self.row) == 1, "settled twice"
        self.row += [prompt_tokens, completion_tokens, failed]


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
        return EndpointChat(LlmSettings("openai", **{**usual, **fields}), ledger, CircuitBreaker())

    return made
