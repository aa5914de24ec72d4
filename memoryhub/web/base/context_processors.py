"""Context processors: the sensitivity switches, the preferences and the rights of the signed-in person."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from memoryhub.accounts.clearance import (
    SWITCHABLE_LEVELS,
    full_clearance,
    is_level_shown,
    may_view_level,
)
from memoryhub.accounts.people import may_manage_people


def switches(request: HttpRequest) -> dict[str, object]:
    """Return the switches this person may use, whether each is on, and the names of those that are."""
    # A request refused before authentication (a bad host) has no user.
    if not hasattr(request, "user") or not request.user.is_authenticated:
        return {"switches": []}
    mine = [level for level in SWITCHABLE_LEVELS if may_view_level(request.user, level)]
    shown = [level for level in mine if is_level_shown(request, level)]
    return {
        "switches": [{"level": level, "on": level in shown} for level in mine],
        "levels_shown": f"{' and '.join(shown)} shown" if shown else "",
    }


def person_preferences(request: HttpRequest) -> dict[str, object]:
    """Return the theme, language and time zone that the person chose, and some of their rights.

    ``sees_every_row``: pages may show numbers that count all rows, such as those of journal rows.
    """
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"may_manage_people": False}
    profile = getattr(user, "profile", None)
    chosen = {name: getattr(profile, name, "") for name in ("theme", "language", "time_zone")}
    return {
        **chosen,
        "may_manage_people": SimpleLazyObject(lambda: may_manage_people(user)),
        "sees_every_row": SimpleLazyObject(lambda: full_clearance(request).is_whole),
    }
