"""An export contains one state of the store, whatever is written while it is read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from memoryhub import capture, memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Memory
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats import OWN_FORMAT, WRITERS, write_export
from tests.transfer.conftest import OPERATOR

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def export() -> Iterator[dict[str, Any]]:
    selection = ExportSelection(OPERATOR, MemoryFilter(), whole=True)
    lines = write_export(WRITERS[OWN_FORMAT], selection)
    return (json.loads(line) | {"exported_at": ""} for line in lines)


def in_another_thread(work: Callable[[], object]) -> None:
    """Call a function with a connection of its own."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


@pytest.fixture
def stored(store_home: Path, remember: Callable[..., Memory]) -> Iterator[list[Memory]]:
    yield [remember(f"note {number}", session_id="first", project="p") for number in range(5)]
    for thread in threading.enumerate():
        if thread.name == "truncate-log":  # an erase could not truncate the log during the export
            thread.join()


def change_everything(stored: list[Memory], actor: Actor) -> None:
    """Store, change, trash and erase memories, and add a session with an event and a fact."""
    data = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": "done"}
    capture.dispatch(capture.HookEvent("tool:post", "second", "p", data=data), actor)
    new = memories.create_memory(MemoryDraft(content="new", session_id="second", project="p"), actor).memory
    services.create_fact(FactDraft(subject="a", predicate="b", object="c", memory_id=new.uid), actor)
    memories.update_memory(stored[0].uid, MemoryPatch(content="changed"), actor)
    memories.trash_memories([stored[1].uid], actor)
    memories.erase_memories([stored[2].uid], actor)


@pytest.mark.parametrize("lines_before", [2, 4])  # the first one needs no query
def test_export_has_no_part_of_later_writes(stored: list[Memory], actor: Actor, lines_before: int) -> None:
    wanted = list(export())
    lines = export()
    found = [next(lines) for _ in range(lines_before)]
    in_another_thread(lambda: change_everything(stored, actor))
    assert Memory.objects.count() == 5, "this connection is still in the state of the export"
    found += lines
    assert found == wanted
    assert Memory.objects.filter(content="changed").exists()


def test_writers_do_not_wait_for_an_export(stored: list[Memory], actor: Actor) -> None:
    lines = export()
    next(lines)
    in_another_thread(lambda: memories.create_memory(MemoryDraft(content="meanwhile"), actor))
    lines.close()  # type: ignore[attr-defined]
    assert Memory.objects.filter(content="meanwhile").exists()


def test_export_that_is_read_too_slowly_ends_with_an_error(stored: list[Memory]) -> None:
    selection = ExportSelection(OPERATOR, MemoryFilter(), whole=True)
    lines = write_export(WRITERS[OWN_FORMAT], selection, max_seconds=0)
    next(lines)
    with pytest.raises(TimeoutError):
        next(lines)
    assert not connection.in_atomic_block
