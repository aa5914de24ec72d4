"""Wherever a page tells how long ago something was, the exact time is shown on hover."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memoryhub import memories
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Event, Injection, Memory, Session

RELATIVE = re.compile(r"\d+\s(?:second|minute|hour|day|week|month|year)s? ago|just now|in a moment")
TIME = re.compile(r"<time ([^>]*)>([^<]*)</time>")
EXACT = re.compile(r'title="\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"')
WITH_RELATIVE = ["/", "/memories/", "/search/?q=zebra&min_score=0", "/trash/", "/memories/ONE/", "/sessions/"]
WITH_RELATIVE += ["/sessions/night/", "/reports/sessions/night/?project=zoo", "/injections/"]
OTHERS = ["/facts/", "/facts/graph/", "/facts/contradictions/", "/duplicates/", "/timeline/", "/journal/"]
OTHERS += ["/timeline/entries/", "/connect/", "/transfer/", "/glance/", "/memories/ONE/history/"]
OTHERS += ["/maintenance/", "/maintenance/runs/", "/preview/", "/you/"]


@pytest.fixture
def things(remember: Any, actor: Any) -> Memory:
    """Something of every kind."""
    made: Memory = remember("zebra one", session_id="night", project="zoo", ttl_days=2)
    memories.update(made.uid, MemoryPatch(title="Zebra"), actor)
    session = Session.objects.get()
    Event.objects.create(session=session, event="tool:post", memory=made)
    Injection.objects.create(
        session=session, project="zoo", prompt_preview="zebra?", token_budget=9, took_ms=1
    )
    services.store_fact(FactDraft(subject="zebra", predicate="eats", object="oats"), actor)
    memories.trash([remember("zebra two").uid], actor)
    return made


def test_relative_times_have_their_exact_ones(sign_in: Any, things: Memory) -> None:
    client = sign_in("view_maintenancerun", "add_maintenancerun")
    without, lacking = [], []
    for path in WITH_RELATIVE + OTHERS:
        response = client.get(path.replace("ONE", things.uid))
        assert response.status_code == 200, path
        page = response.content.decode()
        told = [(how, text) for how, text in TIME.findall(page) if RELATIVE.search(text)]
        without += [(path, text) for how, text in told if not EXACT.search(how)]
        without += [(path, text) for text in RELATIVE.findall(TIME.sub("", page))]
        if path in WITH_RELATIVE and not told:
            lacking.append(path)
    assert without == []
    assert lacking == [], "nothing was looked at there"
