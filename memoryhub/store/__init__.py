"""The only writer of memories. Every function is one transaction: change, revisions and journal rows.

``remember`` stores one draft, ``remember_many`` a batch; ``update`` changes; ``trash``, ``restore``,
``erase``, ``merge_into``, ``purge_expired`` and ``evict`` end or revive; ``touch`` and ``touch_all`` count
accesses. Each takes the :class:`~memoryhub.sensitivity.Actor` who does it and reaches only what that actor
may see.
"""

from memoryhub.store.change import expire, repair_level, touch, touch_all, update
from memoryhub.store.errors import Conflict, Forbidden, NotFound, SecretDetected, StoreError
from memoryhub.store.remember import Outcome, remember, remember_many
from memoryhub.store.removal import empty_trash, erase, evict, merge_into, purge_expired, restore, trash

__all__ = [
    "Conflict",
    "Forbidden",
    "NotFound",
    "Outcome",
    "SecretDetected",
    "StoreError",
    "empty_trash",
    "erase",
    "evict",
    "expire",
    "merge_into",
    "purge_expired",
    "remember",
    "remember_many",
    "repair_level",
    "restore",
    "touch",
    "touch_all",
    "trash",
    "update",
]
