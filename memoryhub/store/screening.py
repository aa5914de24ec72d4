"""No credential is stored: every text of a draft is looked at before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings

from memoryhub.encoding.secrets import find_secrets, redact
from memoryhub.store.errors import SecretDetected

__all__ = ["FACT_FIELDS", "MEMORY_FIELDS", "redact", "refuse_secrets"]  # redact: for floors beside encoding

MEMORY_FIELDS = (
    *("content", "title", "subtitle", "abstract", "overview", "category", "key", "project", "session_id"),
    *("tags", "concepts", "files_read", "files_modified", "entities"),
)
FACT_FIELDS = ("subject", "predicate", "object", "project", "session_id")


def refuse_secrets(draft: Any, fields: Sequence[str]) -> None:
    """:class:`SecretDetected` names the first field that holds what looks like a credential."""
    if not settings.MEMORYHUB.block_secrets:
        return
    texts: list[str] = []
    for name in fields:
        if value := getattr(draft, name):
            texts += (value,) if isinstance(value, str) else _items(value)
    # One look at all of them; which field it is matters only to the few that are refused.
    if not find_secrets("\n\n".join(texts)):
        return
    for name in fields:
        value = getattr(draft, name)
        if isinstance(value, str):
            for kind, line in find_secrets(value):
                raise SecretDetected(kind, line, name)
            continue
        for number, item in enumerate(_items(value), 1):
            for kind, _ in find_secrets(item):
                raise SecretDetected(kind, number, name, unit="item")


def _items(values: list[Any]) -> list[str]:
    """The text of each item of a list-valued field."""
    return [item if isinstance(item, str) else f"{item.entity}\n{item.entity_type}" for item in values]
