"""What the governor says about a text. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

MARK = "[instruction removed]"
WORDED = "worded like orders to a model"


@dataclass(frozen=True)
class Finding:
    """One order, or one piece of smuggled markup.

    ``start`` and ``end`` are places in the text that was inspected; the text itself is not repeated here,
    so that a finding may be logged. ``reason`` names the evidence. ``removed`` is false where the
    characters were only made harmless and can still be read.
    """

    kind: str
    start: int
    end: int
    reason: str
    removed: bool = True


@dataclass(frozen=True)
class Verdict:
    """A text made fit for a prompt.

    ``clean``: the text with orders replaced by a short mark. ``blocked``: nothing worth keeping is left.
    """

    clean: str
    findings: list[Finding] = field(default_factory=list)
    blocked: bool = False

    @property
    def flagged(self) -> bool:
        """Whether anything was removed."""
        return any(finding.removed for finding in self.findings)


@dataclass(frozen=True)
class FieldFinding:
    """A finding in one field; ``item`` is the place in a list, ``None`` in a plain text."""

    field: str
    item: int | None
    finding: Finding


@dataclass(frozen=True)
class FieldsVerdict:
    """All fields of a memory made fit for a prompt. ``blocked``: no field has anything worth keeping left."""

    clean: dict[str, str | list[str]]
    findings: list[FieldFinding] = field(default_factory=list)
    blocked: bool = False

    @property
    def flagged(self) -> bool:
        """Whether anything was removed from any field."""
        return any(found.finding.removed for found in self.findings)
