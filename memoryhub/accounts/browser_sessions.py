"""Where a person is signed in: the sessions of their account, with the device and when it was last seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from memoryhub.accounts import sign_in
from memoryhub.core.transactions import write_transaction

TOUCH_INTERVAL = timedelta(minutes=5)
NO_LOGIN = "made without the login page"  # by a script or a command: nothing is noted of it


@dataclass(frozen=True)
class BrowserSession:
    """``mark`` names the session in a form: its key would open it."""

    key: str
    mark: str
    device: str
    address: str
    since: datetime | None
    seen: datetime | None
    ends: datetime
    is_this: bool


def touch_session(request: HttpRequest, now: datetime | None = None) -> None:
    """Note that the session is in use, at most every five minutes: a read must not become a write each time.

    Sessions that came from nowhere (a script's) are left alone.
    """
    now = now or timezone.now()
    if not request.session.get("device"):
        return
    seen = _parse_moment(request.session.get("seen"))
    if seen is None or now - seen >= TOUCH_INTERVAL:
        request.session["seen"] = now.isoformat(timespec="seconds")


def list_sessions(request: HttpRequest) -> list[BrowserSession]:
    """Those of the person who asks, this one first, then by last use. Reads the sessions of everyone."""
    this = request.session.session_key
    found = [
        _to_browser_session(row, kept, this)
        for row, kept in _account_sessions(request.user.pk)
        if row.expire_date > timezone.now()
    ]
    return sorted(found, key=lambda one: (not one.is_this, -(one.seen or one.ends).timestamp()))


def end_all_sessions(user: User) -> None:
    """End all sessions of an account: none of them comes back, also when a closed one is opened again."""
    Session.objects.filter(pk__in=[row.pk for row, _ in _account_sessions(user.pk)]).delete()


def _account_sessions(account: int | None) -> Iterator[tuple[Session, dict[str, Any]]]:
    """The sessions of an account, each with what it keeps. Django's table does not know whose they are."""
    for row in Session.objects.exclude(session_data="").iterator():
        kept = row.get_decoded()
        if kept.get(SESSION_KEY) == str(account):
            yield row, kept


def end_sessions(request: HttpRequest, mark: str = "") -> int:
    """End one other session of the person's own, or all others; returns how many ended."""
    others = [one for one in list_sessions(request) if not one.is_this]
    ended = [one.key for one in others if not mark or constant_time_compare(one.mark, mark)]
    user = request.user
    if ended and isinstance(user, User):
        with write_transaction():
            Session.objects.filter(pk__in=ended).delete()
            sign_in.record_account_event(user, "sessions_ended", count=len(ended))
    return len(ended)


def _to_browser_session(row: Session, kept: dict[str, Any], this: str | None) -> BrowserSession:
    since, key = _parse_moment(kept.get("since")), str(row.session_key)
    return BrowserSession(
        key=key,
        mark=salted_hmac("memoryhub.signed_in", key).hexdigest()[:20],
        device=str(kept.get("device", "")) or NO_LOGIN,
        address=str(kept.get("from", "")),
        since=since,
        seen=_parse_moment(kept.get("seen")) or since,
        ends=row.expire_date,
        is_this=key == this,
    )


def _parse_moment(written: Any) -> datetime | None:
    return datetime.fromisoformat(written) if isinstance(written, str) else None
