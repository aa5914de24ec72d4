"""One retrieval set in a store of its own: ``python -m tools.evaluation.isolated_run FILE [MODE…]``.

The command starts it with an empty LETSGO_HOME. It prints lines of JSON: ``{"message": …}`` for people, and
at the end ``{"stored_seconds", "floor", "same", "systems": {name: {"mode", "answers"}}}``, with an answer
for each question, and refs as ids.
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
    from tools.evaluation.measures import Answer
    from tools.evaluation.sets import RetrievalSet

MODES: tuple[SearchMode, ...] = ("hybrid", "lexical", "semantic")
_BATCH = 1000

Ask = Callable[[str], tuple["Answer", str]]


def main(path: Path, wanted: Sequence[str] = ()) -> None:
    """Store the set, ask its questions, and print the answers."""
    from django.conf import settings
    from django.core.management import call_command

    from tools.evaluation.baseline import BASELINES, BareIndex
    from tools.evaluation.sets import read_set

    given = read_set(path)
    call_command("migrate", verbosity=0, interactive=False)
    began = time.perf_counter()
    pks = _store(given)
    took = time.perf_counter() - began
    _print(message=f"{given.name}: {len(given.memories):,} memories stored in {took:.1f} s")
    embed_stored(given.name)
    bare = BareIndex({pk: memory.content for pk, memory in zip(pks, given.memories, strict=True)}.items())
    asks: dict[str, Ask] = {name: _ask_baseline(bare, name) for name in BASELINES}
    asks |= {mode: _ask_hub(mode) for mode in MODES if mode in (wanted or MODES)}
    refs = dict(zip(pks, (memory.ref for memory in given.memories), strict=True))
    systems = {name: _ask_all(given, name, ask, refs) for name, ask in asks.items()}
    bare.close()
    # Memories with the same content are stored as one, which represents all of them.
    same = {memory.ref: refs[pk] for pk, memory in zip(pks, given.memories, strict=True)}
    _print(stored_seconds=round(took, 3), floor=settings.MEMORYHUB.min_score, same=same, systems=systems)


def _store(given: RetrievalSet) -> list[int]:
    """Store the memories, and return the primary key of each."""
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
        unchecked = [None] * len(batch)  # neither caps nor the search for credentials are measured
        for result in memories.create_memories(
            batch, system_actor("evaluate"), enforce_cap=False, refusals=unchecked
        ):
            if isinstance(result, memories.StoreError):
                raise result
            pks.append(result.memory.pk)
    return pks


def embed_stored(name: str) -> None:
    """Embed the memories that a slow provider leaves to the background thread of the server."""
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
        _print(message=f"{name}: not embedded, so search uses words only: {error}")
        return
    _print(message=f"{name}: embedded in {time.perf_counter() - began:.1f} s")


def _ask_baseline(bare: Any, name: str) -> Ask:
    return lambda query: (bare.ask(query, name), "")


def _ask_hub(mode: SearchMode) -> Ask:
    """Return the hub's search with the clearance of a public token."""
    from memoryhub.access.policy import Clearance
    from memoryhub.models import Memory
    from memoryhub.search.hybrid import search_memories
    from tools.evaluation.measures import RANKED, SHOWN, Answer

    def ask(query: str) -> tuple[Answer, str]:
        within = Memory.objects.visible_to(Clearance()).live()
        began = time.perf_counter()
        shown = search_memories(within, query, limit=SHOWN, mode=mode)
        took = time.perf_counter() - began
        ranked = search_memories(within, query, limit=1, min_score=0, mode=mode)
        return Answer(ranked.ids[:RANKED], [hit.memory.pk for hit in shown.hits], took), shown.mode

    return ask


def _ask_all(given: RetrievalSet, name: str, ask: Ask, refs: dict[int, str]) -> dict[str, Any]:
    """Ask all questions. The first one is asked twice: to open files and load models before it counts."""
    began = time.perf_counter()
    ask(given.queries[0].query)
    answers, used = [], set()
    for query in given.queries:
        answer, mode = ask(query.query)
        used.add(mode)
        ids = {"ranked": [refs[pk] for pk in answer.ranked], "shown": [refs[pk] for pk in answer.shown]}  # type: ignore[index]
        answers.append({**asdict(answer), **ids})
    took = time.perf_counter() - began
    _print(message=f"{given.name}: {len(given.queries):,} questions, {name}, {took:.1f} s")
    return {"mode": ", ".join(sorted(used)), "answers": answers}


def _print(**values: Any) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    django.setup()
    main(Path(sys.argv[1]), sys.argv[2:])
