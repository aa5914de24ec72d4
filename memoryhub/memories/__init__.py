"""The only writer of memories. Every function is one transaction: change, revisions and journal rows.

``remember`` stores one draft, ``remember_many`` a batch, ``remember_in_session`` one that is believed more
each time; ``update`` changes, ``restore_version`` brings an earlier version back, ``take_back`` undoes the
last change; ``trash``, ``restore``, ``erase``, ``merge_into``, ``purge_expired`` and ``evict`` end or revive;
``merge`` makes one of several and ``unmerge`` takes that back, ``not_duplicates`` remembers that they are
none; ``act`` does one thing to one memory or many and ``undo_act`` takes it back; ``touch`` and ``touch_all``
count accesses, ``renew`` gives what was accessed a new lease. Each takes the
:class:`~memoryhub.access.policy.Actor` who does it and reaches only what that actor may see.
"""

from memoryhub.memories.bulk_actions import Acted, act
from memoryhub.memories.bulk_undo import undo_act
from memoryhub.memories.create import Outcome, embed_ahead, remember, remember_many, screen_ahead
from memoryhub.memories.delete import empty_trash, erase, evict, merge_into, purge_expired, restore, trash
from memoryhub.memories.errors import (
    Conflict,
    Forbidden,
    NotFound,
    SecretDetected,
    StoreError,
    TooCostlyToCheck,
)
from memoryhub.memories.evidence import remember_in_session
from memoryhub.memories.merge import Merged, merge, unmerge
from memoryhub.memories.pair_decisions import not_duplicates, undo_not_duplicates
from memoryhub.memories.update import renew, repair_level, touch, touch_all, update
from memoryhub.memories.versions import restore_version, take_back

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
