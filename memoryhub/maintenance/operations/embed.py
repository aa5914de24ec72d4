"""``embed``: every memory gets a vector of the configured model.

Most have one from the moment they are stored. This is for the rest: a provider that is far away, or failed,
or is another one now. Until a memory's turn comes, the vector that it had stays.
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
from memoryhub.maintenance.operations.base import Change, Operation, Pace, ProjectParams, Step
from memoryhub.memories import StoreError
from memoryhub.memories.vectors import memories_without_vector, store_vectors
from memoryhub.models.querysets import MemoryQuerySet

_FIRST_SIZE, _MAX_SIZE = 100, 500  # memories of a step
_COLUMNS = ("pk", "uid", "embedding__model", *TEXT_COLUMNS)


class Embed(Operation[ProjectParams]):
    name = "embed"
    label = "Embed memories"
    help = (
        "Gives every memory that lacks one a vector of the configured model, those in the trash too, and "
        "replaces vectors of other models. The server does so by itself. Search finds what has no vector yet "
        "by its words. Memories do not change: there is nothing to undo."
    )
    whole_store = True
    Params = ProjectParams

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        embedder = require_embedder()
        if embedder is None:
            return 0
        if params.project is None:
            return count_missing(embedder.name)
        return params.within(memories_without_vector(embedder.name)).count()

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        embedder = require_embedder()
        if embedder is None:
            return
        first = Step((), position or {}, chore=True)
        yield first
        rows = params.within(memories_without_vector(embedder.name))
        yield from _embed_steps(embedder, rows, (position or {}).get("after", 0), dry_run=not first.took_ms)


def require_embedder() -> Embedder | None:
    """The configured one; StoreError, in the provider's own words, when it cannot be used."""
    try:
        return embeddings.configured()
    except EmbeddingError as error:
        raise StoreError(str(error), "embeddings") from error


def count_missing(model: str) -> int:
    """How many memories have no vector of this model."""
    return max(vector_log.count_memories() - vector_log.count_vectors(model), 0)


def _embed_steps(embedder: Embedder, rows: MemoryQuerySet, after: int, *, dry_run: bool) -> Iterator[Step]:
    """By primary key, so that what cannot be embedded does not come up again."""
    pace, read = Pace(_FIRST_SIZE, _MAX_SIZE), rows.order_by("pk").values_list(*_COLUMNS)
    while page := list(read.filter(pk__gt=after)[: pace.size]):
        after = page[-1][0]
        step = _embed_step(embedder, page, dry_run=dry_run)
        yield step
        pace.after(step)


def _embed_step(embedder: Embedder, page: list[Any], *, dry_run: bool) -> Step:
    """The vectors are made here, before the transaction: nobody waits for the provider."""
    changes = {pk: Change("embed", uid, reason=_reason(had)) for pk, uid, had, *_ in page}
    passages = {pk: text_to_embed(*texts) for pk, _, _, *texts in page}
    made = None if dry_run else _embed_texts(embedder, list(passages.values()))

    def commit(run_uid: str) -> tuple[Change, ...]:
        taken = store_vectors(embedder.name, passages, made) if made is not None else set()
        return tuple(change for pk, change in changes.items() if pk in taken)

    return Step(tuple(changes.values()), {"after": page[-1][0]}, len(page), commit)


def _embed_texts(embedder: Embedder, texts: list[str]) -> embeddings.Vectors:
    try:
        return embedder.documents(texts)
    except EmbeddingError as error:
        raise StoreError(str(error), "embeddings") from error


def _reason(had: str | None) -> str:
    return f"its vector is of another model, {had}" if had else "it has no vector"
