"""Names of accounts are given once: personal memories, tokens and the journal know a person by their name.

A deleted account leaves a row in the journal, which nobody can take out again; that row is what is asked. It
holds at every door where an account is made, by the validators of the field, and beneath all of them when a
row is saved.
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
FORMER_NAME_ERROR = "somebody had this name, whose memories keep it; choose another"


def is_former_username(name: str) -> bool:
    """Whether an account that was deleted was called so."""
    gone = JournalEntry.objects.filter(operation=ACCOUNT_DELETED, object_type=PERSON_TYPE)
    return gone.filter(object_id__iexact=name).exists()


def validate_username_not_former(name: str) -> None:
    """A validator of user names: of what is new, since an account that is there is not deleted."""
    if is_former_username(name):
        raise ValidationError(FORMER_NAME_ERROR.capitalize() + ".", code="former")


def _forbid_reuse_and_rename(instance: User, update_fields: Any = None, **kwargs: Any) -> None:
    """No account takes the name of a former one, and none changes its own: who came next would inherit."""
    if update_fields is not None and "username" not in update_fields:
        return
    name = instance.get_username()
    kept = None if instance._state.adding else User.objects.filter(pk=instance.pk).values_list("username")
    before = kept.first() if kept is not None else None
    if before is None and is_former_username(name):
        raise Conflict(FORMER_NAME_ERROR, "username")
    if before is not None and before[0] != name:
        raise Conflict(f"an account keeps its name; this one is called {before[0]}", "username")


def _record_deletion(instance: User, **kwargs: Any) -> None:
    """The admin has told already, and who did it; every other door is told of here."""
    name = instance.get_username()
    if is_former_username(name):
        return
    with write_transaction():
        journal.record(
            system_actor("accounts"), [journal.Change(ACCOUNT_DELETED, PERSON_TYPE, name, owner=name)]
        )


def connect_signals() -> None:
    """Watch over names at whatever door an account is made, renamed or deleted."""
    validators = User._meta.get_field("username").validators
    if validate_username_not_former not in validators:
        validators.append(validate_username_not_former)
    pre_save.connect(_forbid_reuse_and_rename, sender=User, dispatch_uid="names are for good")
    pre_delete.connect(_record_deletion, sender=User, dispatch_uid="deleted names are kept")
