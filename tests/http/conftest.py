"""Tokens of agents for tests of the HTTP layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.api.conftest import agent

__all__ = ["agent"]

from memoryhub.access.policy import Actor
from memoryhub.accounts.tokens import issue_token
from memoryhub.http import authentication


@pytest.fixture(autouse=True)
def _reset_counters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count in this process, whose clock a test may change."""
    monkeypatch.setattr(authentication, "IS_POSTGRES", False)
    authentication.reset_limits()
    yield
    authentication.reset_limits()


@pytest.fixture
def token(db: None, actor: Actor) -> Callable[..., str]:
    """``token("bot")``: the raw token of an agent that may read and write."""

    def make(name: str = "bot", **options: Any) -> str:
        return issue_token(name, "ada", "secret", actor=actor, **options)[1]

    return make
