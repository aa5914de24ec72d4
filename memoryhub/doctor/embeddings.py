"""Embeddings: that the configured provider can be loaded, or reached, and answers."""

from __future__ import annotations

from collections.abc import Iterator

from memoryhub import checks
from memoryhub.doctor.registry import Finding, check, of_messages, ok, warn
from memoryhub.embeddings import EmbeddingError, configured
from memoryhub.embeddings.chosen import Chosen, problems

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
