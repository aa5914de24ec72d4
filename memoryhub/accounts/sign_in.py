"""Signing in and out: what the journal keeps of it, and how long who guesses passwords has to wait.

The journal is the count, too: a failure is a row, and where the newest rows hold too many failures for a
name and an address, for an address, or for a name, no password is looked at until they have aged. It holds
for every door where a password is asked for, in all processes, and survives a restart. A typed name that is
nobody's may be a password typed into the wrong field: its keyed hash alone is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.client_ip import client_network
from memoryhub.core.transactions import write_transaction
from memoryhub.models import JournalEntry

PERSON_TYPE = "person"  # object_type of journal rows about people
SYSTEM_OWNER = "system:accounts"  # owner of rows that are nobody's own: no account can be called so
FAILURE_WINDOW = timedelta(minutes=15)
PER_PAIR, PER_ADDRESS, PER_NAME = 5, 30, 50  # failures within the window
# Rows looked at; the index of operations has them in order. Nobody has passwords hashed much faster than this
# many times within the window, so that a flood of failures elsewhere does not hide those that count.
_MAX_ROWS_READ = 5000
# As some proxies write an address; the port is another for each connection.
_ADDRESS_WITH_PORT = re.compile(r"(?P<v4>[0-9.]+):\d+|\[(?P<v6>[0-9a-fA-F:.]+)\](?::\d+)?")
_IN, _FAILED = "login", "login_failed"
_SSO_REFUSED = (
    "login_refused"  # of who came back from the organisation: no guess at a password, counted apart
)


def client_address(request: HttpRequest) -> str:
    """Where a request comes from; behind a proxy, what the nearest proxy says. Empty: from no client."""
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.BEHIND_PROXY else ""
    nearest = forwarded.rpartition(",")[2].strip()
    if with_port := _ADDRESS_WITH_PORT.fullmatch(nearest):
        nearest = with_port["v4"] or with_port["v6"]
    return str(nearest or request.META.get("REMOTE_ADDR", ""))[:45]


def record_account_event(user: User, operation: str, by: str = "", **detail: Any) -> None:
    """A journal row about a person: theirs to see, and of those who manage people.

    Must run in a transaction. ``by``: the name of who did it, when it was somebody else.
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
    """Seconds until a password for this name is looked at again from this address; 0 for at once."""
    now = now or timezone.now()
    network, hashed = _network_key(client_address(request)), _hash_name(name)
    recent = _recent_attempts(now, _IN, _FAILED)
    pair = _failures_since_success([one for one in recent if (one.name, one.network) == (hashed, network)])
    counted = [
        (PER_PAIR, pair),
        (PER_ADDRESS, [one for one in recent if one.failed and one.network == network]),
    ]
    of_name = [one for one in recent if one.failed and one.name == hashed]
    if len(of_name) >= PER_NAME and not _has_signed_in_from(name.strip(), network):
        counted.append((PER_NAME, of_name))
    return max(_wait_seconds(found, most, now) for most, found in counted)


def single_sign_on_wait(request: HttpRequest, now: datetime | None = None) -> int:
    """Seconds until the provider is asked again about who comes back from it to this address; 0 for at once.

    As many may fail as passwords of one address. The two are counted apart: neither holds back the other.
    """
    now = now or timezone.now()
    network = _network_key(client_address(request))
    return _wait_seconds(
        [one for one in _recent_attempts(now, _SSO_REFUSED) if one.network == network], PER_ADDRESS, now
    )


def _wait_seconds(failed: list[_Attempt], most: int, now: datetime) -> int:
    """Seconds until there are fewer; the one that has to age is the oldest of the newest ``most``."""
    return int((failed[most - 1].at + FAILURE_WINDOW - now).total_seconds()) + 1 if len(failed) >= most else 0


def _recent_attempts(now: datetime, *operations: str) -> list[_Attempt]:
    """Newest first. Each operation is asked for by itself, for then the index has its rows in order."""
    found = []
    for operation in operations:
        rows = JournalEntry.objects.filter(operation=operation, object_type=PERSON_TYPE).order_by("-seq")
        newest = rows.values_list("at", "object_id", "detail")[:_MAX_ROWS_READ]
        for at, account, detail in newest.iterator(chunk_size=100):  # as a rule there are few in the window
            if at <= now - FAILURE_WINDOW:
                break
            name = detail.get("name") or _hash_name(account)
            found.append(_Attempt(at, operation != _IN, name, _network_key(detail.get("from", ""))))
    return sorted(found, key=lambda one: one.at, reverse=True)


def _has_signed_in_from(name: str, network: str) -> bool:
    """Whether somebody of this name signed in from there lately: guesses elsewhere do not shut them out."""
    logins = JournalEntry.objects.filter(operation=_IN, object_type=PERSON_TYPE, object_id=name).order_by(
        "-seq"
    )
    return any(
        _network_key(said.get("from", "")) == network for said in logins.values_list("detail", flat=True)[:20]
    )


def _network_key(address: str) -> str:
    """What counts as one address: of IPv6 all that one subscriber has."""
    return client_network(address) or address


def _failures_since_success(attempts: list[_Attempt]) -> list[_Attempt]:
    """The failures after the last time that the password was right."""
    failed = []
    for one in attempts:
        if not one.failed:
            break
        failed.append(one)
    return failed


def _hash_name(name: str) -> str:
    return salted_hmac("memoryhub.signing", name.strip().casefold()).hexdigest()[:16]


def describe_device(request: HttpRequest) -> str:
    """The browser and the system in a few words, from what the browser says of itself."""
    said = request.META.get("HTTP_USER_AGENT", "")
    browser = next((name for mark, name in _BROWSERS if mark in said), "an unknown browser")
    system = next((name for mark, name in _SYSTEMS if mark in said), "")
    return f"{browser} on {system}" if system else browser


# The first mark that is found decides: most browsers claim to be others too.
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
    """A login by script, which comes from nowhere, is no event of an account."""
    if request is None or not (address := client_address(request)):
        return
    device = describe_device(request)
    request.session.update(
        {"from": address, "device": device, "since": timezone.now().isoformat(timespec="seconds")}
    )
    with write_transaction():
        record_account_event(user, _IN, **{"from": address, "with": device})


def _record_logout(request: HttpRequest | None, user: User | None, **kwargs: Any) -> None:
    if user is not None and request is not None and client_address(request):
        with write_transaction():
            record_account_event(user, "logout", **{"from": client_address(request)})


def _record_failure(
    credentials: Mapping[str, Any], request: HttpRequest | None = None, **kwargs: Any
) -> None:
    if request is None or getattr(request, "login_held_back", False):
        return  # no password was looked at
    if "username" not in credentials:
        return  # who comes from the organisation brings none: see note_refused
    typed = str(credentials["username"])
    user = User.objects.filter(username=typed).first()
    asking = getattr(request, "user", AnonymousUser())
    inside = asking.is_authenticated  # and is asked for the password once more
    detail = {"from": client_address(request), "with": describe_device(request)}
    if inside:
        detail["asked_on"] = request.path
    by = Actor(f"user:{asking.get_username()}") if inside else Actor("nobody")
    with write_transaction():
        journal.record(by, [_refusal_change(_FAILED, user, typed, detail)])


def record_single_sign_on_refusal(request: HttpRequest, user: User | None, why: str, address: str) -> None:
    """A journal row: who came back from the organisation was not let in. Must run in a transaction.

    ``user``: whose account it was about; without one, ``address`` is the e-mail address, of which a keyed
    hash is kept; empty where the provider vouched for nobody.
    """
    detail = {"from": client_address(request), "with": describe_device(request), "why": why}
    journal.record(Actor("nobody"), [_refusal_change(_SSO_REFUSED, user, address, detail)])


def _refusal_change(operation: str, user: User | None, typed: str, detail: dict[str, Any]) -> journal.Change:
    if user is None:
        return journal.Change(
            operation, PERSON_TYPE, "", {**detail, "name": _hash_name(typed)}, owner=SYSTEM_OWNER
        )
    return journal.Change(operation, PERSON_TYPE, user.username, detail, owner=user.username)


def connect_signals() -> None:
    """Hear of every login, at whatever door."""
    for signal, receiver in (
        (user_logged_in, _record_login),
        (user_logged_out, _record_logout),
        (user_login_failed, _record_failure),
    ):
        signal.connect(receiver, dispatch_uid=receiver.__name__)
