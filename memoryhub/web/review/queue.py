"""Tabs, counts and cards of the review queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.db.models.functions import Length, Substr
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memoryhub.access.policy import WAITING_LEVELS
from memoryhub.accounts.clearance import request_clearance
from memoryhub.core.text import without_title_line
from memoryhub.injection.queries import find_pinned_warnings
from memoryhub.memories.freshness import ChangedFile, changed_files
from memoryhub.memories.schemas import MAX_CONTENT
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.security.prompt_injection import Finding, inspect_fields
from memoryhub.stats import review_items
from memoryhub.stats.review_items import Reviewer
from memoryhub.web.base import markdown
from memoryhub.web.base.caching import cached_until_change
from memoryhub.web.base.forms import ListFilter, ProjectFilterField
from memoryhub.web.base.labels import instruction_label
from memoryhub.web.base.navigation import CONTRADICTIONS, WAITING, count_contradictions, waiting_memories
from memoryhub.web.base.requests import page_url
from memoryhub.web.memories.queries import live_memories

NEW, UNSURE, FLAGGED, OUTDATED = review_items.REASONS
DUPLICATES = "alike"
TITLES = {
    WAITING: "Waiting for approval",
    NEW: "New",
    UNSURE: "Low confidence",
    FLAGGED: "Flagged",
    OUTDATED: "May be outdated",
    DUPLICATES: "Near-duplicates",
    CONTRADICTIONS: "Contradictions",
}
PAGE_SIZE = 10
MAX_CLUSTERS = 5  # near-duplicates: a cluster is several times as long as a memory
CARD_CHARS = 1500  # of the content that are loaded for a card
_SHOWN_CHARS, _SHOWN_LINES = 800, 14  # of it that a card shows at first
_SLACK = 1.25  # a text longer by less than this factor is shown whole
_MAX_PARTIAL_WORD = 40  # characters of a cut word that are dropped
_CARD_HEADING = 3  # the level of a card's heading
_OLD_TAB = "clashes"  # the name of the tab of contradictions in addresses that people saved


class ReviewFilter(ListFilter):
    project = ProjectFilterField()
    tab = forms.ChoiceField(
        required=False,
        choices=[("", ""), *TITLES.items()],
        widget=forms.HiddenInput,
        error_messages={"invalid_choice": "Unknown list. Choose one of the tabs."},
    )

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        if data.get("tab") == _OLD_TAB:
            self.data = {**data, "tab": CONTRADICTIONS}


@dataclass(frozen=True)
class ReviewTab:
    """A tab; ``count`` is None while unknown, because comparing memories takes a while."""

    name: str
    title: str
    href: str
    count: int | None
    current: bool


@dataclass(frozen=True)
class ReviewCard:
    """A memory to review.

    ``is_cut``: the text is longer than shown; ``flags``: their labels; ``is_found``: the flagged spans are
    marked in the text; ``changed``: the files because of which it may be outdated.
    """

    memory: Any
    html: SafeString
    is_cut: bool
    flags: list[str]
    is_found: bool = False
    changed: Sequence[ChangedFile] = ()

    @property
    def level(self) -> str:
        """The level that the memory has, or gets when it is approved."""
        stored: str = self.memory.sensitivity
        return WAITING_LEVELS.get(stored, stored)

    @property
    def has_text(self) -> bool:
        return self.is_cut or bool(self.html)


def count_by_tab(request: HttpRequest, reader: Reviewer, project: str = "") -> dict[str, int]:
    """Count the items of each tab except near-duplicates, and the memories of all tabs as ``all``."""
    clearance = request_clearance(request)
    counts = cached_until_change(
        request,
        "review-tabs",
        clearance,
        lambda: review_items.count_by_reason(live_memories(clearance, project), reader),
        reader,
        project,
    )
    waiting = cached_until_change(
        request,
        "waiting-for-approval",
        clearance,
        lambda: waiting_memories(clearance, project).count(),
        project,
    )
    return {**counts, CONTRADICTIONS: count_contradictions(request, project), WAITING: waiting}


def pinned_warnings(request: HttpRequest, project: str = "") -> dict[str, list[str]]:
    """Return warnings about pinned memories over their budget, by project."""
    clearance = request_clearance(request)
    return cached_until_change(
        request, "pinned-warnings", clearance, lambda: find_pinned_warnings(clearance, project), project
    )


def build_tabs(counted: dict[str, int], current: str, project: str, alike: int | None) -> list[ReviewTab]:
    counts: dict[str, int | None] = {**counted, DUPLICATES: alike}
    return [
        ReviewTab(name, title, tab_url(name, project), counts[name], name == current)
        for name, title in TITLES.items()
        if name != WAITING or counts[WAITING] or current == WAITING
    ]


def tab_url(tab: str, project: str = "", **more: str) -> str:
    return page_url("review", tab=tab, project=project, **more)


def first_nonempty_tab(counted: dict[str, int]) -> str:
    """Return the first tab with items."""
    return next(
        (name for name in (WAITING, NEW, UNSURE, FLAGGED, OUTDATED, CONTRADICTIONS) if counted[name]), NEW
    )


def build_cards(memories: MemoryQuerySet, whole: bool = False) -> list[ReviewCard]:
    """Load cards in one query, and one more if some may be outdated.

    Unless ``whole``, only the start of the content is loaded.
    """
    chars = MAX_CONTENT if whole else CARD_CHARS
    rows = list(
        memories.defer("content", "overview").annotate(
            begins=Substr("content", 1, chars), chars=Length("content")
        )
    )
    changed = changed_files(rows)
    return [replace(_build_card(memory, whole), changed=changed.get(memory.pk, ())) for memory in rows]


def _build_card(memory: Any, whole: bool) -> ReviewCard:
    # Stored flags may have any shape.
    flags = list(map(instruction_label, memory.flags if isinstance(memory.flags, list) else []))
    is_cut = memory.chars > len(memory.begins)
    text = _drop_partial_word(memory.begins) if is_cut else memory.begins
    if flags:
        text = text.strip("\n").rstrip()  # blank lines at the edges would be visible
        findings = _find_instructions(memory.title, text)
        return ReviewCard(memory, mark_findings(text, findings), is_cut, flags, bool(findings))
    text = without_title_line(text, memory.title)
    shown = text if whole else _shorten_text(text)
    return ReviewCard(memory, markdown.render(shown, below=_CARD_HEADING), is_cut or shown != text, flags)


def _shorten_text(text: str) -> str:
    """Cut a text at a line, or a long line at a word."""
    lines = text.split("\n")
    if len(text) <= _SHOWN_CHARS * _SLACK and len(lines) <= _SHOWN_LINES * _SLACK:
        return text
    head = "\n".join(lines[:_SHOWN_LINES])
    return (_drop_partial_word(head[:_SHOWN_CHARS]) if len(head) > _SHOWN_CHARS * _SLACK else head).rstrip()


def _drop_partial_word(text: str) -> str:
    """Drop the last word of a cut text, unless it is long."""
    head, _, tail = text.rpartition(" ")
    return head if head and len(tail) < _MAX_PARTIAL_WORD else text


def _find_instructions(title: str, text: str) -> list[Finding]:
    """Return the parts that the prompt injection detector would remove from the text, in order."""
    verdict = inspect_fields({"title": title[:1000], "content": text})
    found = [one.finding for one in verdict.findings if one.field == "content" and one.finding.removed]
    return sorted(found, key=lambda finding: finding.start)


def mark_findings(text: str, findings: Iterable[Finding]) -> SafeString:
    """Show a text as stored, with each finding in a ``mark`` element titled by its kind.

    The text is not rendered as Markdown: nothing that an attacker wrote may be followed, or hide a finding.
    """
    if not text:
        return SafeString()
    rows, at = [], 0
    for finding in findings:
        start = max(finding.start, at)
        if start < finding.end:
            rows.append((text[at:start], instruction_label(finding.kind), text[start : finding.end]))
            at = finding.end
    marked = format_html_join("", '{}<mark title="{}">{}</mark>', rows)
    return format_html('<p class="as-stored">{}{}</p>', marked, text[at:])
