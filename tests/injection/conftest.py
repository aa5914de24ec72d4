"""Fixtures for injections, and a prompt that finds memories about zebras."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.injection.requests import InjectionRequest, InjectionResult
from memoryhub.injection.services import inject_context
from memoryhub.models import Memory

PROMPT = "what do we know about zebra stripes?"


@pytest.fixture(autouse=True)
def patient(configure: Callable[..., None]) -> None:
    """Use a long deadline, because the machine may be busy with other tests."""
    configure(injection_deadline_ms=20_000)


@pytest.fixture
def ask(db: None, actor: Actor) -> Callable[..., InjectionResult]:
    """``ask("a prompt", project="p", by=..., now=...)`` injects for an actor who can see everything."""

    def make(
        prompt: str = PROMPT, by: Actor | None = None, now: Any = None, record: bool = True, **fields: Any
    ) -> InjectionResult:
        return inject_context(InjectionRequest(prompt, **fields), by or actor, now=now, record=record)

    return make


@pytest.fixture
def aged() -> Callable[..., Memory]:
    """``aged(memory, minutes=10)`` sets the age of a memory."""

    def change(memory: Memory, **age: float) -> Memory:
        memory.created_at = memory.updated_at = timezone.now() - timedelta(**age)
        memory.save(update_fields=["created_at", "updated_at"])
        return memory

    return change


def uids(found: InjectionResult) -> set[str]:
    return {one.uid for one in found.injected}


def reasons(found: InjectionResult) -> dict[str, str]:
    return {one.uid: one.reason for one in found.withheld}
