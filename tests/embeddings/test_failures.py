"""Failures of a provider in the log."""

from __future__ import annotations

import logging

import pytest

from memoryhub.embeddings import EmbeddingError, provider

logger = logging.getLogger("memoryhub.tests")


@pytest.fixture(autouse=True)
def told(monkeypatch, caplog):
    """What was logged; nothing was before."""
    monkeypatch.setattr(provider, "_warned", {})
    with caplog.at_level(logging.WARNING):
        yield lambda: [record.getMessage() for record in caplog.records]


def warn(words="it does not answer", consequence="searched by words alone"):
    provider.warn(logger, consequence, EmbeddingError(words))


def test_a_failure_that_goes_on_is_told_once(told):
    for _ in range(5):
        warn()
    assert told() == ["searched by words alone: it does not answer"]


def test_it_is_told_again_after_a_while(told, monkeypatch):
    warn()
    monkeypatch.setattr(provider, "SECONDS_BETWEEN_WARNINGS", 0.0)
    warn()
    assert len(told()) == 2


def test_another_failure_is_told_at_once(told):
    warn()
    warn("the key is refused")
    assert told()[1:] == ["searched by words alone: the key is refused"]


def test_what_fails_for_two_is_told_for_each_and_no_more(told):
    for _ in range(5):
        warn()
        warn(consequence="stored without vectors")
    assert len(told()) == 2
