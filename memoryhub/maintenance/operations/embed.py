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
from memoryhub.backends.schema import COLUMNS
from memoryhub.embeddings import Embedder, EmbeddingError, passage
from memoryhub.maintenance.plan import Change, OnProject, Operation, Pace, Step
from memoryhub.memories import StoreError
from memoryhub.memories.vectors import fill, lacking
from memoryhub.models.querysets import MemoryQuerySet

_FIRST, _MOST = 100, 500  # memories of a step
_READ = ("pk", "uid", "embedding__model", *COLUMNS)


class Embed(Operation[OnProject]):
    name = "embed"
    label = "Embed memories"
    help = (
        "Gives every memory that lacks one a vector of the configured model, those in the trash too, and "
        "replaces vectors of other models. The server does so by itself. Search finds what has no vector yet "
        "by its words. Memories do not change: there is nothing to undo."
    )
    whole_store = True
    Params = OnProject

    def total(self, params: OnProject, actor: Actor, now: datetime) -> int:
        embedder = provider()
        if embedder is None:
            return 0
        if params.project is None:
            return missing(embedder.name)
        return params.within(lacking(embedder.name)).count()

    def steps(
        self, params: OnProject, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        embedder = provider()
        if embedder is None:
            return
        first = Step((), position or {}, chore=True)
        yield first
        rows = params.within(lacking(embedder.name))
        yield from _walk(embedder, rows, (position or {}).get("after", 0), dry_run=not first.took_ms)


def provider() -> Embedder | None:
    """The configured one; StoreError, in the provider's own words, when it cannot be used."""
    try:
        return embeddings.configured()
    except EmbeddingError as error:
        raise StoreError(str(error), "embeddings") from error


def missing(model: str) -> int:
    """How many memories have no vector of this model."""
    return max(vector_log.memories() - vector_log.count(model), 0)


def _walk(embedder: Embedder, rows: MemoryQuerySet, after: int, *, dry_run: bool) -> Iterator[Step]:
    """By primary key, so that what cannot be embedded does not come up again."""
    pace, read = Pace(_FIRST, _MOST), rows.order_by("pk").values_list(*_READ)
    while page := list(read.filter(pk__gt=after)[: pace.size]):
        after = page[-1][0]
        step = _step(embedder, page, dry_run=dry_run)
        yield step
        pace.after(step)


def _step(embedder: Embedder, page: list[Any], *, dry_run: bool) -> Step:
    """The vectors are made here, before the transaction: nobody waits for the provider."""
    changes = {pk: Change("embed", uid, reason=_reason(had)) for pk, uid, had, *_ in page}
    passages = {pk: passage(*texts) for pk, _, _, *texts in page}
    made = None if dry_run else _made(embedder, list(passages.values()))

    def commit(run_uid: str) -> tuple[Change, ...]:
        taken = fill(embedder.name, passages, made) if made is not None else set()
        return tuple(change for pk, change in changes.items() if pk in taken)

    return Step(tuple(changes.values()), {"after": page[-1][0]}, len(page), commit)


def _made(embedder: Embedder, texts: list[str]) -> embeddings.Vectors:
    try:
        return embedder.documents(texts)
    except EmbeddingError as error:
        raise StoreError(str(error), "embeddings") from error


def _reason(had: str | None) -> str:
    return f"its vector is of another model, {had}" if had else "it has no vector"
