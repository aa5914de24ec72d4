"""Bulk actions in the browser: the selection of memories, permissions, messages and the two views.

A selection is the ticked memories, or all that match the filters of a list. An action on more memories than
one request may change is a maintenance run with one undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Subquery
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import Resolver404, ResolverMatch, resolve, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from pydantic import BaseModel, ConfigDict

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Actor, Clearance
from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance, user_clearance
from memoryhub.accounts.permissions import CHANGE_MEMORY, DELETE_MEMORY
from memoryhub.core.text import count_with_verb, format_count
from memoryhub.maintenance import runs
from memoryhub.maintenance.operations.base import (
    UNCHANGED,
    Change,
    Operation,
    Pace,
    PagePlan,
    Refusals,
    Step,
    steps_by_page,
)
from memoryhub.memories import BulkResult, Forbidden, StoreError, undo_bulk_action
from memoryhub.memories.bulk_actions import (
    MAX_MEMORIES,
    UNDO_OPERATIONS,
    apply_to_chunk,
    bulk_action_kind,
    prepare_action,
)
from memoryhub.memories.undo import CHUNK_SIZE, Undo
from memoryhub.models import JournalEntry, MaintenanceRun, Memory
from memoryhub.models.querysets import MemoryQuerySet, live_memories
from memoryhub.web.base.forms import TimelineFilter, parse_aware_datetime, parse_whole_number
from memoryhub.web.base.requests import narrow_to_project, return_url, show_success
from memoryhub.web.memories import filters
from memoryhub.web.memories.filters import MemoryListFilter

# Any one of these permissions allows an action and its undo.
PERMISSIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("approve", "demote", "demote_and_approve", "promote", "expire"), (CHANGE_MEMORY,)),
    **dict.fromkeys(("pin", "unpin", "useful", "not_useful", "tag", "untag", "set"), (CHANGE_MEMORY,)),
    "still_true": (CHANGE_MEMORY,),
    "trash": (DELETE_MEMORY,),
    "restore": (DELETE_MEMORY, CHANGE_MEMORY),
    "accept": (CHANGE_MEMORY,),
    "discard": (DELETE_MEMORY,),
}

ListQuery = Callable[[QueryDict, ResolverMatch, Clearance], MemoryQuerySet]


class TooManySelected(StoreError):
    """More memories match than one request may change."""


def matching_memories(address: str, clearance: Clearance) -> MemoryQuerySet:
    """Return all visible memories on all pages of the list at a URL.

    Memories stored after the parameter ``as_of`` (ISO 8601) of the URL are not included: the person has not
    seen them. Raises StoreError if the URL is not of a list, or if its filters are invalid.
    """
    try:
        parts = urlsplit(address)
        match = resolve(parts.path)
        select = LIST_QUERIES[match.url_name or ""]
    except (ValueError, Resolver404, KeyError):
        raise StoreError(
            "this list cannot be selected as a whole; select memories one by one", "list"
        ) from None
    query = QueryDict(parts.query)
    memories = select(query, match, clearance)
    if shown_at := parse_aware_datetime(query.get("as_of", "")):
        memories = memories.exclude(created_at__gt=shown_at).exclude(imported_at__gt=shown_at)
    return memories


def select_all_matching(address: str, clearance: Clearance) -> list[str]:
    """Return the ids of :func:`matching_memories`; raise :class:`TooManySelected` above ``MAX_MEMORIES``."""
    memories = matching_memories(address, clearance).order_by("-pk")
    uids = list(memories.values_list("uid", flat=True)[: MAX_MEMORIES + 1])
    if len(uids) > MAX_MEMORIES:
        raise TooManySelected(
            f"more than {MAX_MEMORIES} match, and this cannot be undone; narrow the filters first", "every"
        )
    return uids


def _memory_list(query: QueryDict, match: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = MemoryListFilter(query)
    _require_valid(form.is_valid() and not form.moment())
    return form.matching(clearance)


def ended_memories(clearance: Clearance, tab: str, project: str) -> MemoryQuerySet:
    """Return the memories on a tab of the trash: expired ones, or those that were deleted."""
    visible = Memory.objects.visible_to(narrow_to_project(clearance, project))
    return visible.expired() if tab == "expired" else visible.trashed()


def _trash_list(query: QueryDict, match: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    return ended_memories(clearance, query.get("tab", ""), query.get("project", ""))


def _timeline_list(query: QueryDict, match: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = TimelineFilter(query)
    _require_valid(form.is_valid())
    return form.wanted().select(clearance)


def _session_list(query: QueryDict, match: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    session = live_memories(clearance).in_session(match.kwargs["session_id"])
    return session.filter(project=query["project"]) if "project" in query else session


def _require_valid(is_valid: bool) -> None:
    if not is_valid:
        raise StoreError("the filters of this list cannot be used; correct them first", "list")


LIST_QUERIES: dict[str, ListQuery] = {
    "memories": _memory_list,
    "search": _memory_list,  # the old address, in runs that wait and pages that are open
    "trash": _trash_list,
    "timeline-entries": _timeline_list,
    "session": _session_list,
}


# Lists with selections, by the name of their URL; the others are lists of memories.
LIST_NAMES = {"trash": "Trash", "timeline-entries": "Timeline", "session": "Session"}


def list_page(address: str) -> dict[str, str]:
    """Return the link to a list, now with the memories that were stored later; empty if it is none."""
    parts = urlsplit(address)
    query = QueryDict(parts.query, mutable=True)
    query.pop("as_of", None)
    try:
        name = resolve(parts.path).url_name or ""
    except Resolver404:
        return {}
    href = f"{parts.path}?{query.urlencode()}".rstrip("?")
    return {"back_url": href, "back_name": LIST_NAMES.get(name, "Memories")}


@dataclass(frozen=True)
class Selection:
    """``seen``: the ``updated_at`` of each ticked memory as the page showed it; empty for whole lists."""

    uids: list[str]
    seen: Mapping[str, datetime]


def parse_ticked(values: Iterable[str]) -> Selection:
    """Parse the values of checkboxes: an id, or an id, a space and the ``updated_at`` that was shown.

    With an invalid datetime, the whole value becomes an id that no memory has: the action must not apply to
    a version that was not shown.
    """
    uids, seen = [], {}
    for value in values:
        uid, _, moment = value.partition(" ")
        read_at = parse_aware_datetime(moment)
        uids.append(uid if read_at else value)
        if read_at:
            seen[uid] = read_at
    return Selection(uids, seen)


def parse_selection(form: QueryDict, clearance: Clearance) -> Selection:
    """Return the ticked ``uid``s, or with ``every`` all memories of the URL ``list``."""
    if "every" in form:
        return Selection(select_all_matching(form.get("list", ""), clearance), {})
    return parse_ticked(form.getlist("uid"))


SETTABLE_FIELDS = ("importance", "sensitivity", "category", "project", "type", "scope")
_MAX_LISTED = 5  # memories named in a message about unchanged ones
_MAX_TITLE_CHARS = 80
_DONE_TEXTS = {
    "approve": "approved",
    "demote": "demoted",
    "demote_and_approve": "demoted",
    "promote": "promoted",
    "trash": "moved to the trash",
    "restore": "restored",
    "expire": "expired",
    "pin": "pinned",
    "unpin": "unpinned",
    "useful": "rated useful",
    "not_useful": "rated not useful",
    "still_true": "marked as still true",
    "tag": "tagged",
    "untag": "untagged",
    "set": "changed",
    "accept": "approved: agents see it from now on",
    "discard": "discarded",
}
_UNCHANGED_TEXTS = {
    "trash": "already in the trash",
    "restore": "neither in the trash nor expired",
    "expire": "already expired",
    "pin": "already pinned",
    "unpin": "not pinned",
    "useful": "already rated useful",
    "not_useful": "already rated not useful",
    "still_true": "not marked as outdated",
    "tag": "already tagged",
    "untag": "already without this tag",
}


def is_allowed(request: HttpRequest, kind: str) -> bool:
    return any(request.user.has_perm(permission) for permission in PERMISSIONS.get(kind, ()))


def allowed_actions(request: HttpRequest) -> dict[str, bool]:
    """Return for each kind of action whether this person may do it, for templates."""
    return {kind: is_allowed(request, kind) for kind in PERMISSIONS}


def undo_own_action(request: HttpRequest, uid: str, first: int, last: int) -> BulkResult:
    """Undo an action of this person, who must still have the permission; 404 for any other action."""
    # The full clearance includes memories that the action moved to a level whose switch is off.
    actor = request_actor(request, full_clearance(request))
    if not is_allowed(request, bulk_action_kind(uid, actor, first, last)):
        raise PermissionDenied
    return undo_bulk_action(uid, actor, first, last)


def parse_journal_number(text: str) -> int:
    """Parse the number of a journal entry; 0 if the text is not one."""
    return parse_whole_number(text) or 0


def parse_action(form: QueryDict, clearance: Clearance) -> tuple[str, dict[str, Any]]:
    """Return the kind of action and its values; ``set-<field>`` sets that field only.

    Raises StoreError for a level above ``clearance``, the full clearance of the person.
    """
    kind, _, name = form.get("act", "").partition("-")
    if kind in ("tag", "untag"):
        return kind, {"tag": form.get("tag", "")}
    if kind != "set":
        return kind, {}
    if name == "project" and not form.get("project", "").strip():
        raise StoreError("enter the project to move them to", "project")
    names = [name] if name in SETTABLE_FIELDS else [one for one in SETTABLE_FIELDS if form.get(one)]
    values = {one: form.get(one, "") for one in names}
    level = values.get("sensitivity")
    if level in LEVELS and level not in clearance.levels_in_any_project():
        raise StoreError(f"you cannot see {level} memories; choose a lower level", "sensitivity")
    return kind, values


def add_result_messages(request: HttpRequest, acted: BulkResult, back: str) -> None:
    """Add messages: the changes with an undo button, the unchanged memories, and the refused ones."""
    if acted.done:
        is_discarded = acted.kind == "discard"  # no one sees a discarded memory
        hidden = "" if is_discarded else filters.hidden_notice(request, acted.done)
        context = {
            "acted": acted,
            "summary": f"{format_count(len(acted.done), 'memory')} {_DONE_TEXTS[acted.kind]}",
            "one": acted.done[0] if len(acted.done) == 1 and not is_discarded else None,
            "back": back,
            "hidden": hidden,
        }
        show_success(request, "acts/done.html", context)
    if acted.same:
        words = _UNCHANGED_TEXTS.get(acted.kind, "unchanged")
        messages.info(request, f"{format_count(len(acted.same), 'memory')} {words}.")
    if acted.outdated:
        messages.warning(request, changed_since_message(acted, request))
    if len(acted.refused) > len(acted.outdated):
        messages.warning(request, refusals_message(acted, request))


def refusals_message(acted: BulkResult, request: HttpRequest) -> SafeString:
    """List the first refused memories, with titles if visible, and count the rest."""
    refused = [(uid, reason) for uid, reason in acted.refused if uid not in acted.outdated]
    shown = refused[:_MAX_LISTED]
    titles = filters.visible_titles(request, [uid for uid, _ in shown])
    items = [
        format_html("<bdi>{}</bdi>: {}", titles.get(uid, uid)[:_MAX_TITLE_CHARS], reason)
        for uid, reason in shown
    ]
    return _list_message(
        f"{format_count(len(refused), 'memory').capitalize()} left unchanged:", items, len(refused)
    )


def changed_since_message(acted: BulkResult, request: HttpRequest) -> SafeString:
    """List the first memories that changed after the list was shown, as links, and count the rest."""
    shown = acted.outdated[:_MAX_LISTED]
    titles = filters.visible_titles(request, shown)
    link = '<a href="{}"><bdi>{}</bdi></a>'
    items = [
        format_html(link, reverse("memory", args=[uid]), titles.get(uid, uid)[:_MAX_TITLE_CHARS])
        for uid in shown
    ]
    count = len(acted.outdated)
    return _list_message(changed_since_text(count, "memory"), items, count)


def changed_since_text(count: int, noun: str) -> str:
    """Return "2 memories were changed since you opened this list and were left as they are."."""
    changed = count_with_verb(count, noun, "was", "were")
    left = "was left as it is" if count == 1 else "were left as they are"
    return f"{changed} changed since you opened this list and {left}."


def warn_changed_since(request: HttpRequest, count: int, noun: str) -> None:
    if count:
        messages.warning(request, changed_since_text(count, noun))


def _list_message(head: str, items: list[SafeString], total: int) -> SafeString:
    """Render a message with a list of items and the number of omitted ones."""
    more = [f"and {total - len(items)} more"] if total > len(items) else []
    rows = format_html_join("", "<li>{}</li>", ((item,) for item in [*items, *more]))
    return format_html("{}<ul>{}</ul>", head, rows)


@require_POST
def bulk_action(request: HttpRequest) -> HttpResponse:
    """Apply the action ``act`` to the memories ``uid``, and redirect to ``next`` with an undo message.

    A ``uid`` may contain the version that was shown (:func:`parse_ticked`): a memory that has
    changed since is skipped. With ``every``, the action applies to all pages of the list at the URL ``list``:
    if these are too many for a request, a page asks first and a run makes the changes. 404 for a single
    memory that is not visible.
    """
    back = return_url(request)
    try:
        kind, values = parse_action(request.POST, full_clearance(request))
        if kind in PERMISSIONS and not is_allowed(request, kind):
            raise PermissionDenied
        try:
            selection = parse_selection(request.POST, request_clearance(request))
        except TooManySelected:
            return _change_in_background(request, kind, values, back)
        if not selection.uids:
            raise memories.StoreError("nothing is selected; select at least one memory", "uid")
        acted = memories.apply_bulk_action(
            kind, selection.uids, request_actor(request), seen=selection.seen, **values
        )
    except memories.StoreError as refusal:
        messages.error(request, f"Nothing was changed: {refusal.message}.")
        return redirect(back)
    if len(selection.uids) == 1 and acted.refused:
        filters.get_visible_memory(request, selection.uids[0])
    add_result_messages(request, acted, back)
    return redirect(back)


def _change_in_background(
    request: HttpRequest, kind: str, values: Mapping[str, Any], back: str
) -> HttpResponse:
    """Ask with the number of memories, or start the run if that many were confirmed."""
    address, actor = request.POST.get("list", ""), request_actor(request)
    prepare_action(kind, actor, values)
    count = matching_memories(address, actor.clearance).count()
    if count <= (parse_whole_number(request.POST.get("confirmed", "")) or 0):
        return redirect("run", start_bulk_run(kind, values, address, actor).uid)
    fields = [
        (name, request.POST[name])
        for name in ("act", "every", "list", "next", "tag", *SETTABLE_FIELDS)
        if name in request.POST
    ]
    verb, *rest = [*request.POST["act"].replace("_", "-").split("-"), *map(str, values.values())]
    label = " ".join([verb.capitalize(), *rest, "for"] if rest else [verb.capitalize()])
    context = {"what": f"{label} {count:,} memories", "count": count, "fields": fields, "back": back}
    return render(request, "acts/confirm.html", context)


@require_POST
def bulk_action_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """Undo an action of this person; ``first`` and ``last`` are the numbers of its journal entries."""
    first, last = (parse_journal_number(request.POST.get(name, "")) for name in ("first", "last"))
    undone = undo_own_action(request, uid, first, last)
    if undone.done:
        messages.success(request, f"Undone for {format_count(len(undone.done), 'memory')}.")
    now = timezone.now()
    if expired := sum(not one.deleted_at and one.is_expired(now) for one in undone.done):
        has = "has" if expired == 1 else "have"
        words = 'Of these, {} {} expired: <a href="{}?tab=expired">see the trash</a>.'
        messages.warning(request, format_html(words, expired, has, reverse("trash")))
    if undone.refused:
        messages.warning(request, refusals_message(undone, request))
    return redirect(return_url(request))


OPERATION_NAME = "bulk_action"


class BulkActionParams(BaseModel):
    """``address``: the URL of the list, whose filters select the memories when the run reads them."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    values: dict[str, Any]
    address: str


class BulkActionOperation(Operation[BulkActionParams]):
    name = OPERATION_NAME
    label = "Bulk action"
    help = "Changes all memories that match the filters of a list. Undo reverts all of its changes."
    inverse_records = UNDO_OPERATIONS
    Params = BulkActionParams

    def title(self, params: Mapping[str, Any]) -> str:
        kind = params.get("kind", "")
        return f"{self.label}: {kind.replace('_', ' ')}" if kind else self.label

    def total(self, params: BulkActionParams, actor: Actor, now: datetime) -> int:
        return matching_memories(params.address, _current_rights(params, actor).clearance).count()

    def steps(
        self, params: BulkActionParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        actor = _current_rights(params, actor)
        rows = matching_memories(params.address, actor.clearance)

        def plan(page: list[Any]) -> PagePlan:
            def commit(run_uid: str) -> tuple[Change, ...]:
                person = _current_rights(params, actor)  # which may have changed since the last step
                rows = matching_memories(params.address, person.clearance)
                return _apply(params, rows.filter(pk__in=[pk for pk, _ in page]), person, run_uid, now)

            return [Change("change", uid) for _, uid in page], commit

        pace = Pace(CHUNK_SIZE, max_size=4 * CHUNK_SIZE, min_size=8)
        yield from steps_by_page(rows, ("pk", "uid"), plan, position or {}, pace)

    def undo(
        self, run_uid: str, actor: Actor, now: datetime | None = None, *, refused: Refusals | None = None
    ) -> Iterator[int]:
        run = MaintenanceRun.objects.get(uid=run_uid)
        actor = replace(actor, clearance=_with_new_level(actor.clearance, run.params["values"]))
        start = (
            JournalEntry.objects.filter(object_type="run", object_id=run_uid).order_by("seq").values("seq")
        )
        since = JournalEntry.objects.filter(seq__gt=Subquery(start[:1]), object_type="memory")
        since = since.exclude(detail__has_key="imported")
        # An undo that was stopped or killed has already restored some; they did not change "since".
        restored = since.filter(detail__undoes=run_uid).values("object_id")
        rows = since.filter(actor=run.actor, detail__act=run_uid).exclude(object_id__in=restored)
        # The rows of a memory are undone in one transaction: an undo that continues skips this memory.
        by_memory: dict[str, list[int]] = {}
        for uid, seq in rows.order_by("-seq").values_list("object_id", "seq"):
            by_memory.setdefault(uid, []).append(seq)
        for some in Pace(20, min_size=4).batches(list(by_memory.values())):
            seqs = chain.from_iterable(some)
            batch = list(JournalEntry.objects.filter(seq__in=seqs).order_by("-seq"))
            undo = Undo(
                run_uid, actor, now or timezone.now(), batch, refused=[] if refused is None else refused
            )
            yield from undo.steps(lambda units: [units])


BULK_ACTION = BulkActionOperation()


def start_bulk_run(kind: str, values: Mapping[str, Any], address: str, actor: Actor) -> MaintenanceRun:
    """Queue an action on all memories that a list shows the actor, except those stored after now.

    StoreError names an invalid value or list.
    """
    prepare_action(kind, actor, values)
    matching_memories(address, actor.clearance)
    path, _, query = address.partition("?")
    parts = QueryDict(query, mutable=True)
    parts.setdefault("as_of", timezone.now().isoformat())
    params = {"kind": kind, "values": dict(values), "address": f"{path}?{parts.urlencode()}"}
    return runs.enqueue(BULK_ACTION, params, actor, may_wait=True)


def _apply(
    params: BulkActionParams, memories: MemoryQuerySet, actor: Actor, run_uid: str, now: datetime
) -> tuple[Change, ...]:
    uids = list(memories.order_by("pk").values_list("uid", flat=True))
    result = BulkResult(run_uid, params.kind)
    apply_to_chunk(prepare_action(params.kind, actor, params.values, act=run_uid, now=now), uids, result)
    left = [Change(UNCHANGED, uid, reason=reason) for uid, reason in result.refused]
    return (*(Change("change", memory.uid) for memory in result.done), *left)


def _current_rights(params: BulkActionParams, actor: Actor) -> Actor:
    """Return the actor without what the person who started the run may no longer see or do."""
    person = User.objects.filter(username=actor.clearance.owner, is_active=True).first()
    if person is None or not any(person.has_perm(name) for name in PERMISSIONS[params.kind]):
        raise Forbidden("the person who started this run no longer has the permission for it")
    return replace(actor, clearance=actor.clearance.within(user_clearance(person)))


def _with_new_level(clearance: Clearance, values: Mapping[str, Any]) -> Clearance:
    """Include the level that the action set: its undo reads the memories that the action moved there."""
    level = {values["sensitivity"]} if "sensitivity" in values else set()
    grants = tuple((project, levels | level) for project, levels in clearance.grants)
    return replace(clearance, levels=clearance.levels | level, grants=grants)
