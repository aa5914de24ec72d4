"""Refuse drafts with secrets: every text of a draft is checked before anything is written.

A refusal leaves a journal row ``secret_blocked`` with the actor, the kind of secret and the field, never the
text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.conf import settings

from memoryhub.access.policy import LEVELS, Actor, Sensitivity
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.vocabulary import Scope
from memoryhub.memories.errors import SecretDetected, StoreError, TooCostlyToCheck
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.security.secrets import CheckTooCostly, DetectedSecret, find_secrets, may_contain_secrets

MEMORY_FIELDS = (
    *("content", "title", "subtitle", "abstract", "overview", "category", "key", "project", "session_id"),
    *("tags", "concepts", "aliases", "files_read", "files_modified", "entities"),
)
FACT_FIELDS = ("subject", "predicate", "object", "project", "session_id")
HISTORY_TEXT_FIELDS = ("author", "owner", "scale", "flags")  # of an imported memory
SECRET_BLOCKED = "secret_blocked"  # noqa: S105 a journal operation


def refuse_secrets(draft: Any, fields: Sequence[str]) -> None:
    """Raise :class:`SecretDetected` for the first field that contains what looks like a secret.

    Raise :class:`TooCostlyToCheck` for a field that cannot be checked. Call this before a write transaction
    is opened: other writers would have to wait for the check.
    """
    # One check of all texts; the field matters only for the few drafts that are refused.
    if not settings.MEMORYHUB.block_secrets or not may_contain_secrets(join_texts(draft, fields)):
        return
    for name in fields:
        value = getattr(draft, name)
        if isinstance(value, str):
            for kind, line in find_secrets_in_field(value, name):
                raise SecretDetected(kind, line, name)
            continue
        for number, item in enumerate(_item_texts(value or []), 1):
            for kind, _ in find_secrets_in_field(item, name):
                raise SecretDetected(kind, number, name, unit="item")


def join_texts(draft: Any, fields: Sequence[str]) -> str:
    """Return all texts of these fields as one."""
    texts: list[str] = []
    for name in fields:
        if value := getattr(draft, name):
            texts += (value,) if isinstance(value, str) else _item_texts(value)
    return "\n\n".join(texts)


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
    """Journal a refusal and raise it again. Use it around the transaction that the refusal rolls back."""
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
    """Return the journal row of a refusal.

    It has the level, project and owner of the stored memory, or else the level of the draft in the named
    project.
    """
    refusal.noted = True
    detail = {"kind": refusal.kind, "field": refusal.field, refusal.unit: refusal.line}
    memory = Memory.objects.filter(uid=uid).first() if uid and object_type == "memory" else None
    if memory:
        return journal.memory_change(SECRET_BLOCKED, memory, **detail)
    project = getattr(draft, "project", "")
    is_open = (
        refusal.field != "project" and isinstance(project, str) and actor.clearance.includes_project(project)
    )
    personal = str(getattr(draft, "scope", "")) == Scope.PERSONAL.value
    level = str(getattr(draft, "sensitivity", ""))
    return journal.Change(
        SECRET_BLOCKED,
        object_type,
        uid,
        detail,
        project=project if is_open else "",
        sensitivity=level if level in LEVELS else Sensitivity.PUBLIC.value,
        owner=actor.owner if personal else "",
    )


def _item_texts(values: list[Any]) -> list[str]:
    return [item if isinstance(item, str) else f"{item.entity}\n{item.entity_type}" for item in values]


def check_drafts(
    drafts: Sequence[MemoryDraft], histories: Sequence[Any] | None = None
) -> list[StoreError | None]:
    """Check drafts for secrets, before a transaction is opened. Return the refusal of each, or None."""
    histories = histories or [None] * len(drafts)
    return [
        find_refusal(draft, MEMORY_FIELDS) or (find_refusal(past, HISTORY_TEXT_FIELDS) if past else None)
        for draft, past in zip(drafts, histories, strict=True)
    ]
