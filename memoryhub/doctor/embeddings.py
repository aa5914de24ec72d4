"""Embeddings: that the configured provider can be loaded, or reached, and answers."""

from __future__ import annotations

from collections.abc import Iterator

from memoryhub import checks
from memoryhub.doctor.registry import Finding, check, of_messages, ok, warn
from memoryhub.embeddings import EmbeddingError, configured
from memoryhub.embeddings.chosen import Chosen, problems
from memoryhub.search import vector_log

_MEND = "Until that is mended search goes by words alone; manage.py show_config tells what is set."


@check("embeddings")
def provider() -> Iterator[Finding]:
    yield from of_messages(checks.embeddings_can_work())
    try:
        embedder = configured()
        if embedder is not None:
            length = len(embedder.query("Is anybody there?"))
            yield ok(f"{embedder.name} answers, with vectors of {length} numbers")
        else:
            yield ok("none: search goes by words alone")
    except EmbeddingError as error:
        if not problems(Chosen.now()):  # those are told above
            yield warn(str(error), _MEND)


@check("vectors", needs="triggers")
def vectors() -> Iterator[Finding]:
    """Whether every memory has one of the configured model."""
    try:
        embedder = configured()
    except EmbeddingError:
        return  # told above
    held = vector_log.census()
    size = sum(length for _, length in held.values()) / 1e6
    if embedder is None:
        yield ok(f"no model is configured; {size:,.1f} MB of vectors of before")
        return
    number, _ = held.get(embedder.name, (0, 0))
    lacking = vector_log.memories() - number
    if lacking > 0:
        yield warn(
            f"{lacking:,} memories have no vector of {embedder.name}: search finds them by their words alone",
            "The server embeds them by itself; or: manage.py maintain embed",
        )
        return
    yield ok(f"{number:,} of {embedder.name}, {size:,.1f} MB")
