"""One thing done to many memories, and taken back: what every list's bar and a review post to."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from memoryhub import memories
from memoryhub.accounts.clearance import actor_of, clearance_of, full_clearance_of
from memoryhub.models import Memory
from memoryhub.web.base.redirects import back_of
from memoryhub.web.memories import bulk_actions
from memoryhub.web.memories.bulk_selection import chosen


@require_POST
def act(request: HttpRequest) -> HttpResponse:
    """``act``: what to do; ``uid``: to which memories, many; values by name; ``next``: where to go on.

    A ``uid`` may say which version was read (:func:`.bulk_selection.ticked`): what was changed since
    is left as it is. With ``every``: to all memories that the list at the address ``list`` shows, on all of
    its pages.

    Leads to ``next``, where a message tells what was done and undoes it; htmx follows and takes from that
    page what it needs. A single memory that may not be seen is not there.
    """
    back = back_of(request)
    seen = clearance_of(request)
    try:
        wanted = bulk_actions.asked(request.POST, full_clearance_of(request))
        if wanted.kind in bulk_actions.PERMISSIONS and not bulk_actions.may(request, wanted.kind):
            raise PermissionDenied
        found = chosen(request.POST, seen)
        if not found.uids:
            raise memories.StoreError("nothing was chosen; tick what it is to be done to", "uid")
        acted = memories.act(wanted.kind, found.uids, actor_of(request), seen=found.seen, **wanted.values)
    except memories.StoreError as refusal:
        messages.error(request, f"Nothing was changed: {refusal.message}.")
        return redirect(back)
    if len(found.uids) == 1 and acted.refused and not _is_there(request, found.uids[0]):
        raise Http404
    bulk_actions.tell(request, acted, back)
    return redirect(back)


@require_POST
def act_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """``first`` and ``last``: the journal numbers that came with the act; only who did it takes it back."""
    first, last = (bulk_actions.number(request.POST.get(name, "")) for name in ("first", "last"))
    undone = bulk_actions.taken_back(request, uid, first, last)
    bulk_actions.tell_undone(request, undone)
    return redirect(back_of(request))


def _is_there(request: HttpRequest, uid: str) -> bool:
    return bool(Memory.objects.visible_to(clearance_of(request)).filter(uid=uid).exists())
