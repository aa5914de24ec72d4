"""No credential is stored: every text of a draft is looked at before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings

from memoryhub.encoding.secrets import find_secrets
from memoryhub.store.errors import SecretDetected

MEMORY_FIELDS = (
    *("content", "title", "subtitle", "abstract", "overview", "category", "key", "project", "session_id"),
    *("tags", "concepts", "files_read", "files_modified", "entities"),
)
FACT_FIELDS = ("subject", "predicate", "object", "project", "session_id")


def refuse_secrets(draft: Any, fields: Sequence[str]) -> None:
    """:class:`SecretDetected` names the first field that holds what looks like a credential."""
    if not settings.MEMORYHUB.block_secrets:
        return
    texts = [text for name in fields for text in _texts(getattr(draft, name))]
    # One look at all of them; which field it is matters only to the few that are refused.
    if not find_secrets("\n\n".join(texts)):
        return
    for name in fields:
        value = getattr(draft, name)
        for number, text in enumerate(_texts(value), 1):
            for kind, line in find_secrets(text):
                if isinstance(value, str):
                    raise SecretDetected(kind, line, name)
                raise SecretDetected(kind, number, name, unit="item")


def _texts(value: Any) -> Iterator[str]:
    """The texts of a field: itself, or one for each item of a list."""
    if isinstance(value, str):
        if value:
            yield value
        return
    for item in value:
        yield item if isinstance(item, str) else f"{item.entity}\n{item.entity_type}"
