"""Pages of near-duplicates: compare clusters, merge or dismiss them, undo."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import trigger_client_event
from pydantic import ValidationError

from memoryhub import memories
from memoryhub.access import policy
from memoryhub.accounts.clearance import request_actor, request_clearance, reveal_secrets
from memoryhub.accounts.permissions import CHANGE_MEMORY, DELETE_MEMORY
from memoryhub.core.form_fields import to_sentence
from memoryhub.core.text import format_count, normalize_newlines
from memoryhub.duplicates import MAX_MEMBERS, Cluster, DuplicateClusters
from memoryhub.injection.effects import preview_change
from memoryhub.memories.schemas import MAX_CONTENT
from memoryhub.models import Memory
from memoryhub.models.querysets import live_memories
from memoryhub.web.base.forms import parse_aware_datetime
from memoryhub.web.base.requests import (
    HtmxHttpRequest,
    numbered_page,
    page_or_fragment,
    return_url,
    show_success,
    wants_fragment,
)
from memoryhub.web.duplicates.presenters import (
    MIN_SURE_SIMILARITY,
    CardInput,
    ClusterCard,
    Comparison,
    DuplicatesFilter,
    MergePlan,
    build_card,
    build_cards,
    plan_merges,
)
from memoryhub.web.injections import effect_context, render_panel
from memoryhub.web.memories import filters

PAGE_SIZE, MAX_MEMBERS_ON_PAGE = 5, 25  # clusters, and memories in them unless a single one has more
MAX_MERGED_CLUSTERS = 25  # of one "Merge all"
_MERGE_PERMISSIONS = (CHANGE_MEMORY, DELETE_MEMORY)
_DISMISS_PERMISSIONS = (CHANGE_MEMORY,)
_DECISIONS = ("merge", "text", "apart")
_PREVIEWS = {"effect": "merge", "text-effect": "text"}  # the decisions whose effect is shown instead
_MAX_TITLE_CHARS = 80  # in a message
_NO_VERSION = datetime.min.replace(tzinfo=UTC)  # matches no version of a memory


@require_safe
def duplicates_page(request: HtmxHttpRequest) -> HttpResponse:
    """List the clusters; ``GET`` takes ``project``, ``category``, ``similarity`` and ``page``.

    Comparing many memories takes a while. Then a later request for ``#clusters`` does it, or ``look=1``.
    """
    form = DuplicatesFilter(request.GET)
    if not form.is_valid():
        return render(request, "duplicates/page.html", {"form": form}, status=422)
    comparison = Comparison(request, form.value("project"), form.value("category"), form.min_similarity())
    parts = ("clusters", "duplicates-count")
    may_wait = "look" in request.GET or any(wants_fragment(request, part) for part in parts)
    found = comparison.known_clusters()
    if found is None and (may_wait or not comparison.is_slow()):
        found = comparison.clusters()
    if found and wants_fragment(request, "duplicates-count"):
        return render(request, "duplicates/page.html#count", {"found": found})
    sure = max(form.min_similarity() or 0, MIN_SURE_SIMILARITY)
    context = {"form": form, "found": found, "sure_similarity": f"{sure:g}"}
    if found:
        context |= _clusters_context(request, found)
    return page_or_fragment(request, "duplicates/page.html", context, target="clusters")


def _clusters_context(request: HttpRequest, found: DuplicateClusters) -> dict[str, Any]:
    pages, numbers = numbered_page(request, _split_into_pages(found.clusters), 1)
    cards = build_cards(pages[0] if pages else [], live_memories(request_clearance(request)))
    _reveal_secrets(request, cards)
    return {"clusters": cards, **numbers, **decision_rights(request)}


def _split_into_pages(clusters: list[Cluster]) -> list[list[Cluster]]:
    """Return pages of limited size: the text of each member is compared, which takes time and markup."""
    pages: list[list[Cluster]] = []
    members = MAX_MEMBERS_ON_PAGE
    for cluster in clusters:
        members += len(cluster.others) + 1
        if members > MAX_MEMBERS_ON_PAGE or len(pages[-1]) == PAGE_SIZE:
            pages.append([])
            members = len(cluster.others) + 1
        pages[-1].append(cluster)
    return pages


@require_http_methods(["GET", "HEAD", "POST"])
def duplicates_merge_all(request: HtmxHttpRequest) -> HttpResponse:
    """List the sure clusters as a dry run; a POST merges those that are still as they were shown.

    The query takes ``project``, ``category`` and ``similarity``; ``cluster``: versions of a shown
    cluster.
    """
    _require_permissions(request, _MERGE_PERMISSIONS)
    form = DuplicatesFilter(request.GET)
    if not form.is_valid():
        return render(request, "duplicates/page.html", {"form": form}, status=422)
    similarity = max(form.min_similarity() or 0, MIN_SURE_SIMILARITY)
    comparison = Comparison(request, form.value("project"), form.value("category"), similarity)
    plan = plan_merges(comparison.clusters(), live_memories(request_clearance(request)), MAX_MERGED_CLUSTERS)
    if request.method == "POST":
        return _merge_all(request, plan)
    _reveal_secrets(request, plan.cards)
    context = {"plan": plan, "similarity": f"{similarity:g}", "limit": MAX_MERGED_CLUSTERS}
    return render(request, "duplicates/merge_all.html", context)


def _merge_all(request: HtmxHttpRequest, plan: MergePlan) -> HttpResponse:
    """Merge the clusters that were shown and have not changed since; offer one Undo for all."""
    shown, merged, trashed = set(request.POST.getlist("cluster")), [], 0
    for card in plan.cards:
        if card.versions not in shown:
            continue
        seen = {memory.uid: memory.updated_at for memory in card.everyone}
        others = [member.memory.uid for member in card.members]
        try:
            merge = memories.merge_memories(card.keep.uid, others, request_actor(request), seen=seen)
        except memories.StoreError:
            continue  # changed meanwhile; counted as skipped
        merged.append(merge.uid)
        trashed += len(others)
    back = reverse("duplicates", query=request.GET)
    if merged:
        context = {"merged": merged, "trashed": trashed, "back": back}
        undo = render_to_string("duplicates/merge_all.html#undo", context, request=request)
        messages.success(request, undo)
    if skipped := len(shown) - len(merged):
        clusters = format_count(skipped, "cluster")
        messages.warning(request, f"Skipped {clusters} that changed since you opened the page.")
    return redirect(back)


@require_POST
def duplicates_cluster(request: HtmxHttpRequest) -> HttpResponse:
    """Return a card that compares the memories ``member`` with the one to ``keep``.

    Changes nothing; it is a POST because the form contains the text that the person is writing.
    """
    uids, keep = request.POST.getlist("member"), request.POST.get("keep", "")
    return _card_response(request, _card_or_404(request, uids, keep, _card_input(request)))


@require_POST
def duplicates_decide(request: HtmxHttpRequest) -> HttpResponse:
    """Apply a decision: ``do`` is merge, text (merge with the text ``content``) or apart (not duplicates).

    ``uid``: the memories merged into ``keep``; ``member``: all memories of the card; ``seen``: the version of
    each that was shown. ``effect`` and ``text-effect`` show the effect of a merge instead of making it.
    """
    wanted, keep = request.POST.get("do", ""), request.POST.get("keep", "")
    decision = _PREVIEWS.get(wanted, wanted)
    _require_permissions(request, _DISMISS_PERMISSIONS if decision == "apart" else _MERGE_PERMISSIONS)
    uids = request.POST.getlist("uid")
    if decision == "apart":  # applies to the whole card: a tick only selects for merging
        uids = request.POST.getlist("member") or uids
    chosen = list(dict.fromkeys([keep, *uids]))[:MAX_MEMBERS]
    if error := _input_error(decision, chosen):
        return _refused_response(request, error)
    content = normalize_newlines(request.POST.get("content", "")) if decision == "text" else ""
    if decision == "text" and not content.strip():
        return _refused_response(request, "the text is empty; write one, or merge without a text of your own")
    try:
        if wanted in _PREVIEWS:
            return _effect_response(request, keep, chosen[1:], content)
        if decision == "apart":
            undo = {"apart": memories.dismiss_duplicates(chosen, request_actor(request))}
        else:
            undo = {"merge": _merge(request, keep, chosen[1:], content)}
    except memories.StoreError as refusal:
        return _refused_response(request, refusal.message)
    except ValidationError:
        return _refused_response(
            request, f"the text is longer than {MAX_CONTENT} characters, or contains a NUL character"
        )
    return _done_response(request, undo, chosen)


@require_POST
def duplicates_undo(request: HtmxHttpRequest) -> HttpResponse:
    """Undo the merge ``merge``, all merges ``merges``, or the dismissal ``apart``."""
    merge, apart = request.POST.get("merge", ""), request.POST.get("apart", "")
    merges = request.POST.get("merges", "").split()[:MAX_MERGED_CLUSTERS]
    _require_permissions(request, _MERGE_PERMISSIONS if merge or merges else _DISMISS_PERMISSIONS)
    if merges:
        return _undo_all(request, merges)
    try:
        if merge:
            memories.undo_merge(merge, request_actor(request))
        else:
            memories.undo_dismissal(apart, request_actor(request))
    except memories.NotFound:
        raise
    except memories.StoreError as refusal:
        return _refused_response(request, refusal.message)
    if request.htmx:
        card = _card_or_404(request, request.POST.getlist("member"))
        return _announce_change(_card_response(request, card, is_fresh=True))
    messages.success(request, "Undone.")
    return redirect(_return_url(request))


def _undo_all(request: HtmxHttpRequest, merges: list[str]) -> HttpResponse:
    """Undo each merge, and report how many were changed since and stay merged."""
    undone = 0
    for uid in merges:
        try:
            memories.undo_merge(uid, request_actor(request))
        except memories.StoreError:
            continue  # counted as refused
        undone += 1
    if undone:
        messages.success(request, f"Undone: {format_count(undone, 'merge')}.")
    if refused := len(merges) - undone:
        reason = "Their memories have changed since, or are not visible to you."
        messages.error(request, f"Not undone: {format_count(refused, 'merge')}. {reason}")
    return redirect(_return_url(request))


def _effect_response(request: HtmxHttpRequest, keep: str, others: list[str], content: str) -> HttpResponse:
    """Show the effect of a merge on logged prompts. Nothing is merged."""
    effect = preview_change(request_clearance(request), lambda: _merge(request, keep, others, content))
    context = effect_context(effect, [keep, *others], "one of these memories")
    return render_panel(request, {**context, "back": _return_url(request)})


def _merge(request: HttpRequest, keep: str, others: list[str], content: str) -> str:
    versions = (version.partition(" ") for version in request.POST.getlist("seen"))
    seen = {uid: parse_aware_datetime(text) or _NO_VERSION for uid, _, text in versions}
    return memories.merge_memories(keep, others, request_actor(request), content=content, seen=seen).uid


def _input_error(decision: str | None, chosen: list[str]) -> str:
    """Return what is wrong with the decision; empty if nothing is."""
    if decision not in _DECISIONS:
        return "choose to merge, to merge with a text of your own, or to say that they are not duplicates"
    if len(chosen) < 2:
        return "choose the memories" if decision == "apart" else "select at least one memory to merge"
    return ""


def _card_input(request: HttpRequest) -> CardInput:
    ticked, warned = (frozenset(request.POST.getlist(name)) for name in ("uid", "warned"))
    return CardInput(
        ticked, warned, normalize_newlines(request.POST.get("content", "")), request.POST.get("begun", "")
    )


def _card_or_404(
    request: HttpRequest, uids: list[str], keep: str = "", entered: CardInput | None = None
) -> ClusterCard:
    """Return a card of these memories; 404 unless at least two are visible."""
    memories = live_memories(request_clearance(request)).filter(uid__in=uids[:MAX_MEMBERS])
    card = build_card(memories, keep, entered)
    if card is None:
        raise Http404
    return card


def _card_response(request: HttpRequest, card: ClusterCard, status: int = 200, **more: Any) -> HttpResponse:
    _reveal_secrets(request, [card])
    context = {"cluster": card, **decision_rights(request), **more}
    return render(request, "duplicates/page.html#cluster", context, status=status)


def _reveal_secrets(request: HttpRequest, cards: list[ClusterCard]) -> None:
    for card in cards:
        reveal_secrets(request, card.everyone, "duplicates")


def decision_rights(request: HttpRequest) -> dict[str, bool]:
    """Return which decisions this person may make, for templates."""
    return {
        "may_merge": request.user.has_perms(_MERGE_PERMISSIONS),
        "may_dismiss": request.user.has_perms(_DISMISS_PERMISSIONS),
    }


def _require_permissions(request: HttpRequest, permissions: tuple[str, ...]) -> None:
    if not request.user.has_perms(permissions):
        raise PermissionDenied


def _done_response(request: HtmxHttpRequest, undo: dict[str, str], members: list[str]) -> HttpResponse:
    """Return an undo button in place of the cluster, or as a message without htmx."""
    memory = filters.get_visible_memory(request, members[0])
    card = (request.POST.getlist("member") or members)[:MAX_MEMBERS]
    context = {"undo": undo, "memory": memory, "members": members, "card": card, "back": _return_url(request)}
    if request.htmx:
        return _announce_change(render(request, "duplicates/page.html#done", context))
    show_success(request, "duplicates/page.html#undo", context)
    return redirect(_return_url(request))


def _announce_change(response: HttpResponse) -> HttpResponse:
    """Let the page count its clusters again."""
    return trigger_client_event(response, "duplicates-changed")


def _refused_response(request: HtmxHttpRequest, message: str) -> HttpResponse:
    """Return the current card with the reason of the refusal, or a message without htmx.

    A text that the person wrote is shown again, even if there is no card any more.
    """
    message = _with_titles(request, message)
    text, entered = f"Nothing was changed: {message}.", _card_input(request)
    submitted = [("Text", entered.own)] if entered.own else []
    if request.POST.get("do") in _PREVIEWS:
        return render_panel(
            request, {"effect_errors": [to_sentence(message)], "back": _return_url(request)}, 422
        )
    if not request.htmx:
        if submitted and request.POST.get("do") == "text":
            return render(request, "400.html", {"reason": text, "submitted": submitted}, status=422)
        messages.error(request, text)
        return redirect(_return_url(request))
    uids = request.POST.getlist("member") or request.POST.getlist("uid")
    memories = live_memories(request_clearance(request)).filter(uid__in=uids[:MAX_MEMBERS])
    card = build_card(memories, request.POST.get("keep", ""), entered)
    if card is None:
        context = {"refusal": text, "submitted": submitted}
        return render(request, "duplicates/page.html#refused", context, status=422)
    return _card_response(request, card, status=422, refusal=text, is_fresh=True)


def _with_titles(request: HttpRequest, message: str) -> str:
    """Replace the ids of visible memories in a message by their titles."""
    uids = {*request.POST.getlist("member"), *request.POST.getlist("uid"), request.POST.get("keep", "")}
    visible = Memory.objects.visible_to(request_clearance(request)).filter(
        uid__in=list(uids)[: 2 * MAX_MEMBERS]
    )
    for title, uid, level in visible.values_list("title", "uid", "sensitivity"):
        if title:
            name = f"“{policy.format_display_name(title, uid, level)[:_MAX_TITLE_CHARS]}”"
            message = message.replace(f"memory {uid}", name).replace(uid, name)
    return message


def _return_url(request: HttpRequest) -> str:
    return return_url(request, "/duplicates/", ("/duplicates/", "/memories/", "/review/"))
