"""Redaction of secret memories on all pages but their own.

Only the page of the memory journals who read it, so lists and search results show no text of a secret memory.
This includes the title, which can be made from the content or name the secret.
"""

from __future__ import annotations

from typing import Any

from memoryhub.access.policy import Sensitivity

UNREDACTED_LEVELS = (Sensitivity.PUBLIC.value, Sensitivity.PRIVATE.value)
_ID_CHARS = 6  # characters of the id
REDACTED_NOTICE = "Secret: opening it shows what it says, and is noted in the journal."


def is_redacted(level: str) -> bool:
    """Whether memories of this level are shown only on their own page. True for unknown levels."""
    return level not in UNREDACTED_LEVELS


def display_name(memory: Any) -> str:
    """Return the name of a memory on pages other than its own: its title, or else its id."""
    return format_display_name(memory.title, memory.uid, memory.sensitivity)


def format_display_name(title: str, uid: str, level: str) -> str:
    """Return the display name of a row that is not a model: ``Secret memory 1a2b3c`` for a redacted one."""
    return f"Secret memory {uid[-_ID_CHARS:]}" if is_redacted(level) else title or uid
