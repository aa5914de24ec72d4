"""The only writer of memories.

Every function takes the :class:`~memoryhub.access.policy.Actor` who makes the change and affects only
memories that this actor may see. The change, its revisions and its journal rows are one transaction.
"""

from memoryhub.memories.bulk_actions import BulkResult, apply_bulk_action, undo_bulk_action
from memoryhub.memories.create import StoreResult, create_memories, create_memory
from memoryhub.memories.delete import erase_memories, purge_expired, restore_memories, trash_memories
from memoryhub.memories.errors import (
    Conflict,
    Forbidden,
    NotFound,
    SecretDetected,
    StoreError,
    TooCostlyToCheck,
)
from memoryhub.memories.evidence import (
    count_accesses,
    count_outcomes,
    count_sessions,
    create_memory_in_session,
)
from memoryhub.memories.freshness import FileChange, changed_files, compare_with_code, store_references
from memoryhub.memories.merge import (
    MergeResult,
    dismiss_duplicates,
    merge_memories,
    undo_dismissal,
    undo_merge,
)
from memoryhub.memories.rows import embed_drafts
from memoryhub.memories.secret_check import check_drafts
from memoryhub.memories.update import renew_expiry, repair_sensitivity, update_memory
from memoryhub.memories.versions import restore_version, undo_last_change
