"""Sign-in and sign-out: throttling, journal rows, and the browser sessions of an account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.dates import parse_moment
from memoryhub.core.network import client_network
from memoryhub.models import JournalEntry

PERSON_TYPE = "person"  # object_type of journal rows about people
SYSTEM_OWNER = "system:accounts"  # owner of rows without an account; not a valid user name
FAILURE_WINDOW = timedelta(minutes=15)
PER_PAIR, PER_ADDRESS, PER_NAME = 5, 30, 50  # failures within the window
# Rows read per operation, in index order. More than the server can hash in one window, so a flood of failures
# elsewhere cannot hide the relevant ones.
_MAX_ROWS_READ = 5000
_IN, _FAILED = "login", "login_failed"
_SSO_REFUSED = "login_refused"  # single sign-on: not a password guess, counted separately


def record_account_event(user: User, operation: str, by: str = "", **detail: Any) -> None:
    """Journal an event of an account, visible to its owner and to people who manage accounts.

    Must run in a transaction. ``by``: name of the person who did it, if someone else.
    """
    name = user.get_username()
    change = journal.Change(operation, PERSON_TYPE, name, detail, owner=name)
    journal.record(Actor(f"user:{by or name}"), [change])


@dataclass(frozen=True)
class _Attempt:
    at: datetime
    failed: bool
    name: str
    network: str


def login_wait(request: HttpRequest, name: str, now: datetime | None = None) -> int:
    """Return the seconds until a password for this name is checked again from this address; 0 for now."""
    now = now or timezone.now()
    network, hashed = _network_key(request.META.get("REMOTE_ADDR", "")), _hash_name(name)
    recent = _recent_attempts(now, _IN, _FAILED)
    of_pair = (one for one in recent if (one.name, one.network) == (hashed, network))
    pair = list(takewhile(lambda one: one.failed, of_pair))  # since the last correct password
    counted = [
        (PER_PAIR, pair),
        (PER_ADDRESS, [one for one in recent if one.failed and one.network == network]),
    ]
    of_name = [one for one in recent if one.failed and one.name == hashed]
    if len(of_name) >= PER_NAME and not _has_signed_in_from(name.strip(), network):
        counted.append((PER_NAME, of_name))
    return max(_wait_seconds(found, most, now) for most, found in counted)


def single_sign_on_wait(request: HttpRequest, now: datetime | None = None) -> int:
    """Return the seconds until single sign-on is tried again from this address; 0 for now.

    The limit equals that of passwords from one address, but the two are counted separately.
    """
    now = now or timezone.now()
    network = _network_key(request.META.get("REMOTE_ADDR", ""))
    return _wait_seconds(
        [one for one in _recent_attempts(now, _SSO_REFUSED) if one.network == network], PER_ADDRESS, now
    )


def _wait_seconds(failed: list[_Attempt], limit: int, now: datetime) -> int:
    """Return the seconds until fewer than ``limit`` of these failures (newest first) are in the window."""
    return (
        int((failed[limit - 1].at + FAILURE_WINDOW - now).total_seconds()) + 1 if len(failed) >= limit else 0
    )


def _recent_attempts(now: datetime, *operations: str) -> list[_Attempt]:
    """Return attempts within the window, newest first. One query per operation, to use the index order."""
    found = []
    for operation in operations:
        rows = JournalEntry.objects.filter(operation=operation, object_type=PERSON_TYPE).order_by("-seq")
        newest = rows.values_list("at", "object_id", "detail")[:_MAX_ROWS_READ]
        for at, account, detail in newest.iterator(chunk_size=100):  # usually few are in the window
            if at <= now - FAILURE_WINDOW:
                break
            name = detail.get("name") or _hash_name(account)
            found.append(_Attempt(at, operation != _IN, name, _network_key(detail.get("from", ""))))
    return sorted(found, key=lambda one: one.at, reverse=True)


def _has_signed_in_from(name: str, network: str) -> bool:
    """Return whether the account recently signed in from there: guesses elsewhere do not lock it out."""
    logins = JournalEntry.objects.filter(operation=_IN, object_type=PERSON_TYPE, object_id=name).order_by(
        "-seq"
    )
    return any(
        _network_key(said.get("from", "")) == network for said in logins.values_list("detail", flat=True)[:20]
    )


def _network_key(address: str) -> str:
    """Return what counts as one address: for IPv6, the network of one subscriber."""
    return client_network(address) or address


def _hash_name(name: str) -> str:
    return salted_hmac("memoryhub.signing", name.strip().casefold()).hexdigest()[:16]


def describe_device(request: HttpRequest) -> str:
    """Return browser and system, from the user agent."""
    agent = request.META.get("HTTP_USER_AGENT", "")
    browser = next((name for token, name in _BROWSERS if token in agent), "an unknown browser")
    system = next((name for token, name in _SYSTEMS if token in agent), "")
    return f"{browser} on {system}" if system else browser


# In order of precedence: most browsers also name others.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def _record_login(request: HttpRequest | None, user: User, **kwargs: Any) -> None:
    """Journal a login and remember it in the session. A login by a script has no address and is ignored."""
    if request is None or not (address := request.META.get("REMOTE_ADDR", "")):
        return
    device = describe_device(request)
    request.session.update(
        {"from": address, "device": device, "since": timezone.now().isoformat(timespec="seconds")}
    )
    with write_transaction():
        record_account_event(user, _IN, **{"from": address, "with": device})


def _record_logout(request: HttpRequest | None, user: User | None, **kwargs: Any) -> None:
    if user is not None and request is not None and request.META.get("REMOTE_ADDR", ""):
        with write_transaction():
            record_account_event(user, "logout", **{"from": request.META.get("REMOTE_ADDR", "")})


def _record_failure(
    credentials: Mapping[str, Any], request: HttpRequest | None = None, **kwargs: Any
) -> None:
    if request is None or getattr(request, "login_throttled", False):
        return  # no password was checked
    if "username" not in credentials:
        return  # single sign-on: see record_single_sign_on_refusal
    typed = str(credentials["username"])
    user = User.objects.filter(username=typed).first()
    visitor = getattr(request, "user", AnonymousUser())
    is_reconfirming = visitor.is_authenticated  # already logged in, asked for the password again
    detail = {"from": request.META.get("REMOTE_ADDR", ""), "with": describe_device(request)}
    if is_reconfirming:
        detail["asked_on"] = request.path
    by = Actor(f"user:{visitor.get_username()}") if is_reconfirming else Actor("nobody")
    with write_transaction():
        journal.record(by, [_refusal_change(_FAILED, user, typed, detail)])


def record_single_sign_on_refusal(request: HttpRequest, user: User | None, why: str, address: str) -> None:
    """Journal that a login through the provider was refused. Must run in a transaction.

    ``user``: the account concerned. Without one, a keyed hash of ``address`` (an e-mail address) is
    stored; it is empty if the provider confirmed no one.
    """
    detail = {"from": request.META.get("REMOTE_ADDR", ""), "with": describe_device(request), "why": why}
    journal.record(Actor("nobody"), [_refusal_change(_SSO_REFUSED, user, address, detail)])


def _refusal_change(operation: str, user: User | None, typed: str, detail: dict[str, Any]) -> journal.Change:
    if user is None:
        return journal.Change(
            operation, PERSON_TYPE, "", {**detail, "name": _hash_name(typed)}, owner=SYSTEM_OWNER
        )
    return journal.Change(operation, PERSON_TYPE, user.username, detail, owner=user.username)


def connect_signals() -> None:
    """Record every login, logout and failure, through any form."""
    for signal, receiver in (
        (user_logged_in, _record_login),
        (user_logged_out, _record_logout),
        (user_login_failed, _record_failure),
    ):
        signal.connect(receiver, dispatch_uid=receiver.__name__)


NO_LOGIN = "a script or command"  # by a script or a command, so without device and address


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
    """End all sessions of an account, even if a closed account is opened again."""
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
            record_account_event(user, "sessions_ended", count=len(ended))
    return len(ended)


def _to_browser_session(row: Session, data: dict[str, Any], current: str | None) -> BrowserSession:
    since, key = parse_moment(data.get("since")), str(row.session_key)
    return BrowserSession(
        key=key,
        mark=salted_hmac("memoryhub.signed_in", key).hexdigest()[:20],
        device=str(data.get("device", "")) or NO_LOGIN,
        address=str(data.get("from", "")),
        since=since,
        seen=parse_moment(data.get("seen")) or since,
        ends=row.expire_date,
        is_this=key == current,
    )
