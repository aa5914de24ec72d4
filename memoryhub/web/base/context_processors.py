"""The access rules of :mod:`memoryhub.accounts.clearance`, and the switches for the header of every page."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from memoryhub.accounts.clearance import (
    SWITCHABLE_LEVELS,
    full_clearance,
    is_level_shown,
    may_view_level,
    record_reveal,
    request_actor,
    request_clearance,
    show_level,
)
from memoryhub.accounts.people import may_manage_people

__all__ = [
    "SWITCHABLE_LEVELS",
    "full_clearance",
    "is_level_shown",
    "may_view_level",
    "person_preferences",
    "record_reveal",
    "request_actor",
    "request_clearance",
    "show_level",
    "switches",
]


def switches(request: HttpRequest) -> dict[str, list[dict[str, object]]]:
    """Context processor: the switches this person may turn, and how they stand."""
    # A request that was refused before anybody could be recognised (a bad host) has no user.
    if not hasattr(request, "user") or not request.user.is_authenticated:
        return {"switches": []}
    mine = [level for level in SWITCHABLE_LEVELS if may_view_level(request.user, level)]
    return {"switches": [{"level": level, "on": is_level_shown(request, level)} for level in mine]}


def person_preferences(request: HttpRequest) -> dict[str, object]:
    """Context processor: the theme that this person chose, and whether they manage people."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"theme": "", "may_manage_people": False}
    theme = getattr(getattr(user, "profile", None), "theme", "")
    return {"theme": theme, "may_manage_people": SimpleLazyObject(lambda: may_manage_people(user))}
