"""The review queue: decide on new, unsure, flagged, duplicate and contradicting memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models.functions import Length, Substr
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET, require_POST, require_safe

from memoryhub import memories
from memoryhub.access.policy import WAITING_LEVELS, Sensitivity
from memoryhub.accounts.clearance import record_reveal, request_actor, request_clearance, reveal_secrets
from memoryhub.core.text import without_title_line
from memoryhub.facts import contradictions
from memoryhub.injection.queries import find_pinned_warnings
from memoryhub.memories.freshness import ChangedFile, changed_files
from memoryhub.memories.schemas import MAX_CONTENT
from memoryhub.models import Memory, Profile
from memoryhub.models.querysets import MemoryQuerySet, live_memories
from memoryhub.security.prompt_injection import Finding, inspect_fields
from memoryhub.stats.counts import REASONS, Reviewer, count_by_reason, select_queue
from memoryhub.web.base import markdown
from memoryhub.web.base.forms import ListFilter, ProjectFilterField, parse_aware_datetime
from memoryhub.web.base.labels import instruction_label
from memoryhub.web.base.navigation import (
    CONTRADICTIONS,
    WAITING,
    badge_text,
    count_contradictions,
    current_reviewer,
    last_reviewed_at,
    may_review,
    waiting_memories,
)
from memoryhub.web.base.requests import (
    HtmxHttpRequest,
    cached_until_change,
    numbered_page,
    page_url,
    require,
    return_url,
    show_success,
)
from memoryhub.web.duplicates import presenters
from memoryhub.web.duplicates.presenters import Comparison
from memoryhub.web.duplicates.views import decision_rights
from memoryhub.web.facts.views import contradiction_cards
from memoryhub.web.memories import bulk_actions, filters

NEW, UNSURE, FLAGGED, OUTDATED = REASONS
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
    by_reason = cached_until_change(
        request,
        "review-tabs",
        clearance,
        lambda: count_by_reason(live_memories(clearance, project), reader),
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
    return {**by_reason, CONTRADICTIONS: count_contradictions(request, project), WAITING: waiting}


def pinned_warnings(request: HttpRequest, project: str = "") -> dict[str, list[str]]:
    """Return warnings about pinned memories over their budget, by project."""
    clearance = request_clearance(request)
    return cached_until_change(
        request, "pinned-warnings", clearance, lambda: find_pinned_warnings(clearance, project), project
    )


def build_tabs(counted: dict[str, int], current: str, project: str, alike: int | None) -> list[ReviewTab]:
    by_tab: dict[str, int | None] = {**counted, DUPLICATES: alike}
    return [
        ReviewTab(name, title, tab_url(name, project), by_tab[name], name == current)
        for name, title in TITLES.items()
        if name != WAITING or by_tab[WAITING] or current == WAITING
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


# The bulk action of each button, and its label when done. Demoting marks a memory as reviewed.
_ACTIONS = {
    "approve": ("approve", "Approved"),
    "still_true": ("still_true", "Still true"),
    "demote": ("demote_and_approve", "Demoted"),
    "trash": ("trash", "In the trash"),
}


@require_safe
@require(may_review)
def review_page(request: HttpRequest) -> HttpResponse:
    """Show a tab; ``GET`` takes ``tab``, ``project``, ``page`` and ``at``, the memory to show first."""
    form = ReviewFilter(request.GET)
    reader = current_reviewer(request)
    if not form.is_valid():
        error_text = " ".join(str(error) for errors in form.errors.values() for error in errors)
        tabs = build_tabs(count_by_tab(request, reader), "", "", Comparison(request).last_count())
        invalid = {"form": form, "wrong": error_text, "tabs": tabs}
        return render(request, "review/page.html", invalid, status=422)
    project = form.value("project")
    counted = count_by_tab(request, reader, project)
    tab = form.value("tab") or first_nonempty_tab(counted)
    if not project:
        request.review_counted = counted  # type: ignore[attr-defined]  # reused by the badge
    context: dict[str, Any] = {
        "form": form,
        "tab": tab,
        "project": project,
        "tabs": build_tabs(counted, tab, project, Comparison(request, project).last_count()),
        "left": counted.get(tab),
        "pinned_warnings": pinned_warnings(request, project),
        "back": request.get_full_path(),
        "now": timezone.now(),
        "since": reader.since,
        "most": PAGE_SIZE,
        "has_looked": last_reviewed_at(request) is not None,
        **decision_rights(request),
    }
    # Near-duplicates that have not been counted yet are compared by a later request.
    context["compare"] = tab != DUPLICATES and context["tabs"][-2].count is None
    context |= _tab_context(request, tab, project, counted)
    return render(request, "review/page.html", context)


@require_GET
@require(may_review)
def review_tabs(request: HttpRequest) -> HttpResponse:
    """Return the tabs with new counts; with ``compare``, near-duplicates are found and counted too."""
    form = _valid_filter(request)
    tab, project = form.value("tab") or NEW, form.value("project")
    counted = count_by_tab(request, current_reviewer(request), project)
    comparison = Comparison(request, project)
    if tab == DUPLICATES or "compare" in request.GET:
        duplicates: int | None = len(comparison.clusters().near)
    else:
        duplicates = comparison.last_count()
    context = {
        "tabs": build_tabs(counted, tab, project, duplicates),
        "left": duplicates if tab == DUPLICATES else counted[tab],
        "waiting": badge_text(request),
        "tab": tab,
    }
    return render(request, "review/page.html#tabs", context)


@require_GET
@require(may_review)
def review_duplicates(request: HttpRequest) -> HttpResponse:
    """Return the near-duplicates, loaded after the page because comparing takes a while."""
    project = _valid_filter(request).value("project")
    back = tab_url(DUPLICATES, project, look="1")
    context = {
        **_duplicates_context(request, project),
        **decision_rights(request),
        "back": back,
        "tab": DUPLICATES,
        "project": project,
    }
    return render(request, "review/page.html#alike", context)


@require_safe
@require(may_review)
def review_card(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """Return the card of one memory, with its whole text if ``whole``; redirect to the queue without htmx."""
    tab = _parse_tab(request.GET.get("tab", ""))
    if not request.htmx:
        return redirect(tab_url(tab, at=uid))
    return _card_response(request, uid, tab, is_whole="whole" in request.GET)


@require_safe
@require(may_review)
def review_merge(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """Compare a memory with the most similar ones, in place of its card or as a page."""
    memory = filters.get_visible_memory(request, uid)
    clearance = request_clearance(request)
    tab = _parse_tab(request.GET.get("tab", ""))
    cluster = None
    if memory.deleted_at is None:
        cluster = presenters.build_merge_card(memory, clearance)
    reveal_secrets(request, cluster.everyone if cluster else [], "review")
    context = {
        "memory": memory,
        "cluster": cluster,
        "tab": tab,
        "back": tab_url(tab),
        **decision_rights(request),
    }
    return render(request, "review/merge.html#merge_part" if request.htmx else "review/merge.html", context)


@require_POST
@require(may_review)
def review_action(request: HtmxHttpRequest) -> HttpResponse:
    """Approve, demote, trash or confirm (``act``) the memory ``uid``, unless it has changed since ``seen``.

    ``card``: ids of the cards on the page, which the next card must not repeat.
    """
    kind, label = _ACTIONS.get(request.POST.get("act", ""), ("", ""))
    if not kind:
        raise BadRequest("act must be approve, still_true, demote or trash")
    if not bulk_actions.is_allowed(request, kind):
        raise PermissionDenied
    memory = filters.get_visible_memory(request, request.POST.get("uid", ""))
    seen = parse_aware_datetime(request.POST.get("seen", ""))
    acted = memories.apply_bulk_action(
        kind, [memory.uid], request_actor(request), seen={memory.uid: seen} if seen else {}
    )
    if acted.refused:
        return _refused_response(request, memory, acted.refused[0][1])
    back, tab = _review_url(request), _parse_tab(request.POST.get("tab", ""))
    context = {"memory": memory, "outcome": label, "acted": acted, "tab": tab, "back": back}
    if not request.htmx:
        show_success(request, "review/page.html#undo", context)
        return redirect(back)
    context["more"] = _next_card(request)
    return render(request, "review/page.html#done", context | decision_rights(request))


@require_POST
@require(may_review)
def review_undo(request: HtmxHttpRequest) -> HttpResponse:
    """Undo an action on ``uid``; ``undo``: the id of the action, its first and last journal entry."""
    action_id, first, last = _parse_undo(request.POST.get("undo", ""))
    memory = filters.get_visible_memory(request, request.POST.get("uid", ""))
    undone = bulk_actions.undo_own_action(request, action_id, first, last)
    if undone.refused:
        return _refused_response(request, memory, undone.refused[0][1])
    if request.htmx:
        return _card_response(request, memory.uid, _parse_tab(request.POST.get("tab", "")))
    messages.success(request, "Undone.")
    return redirect(_review_url(request))


@require_POST
@require(may_review)
def review_mark_seen(request: HttpRequest) -> HttpResponse:
    """Mark memories as seen ``until`` a datetime (ISO 8601); empty resets it to never."""
    text = request.POST.get("until", "")
    until = parse_aware_datetime(text)
    if text and (until is None or until > timezone.now()):
        raise BadRequest("until must be a time in the past")
    before = last_reviewed_at(request)
    Profile.objects.update_or_create(user_id=request.user.pk, defaults={"looked_at": until})  # type: ignore[misc]
    if request.POST.get("back"):
        messages.success(request, "Undone.")
    else:
        context = {"before": before, "back": _review_url(request)}
        show_success(request, "review/page.html#looked", context)
    return redirect(_review_url(request))


def _tab_context(request: HttpRequest, tab: str, project: str, counted: Mapping[str, int]) -> dict[str, Any]:
    """Return the content of a tab; near-duplicates are loaded later, unless requested with ``look``."""
    if tab == CONTRADICTIONS:
        return _contradictions_context(request, project)
    if tab == DUPLICATES:
        return _duplicates_context(request, project) if "look" in request.GET else {}
    if tab == WAITING:
        return _waiting_context(request, project, counted[tab])
    return _cards_context(request, tab, project, counted[tab])


def _waiting_context(request: HttpRequest, project: str, count: int) -> dict[str, Any]:
    """Return a page of memories that wait for approval, whole: a person must read what they approve."""
    places, numbers = numbered_page(request, range(count), PAGE_SIZE)
    found = waiting_memories(request_clearance(request), project)
    cards = build_cards(found[places.start : places.start + PAGE_SIZE], whole=True)
    for card in cards:
        if card.level == Sensitivity.SECRET:
            record_reveal(request, card.memory, "review")
    return {"cards": cards, **numbers, "may": bulk_actions.allowed_actions(request)}


def _cards_context(request: HttpRequest, tab: str, project: str, count: int) -> dict[str, Any]:
    live = live_memories(request_clearance(request), project)
    found = select_queue(live, tab, current_reviewer(request))
    places, numbers = numbered_page(request, range(count), PAGE_SIZE)
    uid = request.GET.get("at", "")
    first = _load_cards(request, found.filter(uid=uid)) if uid else []
    rest = found.exclude(pk=first[0].memory.pk) if first else found
    cards = first + _load_cards(request, rest[places.start : places.start + PAGE_SIZE - len(first)])
    missing = filters.get_visible_memory(request, uid) if uid and not first else None
    return {"cards": cards, **numbers, "missing": missing}


def _load_cards(request: HttpRequest, memories: MemoryQuerySet, whole: bool = False) -> list[ReviewCard]:
    """Load cards, and journal the reveal of secrets: a card shows the content."""
    cards = build_cards(memories, whole)
    reveal_secrets(request, [card.memory for card in cards], "review")
    return cards


def _duplicates_context(request: HttpRequest, project: str) -> dict[str, Any]:
    clearance = request_clearance(request)
    found = Comparison(request, project).clusters()
    clusters = presenters.build_first_cards(found, clearance, MAX_CLUSTERS)
    for cluster in clusters:
        reveal_secrets(request, cluster.everyone, "review")
    return {"found": found, "clusters": clusters, "more": len(found.near) - len(clusters)}


def _contradictions_context(request: HttpRequest, project: str) -> dict[str, Any]:
    survey = contradictions.find_contradictions(request_clearance(request), project=project)
    return {
        "groups": contradiction_cards(request, survey.open[:PAGE_SIZE]),
        "more": len(survey.open) - PAGE_SIZE,
        "left": len(survey.open),
    }


def _card_response(request: HttpRequest, uid: str, tab: str, is_whole: bool = False) -> HttpResponse:
    """Return the card of a live memory, whether it is in the queue or not; 404 if it is not visible."""
    live = live_memories(request_clearance(request))
    cards = _load_cards(request, live.filter(uid=uid), is_whole)
    if not cards:
        raise Http404
    return _render_card(request, tab, card=cards[0], is_whole=is_whole)


def _render_card(request: HttpRequest, tab: str, status: int = 200, **context: Any) -> HttpResponse:
    context |= {"tab": tab, "back": tab_url(tab), "is_fresh": True}
    return render(request, "review/page.html#card", context | decision_rights(request), status=status)


def _next_card(request: HttpRequest) -> ReviewCard | None:
    """Return the first card of the queue that is not on the page yet."""
    tab, project = _parse_tab(request.POST.get("tab", "")), request.POST.get("project", "")
    shown = request.POST.getlist("card")[: 4 * PAGE_SIZE]
    live = live_memories(request_clearance(request), project).exclude(uid__in=shown)
    queue = select_queue(live, tab, current_reviewer(request))
    return next(iter(_load_cards(request, queue[:1])), None)


def _refused_response(request: HtmxHttpRequest, memory: Memory, refusal: str) -> HttpResponse:
    """Return the current card with the reason of the refusal, or a message without htmx."""
    text = f"Nothing was changed: {refusal}."
    if not request.htmx:
        messages.error(request, text)
        return redirect(_review_url(request))
    tab = _parse_tab(request.POST.get("tab", ""))
    live = live_memories(request_clearance(request)).filter(pk=memory.pk)
    card = next(iter(build_cards(live)), None)
    return _render_card(request, tab, 422, card=card, memory=memory, refusal=text)


def _valid_filter(request: HttpRequest) -> ReviewFilter:
    form = ReviewFilter(request.GET)
    if not form.is_valid():
        raise BadRequest("tab or project cannot be used")
    return form


def _parse_tab(name: str) -> str:
    return name if name in REASONS else NEW


def _parse_undo(text: str) -> tuple[str, int, int]:
    uid, _, numbers = text.partition(" ")
    first, _, last = numbers.partition(" ")
    entries = bulk_actions.parse_journal_number(first), bulk_actions.parse_journal_number(last)
    if not all(entries):
        raise BadRequest("undo must be the id of an action and the numbers of its journal rows")
    return uid, *entries


def _review_url(request: HttpRequest) -> str:
    return return_url(request, reverse("review"), reverse("review"))
