"""What every use of a tokenizer needs."""

from __future__ import annotations

import os


def encodable(text: str) -> str:
    """The text as UTF-8 can hold it: half a surrogate pair is nothing that a tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def stay_in_one_thread() -> None:
    """Before the first use: its own threads would not outlive a fork, and it says so on stderr."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
