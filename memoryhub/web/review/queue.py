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
from memoryhub.accounts.clearance import actor_of, clearance_of
from memoryhub.facts import contradictions
from memoryhub.memories.schemas import MAX_CONTENT
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.security.prompt_injection import inspect_fields
from memoryhub.stats import review_items
from memoryhub.stats.review_items import Reader
from memoryhub.web.base import markdown
from memoryhub.web.base.caching import eyes, kept
from memoryhub.web.base.filters import ListFilter, ProjectField
from memoryhub.web.base.markdown import Place

NEW, UNSURE, FLAGGED, ALIKE, CLASHES = *review_items.REASONS, "alike", "clashes"
TITLES = {
    NEW: "New",
    UNSURE: "Low confidence",
    FLAGGED: "Flagged",
    ALIKE: "Near-duplicates",
    CLASHES: "Contradictions",
}
PAGE_SIZE = 10
CHARS = 1500  # of a text that is looked through for a card
_SHOWN, _LINES = 800, 14  # characters and lines of it that the card begins with
_SLACK = 1.25  # so much more is shown too: nothing is cut off for a few words
_CUT_OFF = 40  # of a word at the end of them
_TITLE = 3  # the level of a card's heading
MOST_BADGE = 99  # a larger count says so and no more


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
class Tab:
    """``count`` is None while it is not known: comparing memories takes a while."""

    name: str
    title: str
    href: str
    count: int | None
    current: bool


@dataclass(frozen=True)
class Card:
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


def reader_of(request: HttpRequest, now: datetime | None = None) -> Reader:
    """Who looks, and since when."""
    return Reader.of(actor_of(request).name, looked_at(request), now or timezone.now())


def looked_at(request: HttpRequest) -> datetime | None:
    """When the person last said that they have looked at what is new; None for never."""
    profile = getattr(request.user, "profile", None)
    return profile.looked_at if profile is not None else None


def live(clearance: Clearance, project: str = "") -> MemoryQuerySet:
    """What may be looked at."""
    memories: MemoryQuerySet = Memory.objects.visible_to(clearance).live()
    return memories.filter(project=project) if project else memories


def numbers(clearance: Clearance, reader: Reader, project: str = "") -> dict[str, int]:
    """How many wait, for each tab whose count takes no comparing, and as ``all`` how many memories do."""
    found = review_items.counts(live(clearance, project), reader)
    return {**found, CLASHES: clashes(clearance, project)}


def clashes(clearance: Clearance, project: str = "") -> int:
    """How many contradictions of facts are open."""
    about = repr((eyes(clearance), project))
    return kept("clashes", about, lambda: len(contradictions.survey(clearance, project=project).open))


def waiting(request: HttpRequest) -> str:
    """The badge: how many memories and contradictions wait for this person; empty for none."""
    counted: dict[str, int] | None = getattr(request, "review_counted", None)
    found = _count(request) if counted is None else _all(counted)
    return f"{MOST_BADGE}+" if found > MOST_BADGE else str(found or "")


def _all(counted: dict[str, int]) -> int:
    return counted[review_items.ALL] + counted[CLASHES]


def _count(request: HttpRequest) -> int:
    clearance, reader = clearance_of(request), reader_of(request)
    # Who has never looked has a window that moves on; a day more or less of it is the same question.
    about = repr((eyes(clearance), reader.name, reader.since.date(), looked_at(request)))

    # One more than is shown tells that there are more.
    found = kept("review", about, lambda: review_items.waiting(live(clearance), reader, MOST_BADGE + 1))
    return found + clashes(clearance)


def tabs(counted: dict[str, int], current: str, project: str, alike: int | None = None) -> list[Tab]:
    counts: dict[str, int | None] = {**counted, ALIKE: alike}
    return [
        Tab(name, title, address(name, project), counts[name], name == current)
        for name, title in TITLES.items()
    ]


def address(tab: str, project: str = "", **more: str) -> str:
    """Of a tab of the queue."""
    query = {"tab": tab, **({"project": project} if project else {}), **more}
    return f"/review/?{urlencode(query)}"


def first_tab(counted: dict[str, int]) -> str:
    """The first that has something to look at."""
    return next((name for name in (NEW, UNSURE, FLAGGED, CLASHES) if counted[name]), NEW)


def cards(memories: MemoryQuerySet, whole: bool = False) -> list[Card]:
    """One query; of long texts only the beginning is read, unless the whole is wanted."""
    chars = MAX_CONTENT if whole else CHARS
    rows = memories.defer("content", "overview").annotate(
        begins=Substr("content", 1, chars), chars=Length("content")
    )
    return [card(memory, whole) for memory in rows]


def card(memory: Any, whole: bool = False) -> Card:
    flags, is_cut = _words(memory.flags), memory.chars > len(memory.begins)
    text = _whole_words(memory.begins) if is_cut else memory.begins
    # What is flagged may stand in the first line as well.
    text = text if flags else _body(memory.title, text)
    shown = text if flags or whole else _beginning(text)
    is_cut = is_cut or shown != text
    places = _flagged(memory.title, shown) if flags else []
    return Card(
        memory,
        markdown.render(shown, below=_TITLE, places=places, links=not flags),
        is_cut,
        flags,
        bool(places),
    )


def _beginning(text: str) -> str:
    """As much as a card shows of itself: no text is cut through a line, none scrolls within the page."""
    lines = text.split("\n")
    if len(text) <= _SHOWN * _SLACK and len(lines) <= _LINES * _SLACK:
        return text
    head = "\n".join(lines[:_LINES])
    return (_whole_words(head[:_SHOWN]) if len(head) > _SHOWN * _SLACK else head).rstrip()


def _whole_words(text: str) -> str:
    """The beginning of a text without the word that was cut off, if that is short."""
    head, _, tail = text.rpartition(" ")
    return head if head and len(tail) < _CUT_OFF else text


def _body(title: str, text: str) -> str:
    """The text, without a first line that the title above it says already."""
    first, _, rest = text.partition("\n")
    return rest.strip() if first.lstrip("#").strip().rstrip(".") == title.strip().rstrip(".") else text


def _words(flags: Any) -> list[str]:
    """Flags as they are read out; whatever else was put there is told as it is."""
    return [str(flag).replace(":", ": ", 1) for flag in flags] if isinstance(flags, list) else []


def _flagged(title: str, text: str) -> list[Place]:
    """Where the governor would take something out of the text."""
    verdict = inspect_fields({"title": title[:1000], "content": text})
    return [
        Place(one.finding.start, one.finding.end, one.finding.kind)
        for one in verdict.findings
        if one.field == "content" and one.finding.removed
    ]
