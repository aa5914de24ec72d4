"""The visible changes of a memory: compare two versions, restore one, undo the last change.

A revision stores the values that its change replaced, with the level they had. The new value of a field is
the one that its next revision replaced, or the current one; it is shown only if it is visible too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance, reveal_if_secret
from memoryhub.accounts.permissions import CHANGE_MEMORY
from memoryhub.memories.versions import HiddenValue, Version, current_value, load_versions, walk_revisions
from memoryhub.models import Memory, Revision
from memoryhub.web.base import diffs
from memoryhub.web.base.forms import parse_aware_datetime, parse_whole_number
from memoryhub.web.base.requests import return_url
from memoryhub.web.memories import filters

# In the order in which they are shown.
FIELD_ORDER = (
    "title subtitle content abstract overview type category tags concepts aliases importance trust confidence"
    " sensitivity scope project session_id key ttl_days files_read files_modified entities superseded_by"
    " discovery_tokens pinned"
).split()
_LONG_FIELDS = {"content", "overview"}
_UNKNOWN = object()


@dataclass(frozen=True)
class FieldChange:
    """One field of one change.

    ``kind``: lines, words, list, value; or if a value is not visible: hidden (the new one), unseen (the old
    one), sealed (both).
    """

    name: str
    kind: str
    old: Any = None
    new: Any = None
    rows: list[diffs.DiffRow] = field(default_factory=list)

    @property
    def label(self) -> str:
        name = "replaced_by" if self.name == "superseded_by" else self.name
        return name.replace("_", " ").replace(" id", "").capitalize()


@dataclass(frozen=True)
class MemoryChange:
    """One change of a memory: who, when, and what it did to each field."""

    number: int
    at: datetime
    actor: str
    reason: str
    sensitivity: str
    changes: list[FieldChange]

    @property
    def names(self) -> str:
        """Return the names of the fields, capitalised."""
        return ", ".join(change.label.lower() for change in self.changes).capitalize()


def visible_changes(
    memory: Memory, clearance: Clearance, *, limit: int = 10, before: int | None = None
) -> tuple[list[MemoryChange], int | None]:
    """Return the newest visible changes, and the number where the next page starts; one query."""
    found: list[MemoryChange] = []
    for revision, after in _visible_revisions(memory, clearance):
        if before is not None and revision.number >= before:
            continue
        if len(found) == limit:
            return found, found[-1].number
        found.append(_to_memory_change(revision, after))
    return found, None


def state_at(memory: Memory, moment: datetime, clearance: Clearance) -> dict[str, Any]:
    """Return the values at ``moment`` of the fields that have changed since; None for hidden ones."""
    state: dict[str, Any] = {}
    for revision, seen in walk_revisions(memory, clearance):
        if revision.at <= moment:
            break
        state |= revision.before if seen else dict.fromkeys(revision.before)
    return state


def field_change(name: str, old: Any, new: Any) -> FieldChange:
    """Compare two values of a field by lines, words or items."""
    if isinstance(old, list) or isinstance(new, list):
        before, after = _item_texts(old), _item_texts(new)
        removed, added = [x for x in before if x not in after], [x for x in after if x not in before]
        return FieldChange(name, "list", removed, added)
    if not isinstance(old, str) or not isinstance(new, str):
        return FieldChange(name, "value", old, new)
    if name in _LONG_FIELDS or "\n" in old + new:
        return FieldChange(name, "lines", old, new, diffs.compare(old, new))
    left, right = diffs.compare_words(old, new)
    return FieldChange(name, "words", left, right)


def _visible_revisions(memory: Memory, clearance: Clearance) -> Iterator[tuple[Revision, dict[str, Any]]]:
    """Yield visible revisions, newest first, with the new values (``_UNKNOWN`` if hidden)."""
    later: dict[str, Any] = {}
    for revision, seen in walk_revisions(memory, clearance):
        if seen:
            yield (
                revision,
                {
                    name: later[name] if name in later else current_value(memory, name, clearance)
                    for name in _known_fields(revision)
                },
            )
        later |= revision.before if seen else dict.fromkeys(revision.before, _UNKNOWN)


def _to_memory_change(revision: Revision, after: dict[str, Any]) -> MemoryChange:
    changes = [
        FieldChange(name, "hidden", list_to_text(revision.before[name]))
        if after[name] is _UNKNOWN
        else field_change(name, revision.before[name], after[name])
        for name in _known_fields(revision)
    ]
    return MemoryChange(
        revision.number, revision.at, revision.actor, revision.reason, revision.sensitivity, changes
    )


def _known_fields(revision: Revision) -> list[str]:
    return [name for name in FIELD_ORDER if name in revision.before]


def list_to_text(value: Any) -> Any:
    """Join a list to one text; return other values unchanged."""
    return ", ".join(_item_texts(value)) if isinstance(value, list) else value


def _item_texts(value: Any) -> list[str]:
    return [f"{x['entity']} ({x['entity_type']})" if isinstance(x, dict) else str(x) for x in value or []]


NOW = "now"
MAX_VERSIONS = 300  # offered in a form


@dataclass(frozen=True)
class VersionChoice:
    """A version to choose; ``until`` is when it was replaced, ``number`` 0 is the current version."""

    number: int
    until: datetime | None = None
    replaced_by: str = ""

    @property
    def value(self) -> str:
        return str(self.number or NOW)

    @property
    def name(self) -> str:
        return f"version {self.number}" if self.number else NOW


@dataclass(frozen=True)
class Comparison:
    """Two versions; ``same``: the number of equal fields."""

    left: Version
    right: Version
    changes: list[FieldChange]
    same: int

    @property
    def levels(self) -> set[str]:
        """Return the levels of all values that are shown."""
        names = [change.name for change in self.changes]
        sides = (self.left, self.right)
        return {
            side.levels[n] for side in sides for n in names if not isinstance(side.values[n], HiddenValue)
        }


def version_choices(memory: Memory, clearance: Clearance) -> list[VersionChoice]:
    """Return the current version and the newest visible :data:`MAX_VERSIONS`; one query."""
    seen = (row for row, is_visible in walk_revisions(memory, clearance) if is_visible)
    return [
        VersionChoice(0),
        *(VersionChoice(row.number, row.at, row.actor) for row in islice(seen, MAX_VERSIONS)),
    ]


def compare_versions(memory: Memory, left: int, right: int, clearance: Clearance) -> Comparison | None:
    """Compare two versions field by field; None if one does not exist or is not visible."""
    found = load_versions(memory, {left, right}, clearance)
    if left not in found or right not in found:
        return None
    one, other = found[left], found[right]
    changed = [name for name in FIELD_ORDER if one.values[name] != other.values[name]]
    changes = [_field_change(name, one.values[name], other.values[name]) for name in changed]
    return Comparison(one, other, changes, len(FIELD_ORDER) - len(changed))


def _field_change(name: str, old: Any, new: Any) -> FieldChange:
    hidden = isinstance(old, HiddenValue), isinstance(new, HiddenValue)
    if hidden == (True, True):
        return FieldChange(name, "sealed")
    if hidden == (True, False):
        return FieldChange(name, "unseen", new=list_to_text(new))
    if hidden == (False, True):
        return FieldChange(name, "hidden", old=list_to_text(old))
    return field_change(name, old, new)


@require_safe
def memory_compare(request: HttpRequest, uid: str) -> HttpResponse:
    """Compare the versions ``from`` and ``to``, numbers or ``now``; by default show the last change."""
    memory = filters.get_visible_memory(request, uid)
    clearance = request_clearance(request)
    offered = version_choices(memory, clearance)
    context = {"memory": memory, "offered": offered, "more": len(offered) > MAX_VERSIONS}
    if len(offered) == 1 and not {"from", "to"} & request.GET.keys():
        return render(request, "memory/compare.html", context)
    left = _parse_side(request.GET.get("from"), offered[min(1, len(offered) - 1)].number)
    right = _parse_side(request.GET.get("to"), 0)
    compared = compare_versions(memory, left, right, clearance)
    if compared is None:
        raise Http404
    reveal_if_secret(request, memory, "compare", compared.levels)
    sides = [
        VersionChoice(side.number, side.until, side.replaced_by) for side in (compared.left, compared.right)
    ]
    context |= {
        "compared": compared,
        "sides": sides,
        "left": sides[0].name,
        "right": sides[1].name,
        "offered": _add_missing_choices(offered, sides),
    }
    return render(request, "memory/compare.html", context)


def _parse_side(text: str | None, default: int) -> int:
    if text is None:
        return default
    return 0 if text == NOW else _parse_version(text)


def _parse_version(text: str) -> int:
    number = parse_whole_number(text, 9)
    if not number:
        raise BadRequest("that is not the number of a version")
    return number


def _add_missing_choices(offered: list[VersionChoice], chosen: list[VersionChoice]) -> list[VersionChoice]:
    """Add the shown versions that are older than all offered ones."""
    numbers = {choice.number for choice in offered}
    older = {choice.number: choice for choice in chosen if choice.number not in numbers}
    return [*offered, *sorted(older.values(), key=lambda choice: -choice.number)]


@require_POST
@permission_required(CHANGE_MEMORY, raise_exception=True)
def version_restore(request: HttpRequest, uid: str) -> HttpResponse:
    """Restore ``version``; ``unchanged_since`` is the ``updated_at`` of the memory as it was shown."""
    before = filters.get_visible_memory(request, uid)
    number = _parse_version(request.POST.get("version", ""))
    seen = parse_aware_datetime(request.POST.get("unchanged_since", ""))
    if seen is None:
        raise BadRequest("this form is incomplete; open the memory again")
    try:
        memory = memories.restore_version(uid, number, request_actor(request), unchanged_since=seen)
    except memories.NotFound:
        raise
    except memories.StoreError as refusal:
        messages.error(request, f"Version {number} was not restored: {refusal.message}.")
        return redirect(f"{reverse('memory-compare', args=[uid])}?from={number}")
    if memory.updated_at == before.updated_at:
        messages.info(request, f"Version {number} is already the current content.")
    else:
        messages.success(request, undo_form(request, memory, f"Version {number} is restored."))
    return redirect_to_memory(request, memory)


@require_POST
@permission_required(CHANGE_MEMORY, raise_exception=True)
def version_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """Undo the change ``version`` if it is the last one, even if it moved the memory to a hidden level."""
    clearance = full_clearance(request)
    get_object_or_404(Memory.objects.visible_to(clearance), uid=uid)  # before the form is validated
    actor = request_actor(request, clearance)
    try:
        memory = memories.undo_last_change(uid, _parse_version(request.POST.get("version", "")), actor)
    except memories.NotFound:
        raise
    except memories.StoreError as refusal:
        messages.error(request, f"The change was not undone: {refusal.message}.")
        is_seen = Memory.objects.visible_to(request_clearance(request)).filter(uid=uid).exists()
        return redirect("memory", uid=uid) if is_seen else redirect("memories")
    hidden = filters.hidden_notice(request, [memory])
    messages.success(request, f"Undone. {hidden}".rstrip())
    return redirect_to_memory(request, memory)


def undo_form(request: HttpRequest, memory: Memory, text: str) -> str:
    """Render a message with a button that undoes the last change, and a notice if the memory is hidden now.

    There is no button if the person cannot see the memory any more, even with all switches on.
    """
    may_undo = full_clearance(request).allows(memory.project, memory.sensitivity)
    last = memory.revisions.first() if may_undo else None
    text = f"{text} {filters.hidden_notice(request, [memory])}".rstrip()
    context = {"memory": memory, "summary": text, "number": last.number if last else 0}
    return render_to_string("memory/page.html#change_undo", context, request=request)


def redirect_to_memory(request: HttpRequest, memory: Memory) -> HttpResponse:
    """Redirect to the page of the memory if it is still visible, else to ``next``, the page before it."""
    if request_clearance(request).allows(memory.project, memory.sensitivity):
        return redirect("memory", uid=memory.uid)
    return redirect(return_url(request))
