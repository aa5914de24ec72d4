"""Acts in the browser: who may do what, the values of a form, and what is said of the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, QueryDict
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memoryhub.access import redaction
from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.accounts.clearance import actor_of, clearance_of, full_clearance_of
from memoryhub.memories import Acted, NotFound, StoreError, undo_act
from memoryhub.memories.bulk_undo import kind_of
from memoryhub.models import Memory
from memoryhub.web.base.fields import whole
from memoryhub.web.memories import queries

_CHANGE, _DELETE = "memoryhub.change_memory", "memoryhub.delete_memory"
# One of these is needed for an act of a kind, and for taking it back.
PERMISSIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("approve", "demote", "demote_and_approve", "promote", "expire"), (_CHANGE,)),
    **dict.fromkeys(("tag", "untag", "set"), (_CHANGE,)),
    "trash": (_DELETE,),
    "restore": (_DELETE, _CHANGE),
}
SETTABLE = ("importance", "sensitivity", "category", "project", "type", "scope")
_SHOWN = 5  # of those that were left as they are
_TITLE = 80
_DONE = {
    "approve": "approved",
    "demote": "demoted",
    "demote_and_approve": "demoted",
    "promote": "promoted",
    "trash": "moved to the trash",
    "restore": "restored",
    "expire": "expired",
    "tag": "tagged",
    "untag": "without this tag now",
    "set": "changed",
}
_SAME = {
    "trash": "in the trash already",
    "restore": "neither in the trash nor expired",
    "expire": "expired already",
    "tag": "tagged so already",
    "untag": "without this tag already",
}


@dataclass(frozen=True)
class Asked:
    """What a form asks for."""

    kind: str
    values: dict[str, Any]


def may(request: HttpRequest, kind: str) -> bool:
    return any(request.user.has_perm(permission) for permission in PERMISSIONS.get(kind, ()))


def offered(request: HttpRequest) -> dict[str, bool]:
    """For templates: which kinds this person may do."""
    return {kind: may(request, kind) for kind in PERMISSIONS}


def taken_back(request: HttpRequest, uid: str, first: int, last: int) -> Acted:
    """Undo an act of this person, who must still be allowed to do such a thing; 404 for any other act."""
    # Its own memories too that the act put under a level whose switch is off.
    actor = actor_of(request, full_clearance_of(request))
    try:
        if not may(request, kind_of(uid, actor, first, last)):
            raise PermissionDenied
        return undo_act(uid, actor, first, last)
    except NotFound:
        raise Http404 from None


def number(text: str) -> int:
    """Of a journal row, as a form gives it; 0 for what is none."""
    return whole(text) or 0


def asked(form: QueryDict, reach: Clearance) -> Asked:
    """``act`` and the values it takes; ``set-<field>`` sets that one, whatever other fields hold.

    StoreError for a level that the person sees nowhere with all switches on: it would be out of their reach.
    """
    kind, _, name = form.get("act", "").partition("-")
    if kind in ("tag", "untag"):
        return Asked(kind, {"tag": form.get("tag", "")})
    if kind != "set":
        return Asked(kind, {})
    names = [name] if name in SETTABLE else [one for one in SETTABLE if form.get(one)]
    values = {one: form.get(one, "") for one in names}
    level = values.get("sensitivity")
    if level in LEVELS and level not in reach.somewhere():
        raise StoreError(f"you may not see {level} memories; choose a lower level", "sensitivity")
    return Asked(kind, values)


def tell(request: HttpRequest, acted: Acted, back: str) -> None:
    """Messages: what was done with a button that undoes it, what was so already, and what was refused."""
    if acted.done:
        hidden = queries.out_of_sight(request, acted.done)
        context = {"acted": acted, "told": summary(acted), "one": only(acted), "back": back, "hidden": hidden}
        messages.success(request, render_to_string("acts/done.html", context, request=request))
    if acted.same:
        words = _SAME.get(acted.kind, "so already")
        messages.info(request, f"{memories(len(acted.same))} {words}.")
    if acted.outdated:
        messages.warning(request, left_as_changed(acted, request))
    if len(acted.refused) > len(acted.outdated):
        messages.warning(request, refusals(acted, request))


def tell_undone(request: HttpRequest, acted: Acted) -> None:
    if acted.done:
        verb = "is as it was" if len(acted.done) == 1 else "are as they were"
        messages.success(request, f"Taken back: {memories(len(acted.done))} {verb}.")
    if acted.refused:
        messages.warning(request, refusals(acted, request))


def summary(acted: Acted) -> str:
    """``3 memories demoted``; of one it says only what was done."""
    return f"{memories(len(acted.done))} {_DONE[acted.kind]}"


def only(acted: Acted) -> Memory | None:
    return acted.done[0] if len(acted.done) == 1 else None


def refusals(acted: Acted, request: HttpRequest) -> SafeString:
    """The first few by name, for who may see them, and how many there are more."""
    refused = [(uid, words) for uid, words in acted.refused if uid not in acted.outdated]
    shown = refused[:_SHOWN]
    titles = _titles([uid for uid, _ in shown], request)
    lines = format_html_join(
        "", "<li><bdi>{}</bdi>: {}</li>", ((titles.get(uid, uid), words) for uid, words in shown)
    )
    head = f"{memories(len(refused)).capitalize()} left as before:"
    return format_html("{}<ul>{}{}</ul>", head, lines, _rest(len(refused) - len(shown)))


def left_as_changed(acted: Acted, request: HttpRequest) -> SafeString:
    """Those that were changed while the person looked at the list: the first few as links."""
    shown = acted.outdated[:_SHOWN]
    titles = _titles(shown, request)
    lines = format_html_join(
        "",
        '<li><a href="{}"><bdi>{}</bdi></a></li>',
        ((reverse("memory", args=[uid]), titles.get(uid, uid)) for uid in shown),
    )
    head = were_changed(memories(len(acted.outdated)), len(acted.outdated))
    return format_html("{}<ul>{}{}</ul>", head, lines, _rest(len(acted.outdated) - len(shown)))


def were_changed(what: str, count: int) -> str:
    """``2 memories were changed since you opened this list and were left as they are.``"""
    verb, rest = ("was", "is") if count == 1 else ("were", "are")
    subject = "it" if count == 1 else "they"
    return f"{what} {verb} changed since you opened this list and {verb} left as {subject} {rest}."


def _rest(more: int) -> str:
    return format_html("<li>and {} more</li>", more) if more else ""


def _titles(uids: list[str], request: HttpRequest) -> Mapping[str, str]:
    seen = Memory.objects.visible_to(clearance_of(request)).filter(uid__in=uids)
    named = seen.values_list("title", "uid", "sensitivity")
    return {uid: redaction.name(title, uid, level)[:_TITLE] for title, uid, level in named}


def memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count} memories"
