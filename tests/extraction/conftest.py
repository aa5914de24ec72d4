"""Fixtures: API tokens, a configured chat endpoint on loopback, and conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memoryhub import llm as llm_endpoint
from memoryhub.core import network
from memoryhub.extraction.conversation import Turn, parse_turns
from tests.api.conftest import agent, bot
from tests.llm import servers

__all__ = ["agent", "bot"]

SAID = [
    {"role": "user", "content": "Hi! We decided to keep the queue in Postgres. I prefer short answers."},
    {"role": "assistant", "content": "Noted. Anything else?"},
    {"role": "user", "content": "The import crashed with error 17 because the disk was full."},
    {"role": "assistant", "content": "I've moved the scratch files to /data, now it works."},
]


@pytest.fixture
def said() -> list[Turn]:
    return parse_turns(SAID)


@pytest.fixture
def model(configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.ChatServer]:
    """Configure a model; the test sets its answers with ``model.usual`` and ``model.script``."""
    monkeypatch.setattr(network.time, "sleep", lambda seconds: None)
    llm_endpoint._shared_pause.cache_clear()
    with servers.serving() as server:
        usual: dict[str, Any] = {
            "llm": "openai",
            "llm_url": server.url,
            "llm_model": "tiny",
            "llm_timeout_seconds": 1.0,
            "llm_tries": 1,
        }
        configure(**usual)
        server.configured = usual  # type: ignore[attr-defined]
        server.usual = servers.answer_json(
            [{"category": "events", "content": "We decided to keep the queue in Postgres.", "decision": True}]
        )
        yield server
