"""User names are never reused: personal memories, tokens and the journal refer to a person by name.

The deletion of an account leaves a row in the append-only journal, which is what is checked: by a
validator of the field in forms, and by a signal for every other save.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models.signals import pre_delete, pre_save

from memoryhub.access.policy import system_actor
from memoryhub.accounts.sign_in import PERSON_TYPE
from memoryhub.audit import journal
from memoryhub.core.transactions import write_transaction
from memoryhub.memories.errors import Conflict
from memoryhub.models import JournalEntry

ACCOUNT_DELETED = "account_deleted"
FORMER_NAME_ERROR = "this name belonged to a deleted account; choose another"


def is_former_username(name: str) -> bool:
    """Return whether a deleted account had this name."""
    gone = JournalEntry.objects.filter(operation=ACCOUNT_DELETED, object_type=PERSON_TYPE)
    return gone.filter(object_id__iexact=name).exists()


def validate_username_not_former(name: str) -> None:
    """Refuse the name of a deleted account (a validator of the user name field)."""
    if is_former_username(name):
        raise ValidationError(FORMER_NAME_ERROR.capitalize() + ".", code="former")


def _forbid_reuse_and_rename(instance: User, update_fields: Any = None, **kwargs: Any) -> None:
    """Refuse former names and renames: a new owner of the name would inherit private data."""
    if update_fields is not None and "username" not in update_fields:
        return
    name = instance.get_username()
    stored = None if instance._state.adding else User.objects.filter(pk=instance.pk).values_list("username")
    before = stored.first() if stored is not None else None
    if before is None and is_former_username(name):
        raise Conflict(FORMER_NAME_ERROR, "username")
    if before is not None and before[0] != name:
        raise Conflict(f"an account cannot be renamed; this one is called {before[0]}", "username")


def _record_deletion(instance: User, **kwargs: Any) -> None:
    """Journal the deletion, unless the admin has already done so with the name of the person who did it."""
    name = instance.get_username()
    if is_former_username(name):
        return
    with write_transaction():
        journal.record(
            system_actor("accounts"), [journal.Change(ACCOUNT_DELETED, PERSON_TYPE, name, owner=name)]
        )


def connect_signals() -> None:
    """Check names whenever an account is created, renamed or deleted."""
    validators = User._meta.get_field("username").validators
    if validate_username_not_former not in validators:
        validators.append(validate_username_not_former)
    pre_save.connect(_forbid_reuse_and_rename, sender=User, dispatch_uid="names are for good")
    pre_delete.connect(_record_deletion, sender=User, dispatch_uid="deleted names are kept")
