"""Embed: give every memory a vector of the configured model.

Most memories get their vector when they are stored. This operation covers the rest, after a change of the
model or a failure of the provider. Until its turn comes, a memory keeps the vector that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from memoryhub import embeddings
from memoryhub.access.policy import Actor
from memoryhub.backends import vector_log
from memoryhub.backends.schema import TEXT_COLUMNS
from memoryhub.embeddings import Embedder, EmbeddingError, text_to_embed
from memoryhub.maintenance.operations.base import (
    Change,
    Operation,
    Pace,
    PagePlan,
    ProjectParams,
    Step,
    steps_by_page,
)
from memoryhub.memories import StoreError
from memoryhub.memories.vectors import memories_without_vector, store_vectors

_FIRST_SIZE, _MAX_SIZE = 100, 500  # memories in a step
_COLUMNS = ("pk", "uid", "embedding__model", *TEXT_COLUMNS)


class Embed(Operation[ProjectParams]):
    name = "embed"
    label = "Embed memories"
    help = (
        "Gives a vector of the configured model to every memory that lacks one, also in the trash, and "
        "replaces vectors of other models. The server does this automatically. Until then, search finds "
        "these memories by their words. Memories do not change, so there is nothing to undo."
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
            """Compute the vectors here, before the transaction, so that no writer waits for the provider."""
            changes = {pk: Change("embed", uid, reason=_reason(model)) for pk, uid, model, *_ in page}
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
    """Return the configured provider, None if there is none; StoreError if it cannot be loaded."""
    try:
        return embeddings.configured()
    except EmbeddingError as error:
        raise StoreError(str(error), "embeddings") from error


def count_missing(model: str) -> int:
    """Count the memories without a vector of this model."""
    return max(vector_log.count_memories() - vector_log.count_vectors(model), 0)


def _embed_texts(embedder: Embedder, texts: list[str]) -> embeddings.Vectors:
    try:
        return embedder.documents(texts)
    except EmbeddingError as error:
        raise StoreError(str(error), "embeddings") from error


def _reason(model: str | None) -> str:
    return f"its vector is of another model, {model}" if model else "it has no vector"
