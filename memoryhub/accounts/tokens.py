"""Tokens of agents: issued, recognised, changed, revoked. The only writer of them; all but use is journaled.

A token is 256 random bits behind a prefix that a secret scanner can recognise. The store keeps its SHA-256:
nothing slower is needed for a secret that nobody chose, and every request looks one up.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db import OperationalError, connection, models
from django.db.models import Q
from django.db.models.signals import pre_delete
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Actor, Clearance, Sensitivity, level_rank, system_actor
from memoryhub.accounts import usernames
from memoryhub.accounts.clearance import confined_owner_clearance, user_clearance
from memoryhub.audit import journal
from memoryhub.core.transactions import write_transaction
from memoryhub.core.vocabulary import RIGHTS, Right
from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.models import AgentToken, Profile
from memoryhub.models.token import default_rights

logger = logging.getLogger(__name__)

PREFIX = "mh_"
_PREFIX_CHARS = 10  # characters of a token that lists show
_COLUMNS = [str(field.column) for field in AgentToken._meta.concrete_fields]
_ATTRIBUTES = [field.attname for field in AgentToken._meta.concrete_fields]
# Every request begins with this one; through the ORM it would take several times as long.
# With it comes what concerns its owner's account, where there is one: whether it is active and confined.
_TOKEN_SQL = (
    f"SELECT {', '.join(f't.{name}' for name in _COLUMNS)}, u.is_active, p.confined"  # noqa: S608 own names
    f" FROM {AgentToken._meta.db_table} t LEFT JOIN {User._meta.db_table} u ON u.username = t.owner"
    f" LEFT JOIN {Profile._meta.db_table} p ON p.user_id = u.id WHERE t.digest = %s"
)
USE_WRITE_TIMEOUT = 0.1  # seconds that a caller waits for others to have written, before the note is left out
USE_WRITE_INTERVAL = timedelta(minutes=1)
# What a person must be allowed, for a token to get a right from them.
_PERMISSION_OF_RIGHT = {
    Right.WRITE.value: "memoryhub.add_memory",
    Right.MAINTAIN.value: "memoryhub.add_maintenancerun",
}


def grantable_rights(user: User | AnonymousUser) -> list[str]:
    """The rights that a person may hand to an agent: none that they lack."""
    return [
        right
        for right in RIGHTS
        if right not in _PERMISSION_OF_RIGHT or user.has_perm(_PERMISSION_OF_RIGHT[right])
    ]


def issue_token(
    name: str,
    owner: str,
    clearance: str = Sensitivity.PUBLIC.value,
    rights: Iterable[str] | None = None,
    projects: Iterable[str] | None = None,
    *,
    actor: Actor,
    within: Clearance | None = None,
    expires_at: datetime | None = None,
    now: datetime | None = None,
) -> tuple[AgentToken, str]:
    """Make a token; returns its row and the token itself, which cannot be had again.

    ``rights`` default to read and write; ``projects`` None: all of them, while an empty list, which could be
    meant as a confinement to nothing, is refused. ``within``: what the issuer may see; a token that would
    reach further is refused. A StoreError names a bad value.
    """
    now = now or timezone.now()
    if usernames.is_former_username(owner.strip()):
        raise StoreError("the account of this name was deleted, and its memories are nobody's", "owner")
    raw = PREFIX + secrets.token_urlsafe(32)
    token = AgentToken(
        owner=_clean_name("owner", owner, 150),
        prefix=raw[:_PREFIX_CHARS],
        digest=hash_token(raw),
        created_at=now,
    )
    _set_fields(
        token, name, clearance, default_rights() if rights is None else rights, projects, expires_at, now
    )
    _require_within(token, within)
    with write_transaction():
        token.save()
        journal.record(actor, [_token_change("issue", token, **_access_fields(token))], now)
    return token, raw


def change_token(
    uid: str,
    actor: Actor,
    *,
    name: str,
    clearance: str,
    rights: Iterable[str],
    projects: Iterable[str] | None,
    expires_at: datetime | None,
    within: Clearance | None = None,
    now: datetime | None = None,
) -> AgentToken:
    """Set what a token is called and may do; its owner stays. ``projects`` None: all. A StoreError names a
    bad value. ``within``: as in :func:`issue_token`.

    NotFound when there is none, Conflict when it was revoked: nothing brings it back.
    """
    now = now or timezone.now()
    with write_transaction():
        token: AgentToken | None = AgentToken.objects.filter(uid=uid).first()
        if token is None:
            raise NotFound("there is no such token")
        if token.revoked_at:
            raise Conflict("this token was revoked; issue another one")
        before = {field: getattr(token, field) for field in _CHANGEABLE_FIELDS}
        _set_fields(token, name, clearance, rights, projects, expires_at, now)
        _require_within(token, within)
        changed = [field for field in _CHANGEABLE_FIELDS if getattr(token, field) != before[field]]
        if changed:
            token.save(update_fields=changed)
            journal.record(
                actor, [_token_change("update", token, fields=changed, **_access_fields(token))], now
            )
    return token


def authenticate_token(raw: str, address: str = "", now: datetime | None = None) -> AgentToken | None:
    """The token that this is, if it may still be used; notes its use.

    One whose owner's account was closed rests with it.
    """
    if not raw.startswith(PREFIX):
        return None
    now = now or timezone.now()
    token = _find_by_digest(hash_token(raw))
    if token is None or token.revoked_at or (token.expires_at and token.expires_at <= now):
        return None
    if token.owner_is_gone:
        return None
    _record_use(token, address, now)
    return token


def _find_by_digest(value: str) -> AgentToken | None:
    with connection.cursor() as cursor:
        row = cursor.execute(_TOKEN_SQL, [value]).fetchone()
    if row is None:
        return None
    *cells, is_active, is_confined = row
    read = [convert(cell) if convert else cell for convert, cell in zip(_converters(), cells, strict=True)]
    token = AgentToken.from_db(connection.alias, _ATTRIBUTES, read)
    token.owner_is_gone, token.owner_is_confined = is_active == 0, bool(is_confined)
    return token


@cache
def _converters() -> list[Callable[[Any], Any] | None]:
    """For each column, from what SQLite keeps to what the model holds; most are the same."""
    by_kind: dict[type, Callable[[Any], Any]] = {models.DateTimeField: _to_utc, models.JSONField: json.loads}
    return [by_kind.get(type(field)) for field in AgentToken._meta.concrete_fields]


def _to_utc(stored: datetime | None) -> datetime | None:
    return stored and stored.replace(tzinfo=UTC)


def revoke_token(uid: str, actor: Actor, now: datetime | None = None) -> AgentToken:
    """End a token at once; NotFound when there is none. Revoking twice changes nothing."""
    now = now or timezone.now()
    with write_transaction():
        token: AgentToken | None = AgentToken.objects.filter(uid=uid).first()
        if token is None:
            raise NotFound("there is no such token")
        if token.revoked_at is None:
            token.revoked_at = now
            token.save(update_fields=["revoked_at"])
            journal.record(actor, [_token_change("revoke", token)], now)
    return token


def rotate_token(
    uid: str, actor: Actor, within: Clearance | None = None, now: datetime | None = None
) -> tuple[AgentToken, str]:
    """Put another token in the place of one: same name, same reach, the old one refused from now on.

    Returns the row and the new token itself, this once. NotFound when there is none, Conflict when it was
    revoked or has run out. ``within``: as in :func:`issue_token`.
    """
    now = now or timezone.now()
    raw = PREFIX + secrets.token_urlsafe(32)
    with write_transaction():
        token: AgentToken | None = AgentToken.objects.filter(uid=uid).first()
        if token is None:
            raise NotFound("there is no such token")
        if token.revoked_at or (token.expires_at and token.expires_at <= now):
            raise Conflict("this token is not in force any more; issue another one")
        _require_within(token, within)
        token.prefix, token.digest = raw[:_PREFIX_CHARS], hash_token(raw)
        token.last_used_at, token.last_used_from = None, ""
        token.save(update_fields=["prefix", "digest", "last_used_at", "last_used_from"])
        journal.record(actor, [_token_change("rotate", token)], now)
    return token, raw


def reduce_tokens_to_owner(owner: User, actor: Actor, now: datetime | None = None) -> list[AgentToken]:
    """Take from a person's tokens the levels and rights that they lack; returns those that it changed.

    For when a person's rights were changed; ``owner`` must have been read since. A token that is left without
    a right is revoked. Projects need no such care: see :func:`actor_of`.
    """
    now = now or timezone.now()
    changed = []
    with write_transaction():
        for token in AgentToken.objects.active(now).filter(owner=owner.get_username()):
            clearance = _lower_clearance(token.clearance, user_clearance(owner).somewhere())
            rights = [right for right in token.rights if right in grantable_rights(owner)]
            fields = ["clearance"] * (clearance != token.clearance) + ["rights"] * (rights != token.rights)
            if not fields:
                continue
            changed.append(token)
            if not rights:
                revoke_token(token.uid, actor, now)
                continue
            token.clearance, token.rights = clearance, rights
            token.save(update_fields=fields)
            journal.record(
                actor, [_token_change("update", token, fields=fields, **_access_fields(token))], now
            )
    return changed


def _lower_clearance(clearance: str, levels: frozenset[str]) -> str:
    """The highest level up to this one below which all are among ``levels``; at least public."""
    fits = [one for one in LEVELS[: level_rank(clearance) + 1] if Clearance.up_to(one).levels <= levels]
    return fits[-1] if fits else Sensitivity.PUBLIC.value


def _revoke_tokens_of_owner(instance: User, **kwargs: Any) -> None:
    """Nothing says any more what the owner might see."""
    with write_transaction():
        for uid in (
            AgentToken.objects.active().filter(owner=instance.get_username()).values_list("uid", flat=True)
        ):
            revoke_token(uid, system_actor("accounts"))


def connect_signals() -> None:
    """Tokens end with their owner's account, at whatever door it is deleted."""
    pre_delete.connect(_revoke_tokens_of_owner, sender=User, dispatch_uid="tokens end with their owner")


def token_actor(token: AgentToken) -> Actor:
    """Who acts with this token: the agent's name, and everything that the token may reach.

    Where membership confines its owner, no more than the owner sees at this moment.
    """
    reach = token.reach()
    if token.owner_is_confined and (owners := confined_owner_clearance(token.owner)) is not None:
        reach = reach.within(owners)
    return Actor(f"token:{token.name}", reach)


def hash_token(raw: str) -> str:
    return hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()


def _record_use(token: AgentToken, address: str, now: datetime) -> None:
    """At most once a minute, for a read must not become a write; a busy database does not make it fail."""
    if token.last_used_at and now - token.last_used_at < USE_WRITE_INTERVAL:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now)
    try:
        with write_transaction(patience=USE_WRITE_TIMEOUT):
            used = AgentToken.objects.filter(stale, pk=token.pk)
            used.update(last_used_at=now, last_used_from=address[:45])
    except OperationalError as error:
        logger.warning("the use of token %s was not noted: %s", token.prefix, error)


_CHANGEABLE_FIELDS = ("name", "clearance", "rights", "projects", "expires_at")


def _set_fields(
    token: AgentToken,
    name: str,
    clearance: str,
    rights: Iterable[str],
    projects: Iterable[str] | None,
    expires_at: datetime | None,
    now: datetime,
) -> None:
    token.name = _clean_name("name", name, 100)
    token.clearance = _clean_choices("clearance", [clearance], LEVELS)[0]
    token.rights = _clean_choices("rights", rights, RIGHTS)
    token.projects = _clean_projects(projects)
    if not token.rights:
        raise StoreError(f"a token needs at least one of: {', '.join(RIGHTS)}", "rights")
    if expires_at and expires_at <= now and expires_at != token.expires_at:
        raise StoreError("must lie in the future", "expires_at")
    token.expires_at = expires_at


def _require_within(token: AgentToken, within: Clearance | None) -> None:
    """A token reaches no further than who issues it: not in levels, not in projects."""
    wanted = token.reach()
    if within is None or within.covers(wanted):
        return
    if wanted.projects is None and within.projects is not None:
        named = ", ".join(sorted(within.projects)) or "no project is open to you"
        raise StoreError(f"name projects of your own: {named}", "projects")
    for project in token.projects:
        if not within.reaches(project):
            raise StoreError(f"{project} is not open to you; name projects of your own", "projects")
        if not wanted.levels <= within.levels_in(project):
            raise StoreError(f"you do not read {token.clearance} memories of {project}", "clearance")
    raise StoreError(f"you do not read {token.clearance} memories yourself", "clearance")


def _clean_projects(projects: Iterable[str] | None) -> list[str]:
    """The projects as a token keeps them, where empty means all: an empty list must not come to mean that."""
    if projects is None:
        return []
    named = sorted({_clean_name("projects", project, 200) for project in projects})
    if not named:
        raise StoreError("names no project; name at least one, or leave it out for all of them", "projects")
    return named


def _access_fields(token: AgentToken) -> dict[str, object]:
    return {"clearance": token.clearance, "rights": token.rights, "projects": token.projects}


def _token_change(operation: str, token: AgentToken, **detail: object) -> journal.Change:
    return journal.Change(operation, "token", token.uid, {"name": token.name, "owner": token.owner, **detail})


def _clean_name(field: str, value: str, longest: int) -> str:
    value = value.strip()
    if not value or len(value) > longest or not value.isprintable():
        raise StoreError(f"must be 1 to {longest} printable characters", field)
    return value


def _clean_choices(field: str, values: Iterable[str], allowed: tuple[str, ...]) -> list[str]:
    """The values in the order of the vocabulary, each once."""
    given = {value.strip() for value in values}
    if given - set(allowed):
        raise StoreError(f"must be of: {', '.join(allowed)}", field)
    return [value for value in allowed if value in given]
