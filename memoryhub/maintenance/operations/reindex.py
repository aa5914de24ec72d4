"""Rebuild derived data: the text indexes, and the vectors of memories that lack one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from memoryhub import embeddings
from memoryhub.access.policy import Actor
from memoryhub.backends import EMBEDDED_COLUMNS, INDEXES, change_log, schema
from memoryhub.core.database import write_transaction
from memoryhub.embeddings import Embedder, EmbeddingError, provider, text_to_embed
from memoryhub.maintenance.operations.base import (
    CHARS_PER_WEIGHT,
    Change,
    Operation,
    Pace,
    PagePlan,
    ProjectParams,
    Step,
    chore_steps,
    steps_by_page,
)
from memoryhub.memories import StoreError
from memoryhub.memories.rows import memories_without_vector, store_vectors
from memoryhub.models import Memory

_INDEX_LABELS = {"memoryhub_text": "the index of words", "memoryhub_trigram": "the index of substrings"}
_BUILD_POSITION = {"phase": "build"}


class NoParams(BaseModel):
    """No parameters."""

    model_config = ConfigDict(extra="forbid")


class BrokenIndex(RuntimeError):
    """An index that was just built does not match the memories."""


class Reindex(Operation[NoParams]):
    name = "reindex"
    label = "Rebuild the indexes"
    help = (
        "Rebuilds both text indexes while searches and writes continue. It works in short steps, then "
        "checks the new ones in a copy of the store, which briefly needs as much disk space as the store. "
        "A dry run only checks. Memories do not change, so there is nothing to undo."
    )
    whole_store = True
    Params = NoParams

    def total(self, params: NoParams, actor: Actor, now: datetime) -> int:
        return Memory.objects.count() * len(INDEXES)

    def steps(
        self, params: NoParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        if not (position or {}).get("phase"):
            for name in [name for table in INDEXES for name in schema.leftover_tables(table)]:
                yield from _clear_steps(name, {})
            first = _examine_step()
            yield first
            if not first.took_ms:
                return  # a dry run
        for table in INDEXES:
            yield from _build_steps(table)
        if unsound := schema.find_unsound_indexes():
            raise BrokenIndex(f"{_INDEX_LABELS[unsound[0]]} does not match the memories; run doctor")


def _examine_step() -> Step:
    unsound = schema.find_unsound_indexes()
    changes = tuple(Change("reindex", reason=_reason(table, table in unsound)) for table in INDEXES)

    def commit(run_uid: str) -> tuple[Change, ...]:
        with write_transaction():
            for table in INDEXES:
                schema.begin_rebuild(table)
        return changes

    return Step(changes, _BUILD_POSITION, 0, commit)


def _reason(table: str, unsound: bool) -> str:
    if unsound:
        return f"{_INDEX_LABELS[table]} does not match the memories: searches miss some or find deleted ones"
    return f"{_INDEX_LABELS[table]} matches the memories; it is rebuilt anyway"


def _build_steps(table: str) -> Iterator[Step]:
    """Copy all rows, swap the tables and delete the old one, starting where an earlier run stopped.

    The swap copies the last rows and those added meanwhile.
    """

    def copy(rows: int, is_first: bool) -> bool:
        return schema.copy_rows(table, rows, rows * CHARS_PER_WEIGHT)

    if schema.copy_position(table) is not None:
        yield from chore_steps(copy, Pace(50, 2000, min_size=4), _BUILD_POSITION, counted=True)
        yield from chore_steps(lambda *_: schema.swap_index(table), Pace(), _BUILD_POSITION)
    yield from _clear_steps(f"{table}_old", _BUILD_POSITION)


def _clear_steps(name: str, position: dict[str, Any]) -> Iterator[Step]:
    pace = Pace(50, 5000, min_size=20)
    yield from chore_steps(lambda amount, _: schema.drop_in_steps(name, amount), pace, position)


_FIRST_SIZE, _MAX_SIZE = 100, 500  # memories in a step
_COLUMNS = ("pk", "uid", "embedding__model", *EMBEDDED_COLUMNS)


class Embed(Operation[ProjectParams]):
    name = "embed"
    label = "Embed memories"
    help = (
        "Computes missing vectors, and replaces those of other models. It includes the trash. The server "
        "does this automatically. Until then, search finds these memories by their words. Memories do not "
        "change, so there is nothing to undo."
    )
    whole_store = True
    Params = ProjectParams

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        embedder = require_embedder()
        if embedder is None:
            return 0
        if params.project is None:
            return count_missing(embedder.name)
        return params.in_project(memories_without_vector(embedder.name)).count()

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        embedder = require_embedder()
        if embedder is None:
            return
        first = Step((), position or {}, chore=True)
        yield first
        is_dry_run = not first.took_ms

        def plan(page: list[Any]) -> PagePlan:
            """Compute the vectors before the transaction, so that no writer waits for the provider."""
            changes = {pk: Change("embed", uid, reason=_embed_reason(model)) for pk, uid, model, *_ in page}
            texts = {pk: text_to_embed(*columns) for pk, _, _, *columns in page}
            vectors = None if is_dry_run else _embed_texts(embedder, list(texts.values()))

            def commit(run_uid: str) -> tuple[Change, ...]:
                if vectors is None:
                    return ()
                stored = store_vectors(embedder.name, texts, vectors)
                return tuple(change for pk, change in changes.items() if pk in stored)

            return list(changes.values()), commit

        rows = params.in_project(memories_without_vector(embedder.name))
        start = {"after": (position or {}).get("after", 0)}
        yield from steps_by_page(rows, _COLUMNS, plan, start, Pace(_FIRST_SIZE, _MAX_SIZE))


def require_embedder() -> Embedder | None:
    """Return the configured provider, if any; raise StoreError if it cannot be loaded."""
    try:
        return provider.configured()
    except EmbeddingError as error:
        raise StoreError(str(error), "embeddings") from error


def count_missing(model: str) -> int:
    """Count the memories without a vector of this model."""
    return max(change_log.count_memories() - change_log.count_vectors(model), 0)


def _embed_texts(embedder: Embedder, texts: list[str]) -> embeddings.Vectors:
    try:
        return embedder.documents(texts)
    except EmbeddingError as error:
        raise StoreError(str(error), "embeddings") from error


def _embed_reason(model: str | None) -> str:
    return f"its vector is of another model, {model}" if model else "it has no vector"
