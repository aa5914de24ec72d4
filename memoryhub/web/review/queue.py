"""The review queue as its page shows it: tabs with counts, cards with what a person needs to decide."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.db.models.functions import Length, Substr
from django.http import HttpRequest
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_actor, request_clearance
from memoryhub.facts import contradictions
from memoryhub.memories.schemas import MAX_CONTENT
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.security.prompt_injection import inspect_fields
from memoryhub.stats import review_items
from memoryhub.stats.review_items import Reviewer
from memoryhub.web.base import markdown
from memoryhub.web.base.caching import cached_until_change, clearance_key
from memoryhub.web.base.filters import ListFilter, ProjectField
from memoryhub.web.base.markdown import MarkedSpan

NEW, UNSURE, FLAGGED, DUPLICATES, CONTRADICTIONS = *review_items.REASONS, "alike", "clashes"
TITLES = {
    NEW: "New",
    UNSURE: "Low confidence",
    FLAGGED: "Flagged",
    DUPLICATES: "Near-duplicates",
    CONTRADICTIONS: "Contradictions",
}
PAGE_SIZE = 10
CARD_CHARS = 1500  # of a text that is looked through for a card
_SHOWN_CHARS, _SHOWN_LINES = 800, 14  # characters and lines of it that the card begins with
_SLACK = 1.25  # so much more is shown too: nothing is cut off for a few words
_MAX_PARTIAL_WORD = 40  # of a word at the end of them
_CARD_HEADING = 3  # the level of a card's heading
MAX_BADGE = 99  # a larger count says so and no more


class ReviewFilter(ListFilter):
    """What of the queue is looked at."""

    project = ProjectField()
    tab = forms.ChoiceField(
        required=False,
        choices=[("", ""), *TITLES.items()],
        widget=forms.HiddenInput,
        error_messages={"invalid_choice": "There is no such list; choose one of the tabs."},
    )

    def is_narrowed(self) -> bool:
        return bool(self.data.get("project"))


@dataclass(frozen=True)
class ReviewTab:
    """``count`` is None while it is not known: comparing memories takes a while."""

    name: str
    title: str
    href: str
    count: int | None
    current: bool


@dataclass(frozen=True)
class ReviewCard:
    """A memory to look at. ``is_cut``: there is more text than is shown.

    ``html``: the text as on the memory's own page. ``flags``: in words; ``is_found``: what they are about is
    marked in the text.
    """

    memory: Any
    html: SafeString
    is_cut: bool
    flags: list[str]
    is_found: bool = False

    @property
    def has_text(self) -> bool:
        """Whether there is more to read than the title."""
        return self.is_cut or bool(self.html)


def reader_for(request: HttpRequest, now: datetime | None = None) -> Reviewer:
    """Who looks, and since when."""
    return Reviewer.of(request_actor(request).name, last_reviewed_at(request), now or timezone.now())


def last_reviewed_at(request: HttpRequest) -> datetime | None:
    """When the person last said that they have looked at what is new; None for never."""
    profile = getattr(request.user, "profile", None)
    return profile.looked_at if profile is not None else None


def live_memories(clearance: Clearance, project: str = "") -> MemoryQuerySet:
    """What may be looked at."""
    memories: MemoryQuerySet = Memory.objects.visible_to(clearance).live()
    return memories.filter(project=project) if project else memories


def count_by_tab(clearance: Clearance, reader: Reviewer, project: str = "") -> dict[str, int]:
    """How many wait, for each tab whose count takes no comparing, and as ``all`` how many memories do."""
    found = review_items.count_by_reason(live_memories(clearance, project), reader)
    return {**found, CONTRADICTIONS: count_contradictions(clearance, project)}


def count_contradictions(clearance: Clearance, project: str = "") -> int:
    """How many contradictions of facts are open."""
    about = repr((clearance_key(clearance), project))
    return cached_until_change(
        "clashes", about, lambda: len(contradictions.find_contradictions(clearance, project=project).open)
    )


def badge_text(request: HttpRequest) -> str:
    """The badge: how many memories and contradictions wait for this person; empty for none."""
    counted: dict[str, int] | None = getattr(request, "review_counted", None)
    found = _count_waiting(request) if counted is None else _total(counted)
    return f"{MAX_BADGE}+" if found > MAX_BADGE else str(found or "")


def _total(counted: dict[str, int]) -> int:
    return counted[review_items.ALL_REASONS] + counted[CONTRADICTIONS]


def _count_waiting(request: HttpRequest) -> int:
    clearance, reader = request_clearance(request), reader_for(request)
    # Who has never looked has a window that moves on; a day more or less of it is the same question.
    about = repr((clearance_key(clearance), reader.name, reader.since.date(), last_reviewed_at(request)))

    # One more than is shown tells that there are more.
    found = cached_until_change(
        "review", about, lambda: review_items.count_waiting(live_memories(clearance), reader, MAX_BADGE + 1)
    )
    return found + count_contradictions(clearance)


def build_tabs(
    counted: dict[str, int], current: str, project: str, alike: int | None = None
) -> list[ReviewTab]:
    counts: dict[str, int | None] = {**counted, DUPLICATES: alike}
    return [
        ReviewTab(name, title, tab_url(name, project), counts[name], name == current)
        for name, title in TITLES.items()
    ]


def tab_url(tab: str, project: str = "", **more: str) -> str:
    """Of a tab of the queue."""
    query = {"tab": tab, **({"project": project} if project else {}), **more}
    return f"/review/?{urlencode(query)}"


def first_nonempty_tab(counted: dict[str, int]) -> str:
    """The first that has something to look at."""
    return next((name for name in (NEW, UNSURE, FLAGGED, CONTRADICTIONS) if counted[name]), NEW)


def build_cards(memories: MemoryQuerySet, whole: bool = False) -> list[ReviewCard]:
    """One query; of long texts only the beginning is read, unless the whole is wanted."""
    chars = MAX_CONTENT if whole else CARD_CHARS
    rows = memories.defer("content", "overview").annotate(
        begins=Substr("content", 1, chars), chars=Length("content")
    )
    return [_build_card(memory, whole) for memory in rows]


def _build_card(memory: Any, whole: bool = False) -> ReviewCard:
    flags, is_cut = _flag_texts(memory.flags), memory.chars > len(memory.begins)
    text = _drop_partial_word(memory.begins) if is_cut else memory.begins
    # What is flagged may stand in the first line as well.
    text = text if flags else _body(memory.title, text)
    shown = text if flags or whole else _shorten_text(text)
    is_cut = is_cut or shown != text
    spans = _flagged_spans(memory.title, shown) if flags else []
    return ReviewCard(
        memory,
        markdown.render(shown, below=_CARD_HEADING, spans=spans, links=not flags),
        is_cut,
        flags,
        bool(spans),
    )


def _shorten_text(text: str) -> str:
    """As much as a card shows of itself: no text is cut through a line, none scrolls within the page."""
    lines = text.split("\n")
    if len(text) <= _SHOWN_CHARS * _SLACK and len(lines) <= _SHOWN_LINES * _SLACK:
        return text
    head = "\n".join(lines[:_SHOWN_LINES])
    return (_drop_partial_word(head[:_SHOWN_CHARS]) if len(head) > _SHOWN_CHARS * _SLACK else head).rstrip()


def _drop_partial_word(text: str) -> str:
    """The beginning of a text without the word that was cut off, if that is short."""
    head, _, tail = text.rpartition(" ")
    return head if head and len(tail) < _MAX_PARTIAL_WORD else text


def _body(title: str, text: str) -> str:
    """The text, without a first line that the title above it says already."""
    first, _, rest = text.partition("\n")
    return rest.strip() if first.lstrip("#").strip().rstrip(".") == title.strip().rstrip(".") else text


def _flag_texts(flags: Any) -> list[str]:
    """Flags as they are read out; whatever else was put there is told as it is."""
    return [str(flag).replace(":", ": ", 1) for flag in flags] if isinstance(flags, list) else []


def _flagged_spans(title: str, text: str) -> list[MarkedSpan]:
    """Where the governor would take something out of the text."""
    verdict = inspect_fields({"title": title[:1000], "content": text})
    return [
        MarkedSpan(one.finding.start, one.finding.end, one.finding.kind)
        for one in verdict.findings
        if one.field == "content" and one.finding.removed
    ]
