"""The only writer of memories. Every function is one transaction: change, revisions and journal rows.

``remember`` stores one draft, ``remember_many`` a batch, ``remember_in_session`` one that is believed more
each time; ``update`` changes, ``restore_version`` brings an earlier version back, ``take_back`` undoes the
last change; ``trash``, ``restore``, ``erase``, ``merge_into``, ``purge_expired`` and ``evict`` end or revive;
``merge`` makes one of several and ``unmerge`` takes that back, ``not_duplicates`` remembers that they are
none; ``act`` does one thing to one memory or many and ``undo_act`` takes it back; ``touch`` and ``touch_all``
count accesses, ``renew`` gives what was accessed a new lease. Each takes the
:class:`~memoryhub.sensitivity.Actor` who does it and reaches only what that actor may see.
"""

from memoryhub.store.acts import Acted, act
from memoryhub.store.acts_undone import undo_act
from memoryhub.store.apart import not_duplicates, undo_not_duplicates
from memoryhub.store.change import repair_level, touch, touch_all, update
from memoryhub.store.errors import Conflict, Forbidden, NotFound, SecretDetected, StoreError, TooCostlyToCheck
from memoryhub.store.evidence import remember_in_session
from memoryhub.store.merging import Merged, merge, unmerge
from memoryhub.store.remember import Outcome, embed_ahead, remember, remember_many, screen_ahead
from memoryhub.store.removal import empty_trash, erase, evict, merge_into, purge_expired, restore, trash
from memoryhub.store.renewal import renew
from memoryhub.store.versions import restore_version, take_back

__all__ = [
    "Acted",
    "Conflict",
    "Forbidden",
    "Merged",
    "NotFound",
    "Outcome",
    "SecretDetected",
    "StoreError",
    "TooCostlyToCheck",
    "act",
    "embed_ahead",
    "empty_trash",
    "erase",
    "evict",
    "merge",
    "merge_into",
    "not_duplicates",
    "purge_expired",
    "remember",
    "remember_in_session",
    "remember_many",
    "renew",
    "repair_level",
    "restore",
    "restore_version",
    "screen_ahead",
    "take_back",
    "touch",
    "touch_all",
    "trash",
    "undo_act",
    "undo_not_duplicates",
    "unmerge",
    "update",
]
