"""Agents over HTTP, as the tests of the API have them."""

from __future__ import annotations

from tests.api.conftest import agent, bot

__all__ = ["agent", "bot"]
