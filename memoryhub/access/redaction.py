"""What pages say of a secret memory before it is opened: that it is there, and nothing of its words.

Opening it on its own page writes who read it into the journal; a list, a card or a result writes nothing, so
it shows no passage. The title is a passage too: one that was left out is made of the content's first words,
and one that was given may name what is secret.
"""

from __future__ import annotations

from typing import Any

from memoryhub.access.policy import Sensitivity

_UNREDACTED_LEVELS = (Sensitivity.PUBLIC.value, Sensitivity.PRIVATE.value)
_ID_CHARS = 6  # characters of the id
REDACTED_NOTICE = "Secret: opening it shows what it says, and is noted in the journal."


def is_redacted(level: str) -> bool:
    """Whether what stands under a level is shown on a page of its own alone; so is a level nobody knows."""
    return level not in _UNREDACTED_LEVELS


def display_name(memory: Any) -> str:
    """What a page other than its own calls a memory: its title, else its id."""
    return format_display_name(memory.title, memory.uid, memory.sensitivity)


def format_display_name(title: str, uid: str, level: str) -> str:
    """:func:`name_of` of a row that is no model; ``Secret memory 1a2b3c`` for a sealed one."""
    return f"Secret memory {uid[-_ID_CHARS:]}" if is_redacted(level) else title or uid
