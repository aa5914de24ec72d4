"""One retrieval set in a store of its own: ``python -m tools.evaluation.isolated_run FILE [MODE…]``.

The command starts it with a LETSGO_HOME that is empty and goes with it. It says what it does as lines of
JSON: ``{"told": …}`` for a person, and at the end ``{"stored_seconds", "floor", "systems": {name: {"mode",
"answers"}}}``, one answer for each question, with refs as ids.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from memoryhub.search.hybrid import SearchMode
    from tools.evaluation.measures import Answered
    from tools.evaluation.sets import RetrievalSet

MODES: tuple[SearchMode, ...] = ("hybrid", "lexical", "semantic")
_BATCH = 1000

Ask = Callable[[str], tuple["Answered", str]]


def main(path: Path, wanted: Sequence[str] = ()) -> None:
    """Store the set, ask it all, tell the answers."""
    from django.conf import settings
    from django.core.management import call_command

    from tools.evaluation.baseline import BASELINES, BareIndex
    from tools.evaluation.sets import read_set

    given = read_set(path)
    call_command("migrate", verbosity=0, interactive=False)
    began = time.perf_counter()
    pks = _stored(given)
    took = time.perf_counter() - began
    _tell(told=f"{given.name}: {len(given.memories):,} memories stored in {took:.1f} s")
    embed_stored(given.name)
    bare = BareIndex({pk: memory.content for pk, memory in zip(pks, given.memories, strict=True)}.items())
    asks: dict[str, Ask] = {name: _asking_bare(bare, name) for name in BASELINES}
    asks |= {mode: _asking_the_hub(mode) for mode in MODES if mode in (wanted or MODES)}
    refs = dict(zip(pks, (memory.ref for memory in given.memories), strict=True))
    systems = {name: _asked(given, name, ask, refs) for name, ask in asks.items()}
    bare.close()
    # Of memories with the same content one was stored: it answers for all of them.
    same = {memory.ref: refs[pk] for pk, memory in zip(pks, given.memories, strict=True)}
    _tell(stored_seconds=round(took, 3), floor=settings.MEMORYHUB.min_score, same=same, systems=systems)


def _stored(given: RetrievalSet) -> list[int]:
    """The primary key of each memory, in order."""
    from memoryhub import memories
    from memoryhub.access.policy import system_actor
    from memoryhub.memories.schemas import MemoryDraft

    fields = ("content", "project", "session_id", "created_at")
    drafts = [
        MemoryDraft(**{name: getattr(memory, name) for name in fields}, ttl_days=0)
        for memory in given.memories
    ]
    pks = []
    for at in range(0, len(drafts), _BATCH):
        batch = drafts[at : at + _BATCH]
        # Neither the cap nor the look for credentials is what is measured.
        unchecked = [None] * len(batch)
        for result in memories.create_memories(
            batch, system_actor("evaluate"), enforce_cap=False, refusals=unchecked
        ):
            if isinstance(result, memories.StoreError):
                raise result
            pks.append(result.memory.pk)
    return pks


def embed_stored(name: str) -> None:
    """What the server would do in the background: a provider that is slow embeds nothing while storing."""
    from django.core.management import CommandError, call_command

    from memoryhub.backends import vector_index
    from memoryhub.maintenance.operations import reindex
    from memoryhub.memories import StoreError

    began = time.perf_counter()
    try:
        embedder = reindex.require_embedder()
        if embedder is None:
            return
        if not reindex.count_missing(embedder.name):
            vector_index.get_index(embedder.name, embedder.dimensions).prepare()
            return
        call_command("maintain", "embed", stdout=StringIO(), stderr=StringIO())
        vector_index.get_index(embedder.name, embedder.dimensions).prepare()
    except (StoreError, CommandError) as error:
        _tell(told=f"{name}: not embedded, so found by words alone: {error}")
        return
    _tell(told=f"{name}: embedded in {time.perf_counter() - began:.1f} s")


def _asking_bare(bare: Any, name: str) -> Ask:
    return lambda query: (bare.ask(query, name), "")


def _asking_the_hub(mode: SearchMode) -> Ask:
    """The hub's search as an agent with a public token meets it."""
    from memoryhub.access.policy import Clearance
    from memoryhub.models import Memory
    from memoryhub.search.hybrid import search_memories
    from tools.evaluation.measures import RANKED, SHOWN, Answered

    def ask(query: str) -> tuple[Answered, str]:
        within = Memory.objects.visible_to(Clearance()).live()
        began = time.perf_counter()
        shown = search_memories(within, query, limit=SHOWN, mode=mode)
        took = time.perf_counter() - began
        ranked = search_memories(within, query, limit=1, min_score=0, mode=mode)
        return Answered(ranked.ids[:RANKED], [hit.memory.pk for hit in shown.hits], took), shown.mode

    return ask


def _asked(given: RetrievalSet, name: str, ask: Ask, refs: dict[int, str]) -> dict[str, Any]:
    """All questions, after one that is not counted: it opens files and loads models."""
    began = time.perf_counter()
    ask(given.queries[0].query)
    answers, used = [], set()
    for query in given.queries:
        answer, mode = ask(query.query)
        used.add(mode)
        ids = {"ranked": [refs[pk] for pk in answer.ranked], "shown": [refs[pk] for pk in answer.shown]}  # type: ignore[index]
        answers.append({**asdict(answer), **ids})
    took = time.perf_counter() - began
    _tell(told=f"{given.name}: {len(given.queries):,} questions, {name}, {took:.1f} s")
    return {"mode": ", ".join(sorted(used)), "answers": answers}


def _tell(**said: Any) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    django.setup()
    main(Path(sys.argv[1]), sys.argv[2:])
