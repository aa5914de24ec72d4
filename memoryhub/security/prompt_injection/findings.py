"""The results of an inspection. No Django."""

from __future__ import annotations

from dataclasses import dataclass, field

INSTRUCTION_REMOVED = "[instruction removed]"
WORDING_EVIDENCE = "worded like orders to a model"


@dataclass(frozen=True)
class Finding:
    """One order, or one piece of smuggled markup.

    ``start`` and ``end`` are places in the inspected text. The text itself is not repeated, so findings may
    be logged. ``reason`` names the evidence. ``removed`` is false if the characters are only made harmless
    and stay readable.
    """

    kind: str
    start: int
    end: int
    reason: str
    removed: bool = True


@dataclass(frozen=True)
class Verdict:
    """The result for a text.

    ``clean``: the text with orders replaced by a short mark. ``blocked``: nothing useful is left.
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
    """A finding in one field. ``item`` is the position in a list, ``None`` in a plain text."""

    field: str
    item: int | None
    finding: Finding


@dataclass(frozen=True)
class FieldsVerdict:
    """The result for all fields of a memory. ``blocked``: no field has anything useful left."""

    clean: dict[str, str | list[str]]
    findings: list[FieldFinding] = field(default_factory=list)
    blocked: bool = False

    @property
    def flagged(self) -> bool:
        """Whether anything was removed from any field."""
        return any(found.finding.removed for found in self.findings)
