"""The access rules of :mod:`memoryhub.accounts`, and the switches for the header of every page."""

from __future__ import annotations

from django.http import HttpRequest

from memoryhub.accounts import SWITCHES, actor_of, clearance_of, is_on, may_see, reveal, turn

__all__ = ["SWITCHES", "actor_of", "clearance_of", "is_on", "may_see", "reveal", "switches", "turn"]


def switches(request: HttpRequest) -> dict[str, list[dict[str, object]]]:
    """Context processor: the switches this person may turn, and how they stand."""
    # A request that was refused before anybody could be recognised (a bad host) has no user.
    if not hasattr(request, "user") or not request.user.is_authenticated:
        return {"switches": []}
    mine = [level for level in SWITCHES if may_see(request.user, level)]
    return {"switches": [{"level": level, "on": is_on(request, level)} for level in mine]}
