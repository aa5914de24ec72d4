"""No credential is stored: every text of a draft is looked at before anything is written.

What was refused leaves a row ``secret_blocked`` in the journal: who, which kind, which field. Never the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.conf import settings

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.transactions import write_transaction
from memoryhub.core.vocabulary import Scope
from memoryhub.memories.errors import SecretDetected, StoreError, TooCostlyToCheck
from memoryhub.models import Memory
from memoryhub.security.secrets import (
    REDACTED,
    CheckTooCostly,
    DetectedSecret,
    find_secrets,
    may_contain_secrets,
    redact,
    redact_checked,
)

__all__ = [
    "FACT_FIELDS",
    "MEMORY_FIELDS",
    "REDACTED",
    "CheckTooCostly",
    "find_refusal",
    "find_secrets",
    "find_secrets_in_field",
    "journal_refusals",
    "redact",
    "redact_checked",
    "refusal_change",
    "refuse_secrets",
]

MEMORY_FIELDS = (
    *("content", "title", "subtitle", "abstract", "overview", "category", "key", "project", "session_id"),
    *("tags", "concepts", "files_read", "files_modified", "entities"),
)
FACT_FIELDS = ("subject", "predicate", "object", "project", "session_id")
SECRET_BLOCKED = "secret_blocked"  # noqa: S105 a journal operation


def refuse_secrets(draft: Any, fields: Sequence[str]) -> None:
    """Raise :class:`SecretDetected` for the first field that holds what looks like a credential.

    Raise :class:`TooCostlyToCheck` for a field that cannot be checked. Call this before a write transaction
    is opened: other writers would have to wait for the check.
    """
    if not settings.MEMORYHUB.block_secrets:
        return
    fields = [name for name in fields if getattr(draft, name)]
    texts: list[str] = []
    for name in fields:
        value = getattr(draft, name)
        texts += (value,) if isinstance(value, str) else _item_texts(value)
    # One look at all of them; which field it is matters only to the few that are refused.
    if len(texts) != 1 and not may_contain_secrets("\n\n".join(texts)):
        return
    for name in fields:
        value = getattr(draft, name)
        if isinstance(value, str):
            for kind, line in find_secrets_in_field(value, name):
                raise SecretDetected(kind, line, name)
            continue
        for number, item in enumerate(_item_texts(value), 1):
            for kind, _ in find_secrets_in_field(item, name):
                raise SecretDetected(kind, number, name, unit="item")


def find_secrets_in_field(text: str, field: str) -> list[DetectedSecret]:
    """Find the secrets in a text. Raise :class:`TooCostlyToCheck` if it cannot be checked."""
    try:
        return find_secrets(text)
    except CheckTooCostly:
        raise TooCostlyToCheck(field) from None


def find_refusal(draft: Any, fields: Sequence[str]) -> StoreError | None:
    """Return the refusal of :func:`refuse_secrets` instead of raising it."""
    try:
        refuse_secrets(draft, fields)
    except StoreError as refusal:
        return refusal
    return None


@contextmanager
def journal_refusals(draft: Any, actor: Actor, object_type: str = "memory", uid: str = "") -> Iterator[None]:
    """Journal a refusal in here, and pass it on. Around the transaction, which the refusal takes back."""
    try:
        yield
    except SecretDetected as refusal:
        if not refusal.noted:
            with write_transaction():
                journal.record(actor, [refusal_change(refusal, draft, actor, object_type, uid)])
        raise


def refusal_change(
    refusal: SecretDetected, draft: Any, actor: Actor, object_type: str = "memory", uid: str = ""
) -> journal.Change:
    """The row that counts a refusal. About a memory that is there: under that memory's gate.

    About a new one it is public within the project that was named, for it tells nothing of the text.
    """
    refusal.noted = True
    detail = {"kind": refusal.kind, "field": refusal.field, refusal.unit: refusal.line}
    memory = Memory.objects.filter(uid=uid).first() if uid and object_type == "memory" else None
    if memory:
        return journal.memory_change(SECRET_BLOCKED, memory, **detail)
    project = getattr(draft, "project", "")
    told = refusal.field != "project" and isinstance(project, str) and actor.clearance.reaches(project)
    personal = str(getattr(draft, "scope", "")) == Scope.PERSONAL.value
    return journal.Change(
        SECRET_BLOCKED,
        object_type,
        uid,
        detail,
        project=project if told else "",
        owner=actor.owner if personal else "",
    )


def _item_texts(values: list[Any]) -> list[str]:
    """The text of each item of a list-valued field."""
    return [item if isinstance(item, str) else f"{item.entity}\n{item.entity_type}" for item in values]
