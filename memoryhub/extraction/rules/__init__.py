"""From a conversation to candidates by rules alone: no model, the same result each time, each one explained.

What the user states about themself, their people and their work, what was decided, what is always or never to
be done, and a problem with its solution. Questions, thanks, requests for this one time, what is only
considered, and what the assistant explains are not remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoryhub.extraction.candidates import Candidate
from memoryhub.extraction.conversation import Turn

__all__ = ["extract"]


def extract(turns: Sequence[Turn]) -> list[Candidate]:
    """The candidates of a conversation, in its order."""
    # Compiling the signs takes a tenth of a second, which a process that reads no conversation does not owe.
    from memoryhub.extraction.rules.extractor import extract as read

    return read(turns)
