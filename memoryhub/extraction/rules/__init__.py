"""Rule-based extraction of candidates: no model, deterministic, with a reason for each candidate.

The rules extract statements of users about themselves, their people and their work, decisions, standing
rules, and problems with their solutions. They ignore questions, thanks, one-time requests, considerations,
and explanations by the assistant.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoryhub.extraction.comparison import Candidate
from memoryhub.extraction.conversation import Turn


def extract(turns: Sequence[Turn]) -> list[Candidate]:
    """Return the candidates of a conversation in order."""
    # Import late: compiling the patterns takes 0.1 s, which most processes do not need.
    from memoryhub.extraction.rules.extractor import extract as read

    return read(turns)
