"""Two stores that differ only in hidden rows: their ids and times are the same."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from memoryhub import capture, memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.facts import services
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.services import inject_context
from memoryhub.maintenance import executor, runs
from memoryhub.memories.merge import merge_memories
from memoryhub.memories.schemas import EntityDraft, FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Injection, Memory, MemoryCheck, Session
from memoryhub.search import visible_rows
from memoryhub.stats import counts

NOW = datetime.now(UTC).replace(microsecond=0)
SESSION, PROJECT = "safari", "zoo"
ADA = Actor("user:ada", Clearance.up_to("secret", owner="ada"))
BOB = Actor("user:bob", Clearance.up_to("secret", owner="bob"))
# What each caller may not see.
HIDDEN: dict[str, list[dict[str, Any]]] = {
    "public": [
        {"sensitivity": "secret"},
        {"sensitivity": "private"},
        {"scope": "personal"},
        {"level": "cosmic"},
    ],
    "confined": [
        {"project": "farm"},
        {"project": "farm", "sensitivity": "secret"},
        {"scope": "personal"},
        {"level": "cosmic"},
    ],
}
TEXTS = [
    "The zebra enclosure opens at seven and quokka feeding follows",
    "Deployment of the ticket shop: run migrate, then restart the gateway",
    "Decided to store opening hours in UTC because the gateway is in Lisbon",
    "Quokka habitat report: the fence needs paint before winter",
    "The fence of the quokka habitat needs paint before the winter comes",
    "Fixed the timeout of the ticket shop by raising the pool size",
]


class _AnyDatetime(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


class _StoppedClock(datetime, metaclass=_AnyDatetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return NOW


class StoppedWorld:
    """Stops the clock and counts ids, separately for each name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._name, self._numbers = "", Counter[str]()
        monkeypatch.setattr("memoryhub.core.text.os", SimpleNamespace(urandom=self._next_id))
        monkeypatch.setattr(timezone, "datetime", _StoppedClock)

    def _next_id(self, size: int) -> bytes:
        self._numbers[self._name] += 1
        return hashlib.sha256(f"{self._name} {self._numbers[self._name]}".encode()).digest()[:size]

    @contextmanager
    def ids_of(self, name: str, *, anew: bool = False) -> Iterator[None]:
        before, self._name = self._name, name
        if anew:
            self._numbers[name] = 0
        yield
        self._name = before


def fill(world: StoppedWorld, hidden: list[dict[str, Any]], notes: int) -> None:
    """Fill the store with visible rows, and with these kinds of hidden rows between them."""
    visible_rows.clear_cache()
    counts._cache.clear()
    with world.ids_of("visible", anew=True):
        for number in range(3):
            _write(number, "", {})
            with world.ids_of("hidden"):
                for place in hidden:
                    _write(number, " ".join(["hush", *place.values()]), place)
        drafts = [
            MemoryDraft(content=f"zebra note {n:03}", project=PROJECT, created_at=_at(n))
            for n in range(notes)
        ]
        memories.create_memories(drafts, ADA)
    assert Memory.objects.filter(content__contains="hush").count() >= 3 * len(TEXTS) * len(hidden)


def _at(number: int) -> datetime:
    return NOW - timedelta(days=300, hours=-number)


def _write(number: int, word: str, place: dict[str, Any]) -> None:
    """Write memories, facts, events, an injection and journal rows about the same things."""
    actor = BOB if place.get("scope") else ADA
    project, level = place.get("project", PROJECT), place.get("sensitivity", "public")
    stored = [
        memories.create_memory(_draft(f"{text} {word} {number}", n, project, level, place), actor).memory
        for n, text in enumerate(TEXTS)
    ]
    uids = [one.uid for one in stored]
    memories.update_memory(
        uids[0], MemoryPatch(title=f"Zebra hours {word}{number}", tags=["zebra", "hours"]), actor
    )
    _state(f"{word} {number}", stored[1], project, level, actor)
    memories.trash_memories([uids[2]], actor)
    if number == 1:
        merge_memories(uids[3], [uids[4]], actor)
    Memory.objects.filter(uid=uids[5]).update(expires_at=NOW + timedelta(days=2 - number))
    if "level" in place:
        Memory.objects.filter(uid__in=uids).update(sensitivity=place["level"])
    if "level" not in place and "scope" not in place:  # events and injections have no owner
        _record_events(number, word, stored[0], actor)


def _draft(text: str, number: int, project: str, level: str, place: dict[str, Any]) -> MemoryDraft:
    return MemoryDraft(
        content=text,
        project=project,
        sensitivity=level,
        scope=place.get("scope", "project"),
        session_id=SESSION,
        type=["discovery", "decision", "bugfix"][number % 3],
        category=["ops", "animals"][number % 2],
        tags=["zebra", "ops"],
        concepts=["gotcha"],
        files_read=["src/gate.py"],
        entities=[EntityDraft(entity="quokka", entity_type="animal")],
        created_at=NOW - timedelta(days=number + 1),
        importance=0.5 + number / 20,
    )


def _state(words: str, memory: Memory, project: str, level: str, actor: Actor) -> None:
    """State facts of the memory, which contradict each other."""
    for place in (f"Lisbon {words}", f"Porto {words}"):
        draft = FactDraft(
            subject="gateway",
            predicate="located_in",
            object=place,
            project=project,
            sensitivity=level,
            memory_id=memory.uid,
        )
        services.create_fact(draft, actor)


def _record_events(number: int, word: str, memory: Memory, actor: Actor) -> None:
    """Let a session go on, show it the memory or others, and plan a maintenance run."""
    project, level = memory.project, memory.sensitivity
    tool = {"file_path": f"/src/{word}gate.py", "command": "make test"}
    data = {
        "prompt": f"zebra {word}?",
        "tool_name": "Edit",
        "tool_input": tool,
        "tool_response": f"done {word}",
    }
    at = NOW - timedelta(hours=9 - number)
    # The context for a hidden prompt would count as an access to visible memories.
    prompts = () if word else (capture.PROMPT_SUBMIT,)
    for event in (capture.SESSION_START, *prompts, capture.TOOL_POST):
        happening = capture.HookEvent(
            event=event, session_id=SESSION, project=project, at=at, data=data, sensitivity=level
        )
        capture.dispatch(happening, actor)
    if word:
        shown = [{"id": memory.uid, "score": 0.9, "scale": "session"}]
        session = Session.objects.get(session_id=SESSION, project=project)
        Session.objects.filter(pk=session.pk).update(summary=memory)
        Injection.objects.create(
            session=session,
            project=project,
            sensitivity=level,
            prompt_preview=word,
            injected=shown,
            at=at,
            took_ms=1,
        )
    else:
        inject_context(
            InjectionRequest("what about zebra?", project=project, session_id=f"night{number}"), actor
        )
    MemoryCheck.objects.create(
        owner="ada", project=project, prompt=f"zebra {word}?", must_words=["zebra"], sensitivity=level
    )
    Injection.objects.update(took_ms=1)
    if not word or project != PROJECT:  # a run has the level of its project
        run_by = Actor(actor.name, Clearance.up_to(level, owner=actor.owner, projects=[project]))
        executor.execute(runs.enqueue("compress", {"project": project}, run_by, dry_run=True))
