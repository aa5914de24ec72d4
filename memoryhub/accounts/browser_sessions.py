"""Browser sessions of an account: list them with device and last use, and end them."""

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
NO_LOGIN = "made without the login page"  # by a script or a command, so without device and address


@dataclass(frozen=True)
class BrowserSession:
    """``mark`` identifies the session in a form; its key would open it."""

    key: str
    mark: str
    device: str
    address: str
    since: datetime | None
    seen: datetime | None
    ends: datetime
    is_this: bool


def touch_session(request: HttpRequest, now: datetime | None = None) -> None:
    """Record that the session is in use, at most every five minutes: a read must not always write.

    Sessions created by scripts are ignored.
    """
    now = now or timezone.now()
    if not request.session.get("device"):
        return
    seen = _parse_moment(request.session.get("seen"))
    if seen is None or now - seen >= TOUCH_INTERVAL:
        request.session["seen"] = now.isoformat(timespec="seconds")


def list_sessions(request: HttpRequest) -> list[BrowserSession]:
    """Return the sessions of the person, the current one first, then by last use. Reads every session."""
    current = request.session.session_key
    sessions = [
        _to_browser_session(row, data, current)
        for row, data in _account_sessions(request.user.pk)
        if row.expire_date > timezone.now()
    ]
    return sorted(
        sessions, key=lambda session: (not session.is_this, -(session.seen or session.ends).timestamp())
    )


def end_all_sessions(user: User) -> None:
    """End all sessions of an account for good, even if a closed account is opened again."""
    Session.objects.filter(pk__in=[row.pk for row, _ in _account_sessions(user.pk)]).delete()


def _account_sessions(account: int | None) -> Iterator[tuple[Session, dict[str, Any]]]:
    """Yield the sessions of an account with their data. Django's table does not have the account."""
    for row in Session.objects.exclude(session_data="").iterator():
        data = row.get_decoded()
        if data.get(SESSION_KEY) == str(account):
            yield row, data


def end_sessions(request: HttpRequest, mark: str = "") -> int:
    """End one other session of the person, or all others; return how many ended."""
    ended = [
        session.key
        for session in list_sessions(request)
        if not session.is_this and (not mark or constant_time_compare(session.mark, mark))
    ]
    user = request.user
    if ended and isinstance(user, User):
        with write_transaction():
            Session.objects.filter(pk__in=ended).delete()
            sign_in.record_account_event(user, "sessions_ended", count=len(ended))
    return len(ended)


def _to_browser_session(row: Session, data: dict[str, Any], current: str | None) -> BrowserSession:
    since, key = _parse_moment(data.get("since")), str(row.session_key)
    return BrowserSession(
        key=key,
        mark=salted_hmac("memoryhub.signed_in", key).hexdigest()[:20],
        device=str(data.get("device", "")) or NO_LOGIN,
        address=str(data.get("from", "")),
        since=since,
        seen=_parse_moment(data.get("seen")) or since,
        ends=row.expire_date,
        is_this=key == current,
    )


def _parse_moment(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None
