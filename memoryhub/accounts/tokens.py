"""Tokens of agents: create, find and revoke them, and show their names. The only module that writes them.

All changes are journaled, use is not. A token is 256 random bits behind a prefix that secret scanners
recognise. The store has only its SHA-256: a random secret needs no slower hash, and every request looks one
up.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.signals import pre_delete
from django.utils import timezone

from memoryhub.access.policy import (
    AGENT_PREFIX,
    LEVELS,
    Actor,
    Clearance,
    Sensitivity,
    level_rank,
    system_actor,
)
from memoryhub.accounts import identities
from memoryhub.accounts.clearance import confined_owner_clearance, user_clearance
from memoryhub.accounts.permissions import grantable_rights
from memoryhub.audit import journal
from memoryhub.backends.statements import column_names, to_object
from memoryhub.core.database import side_write, write_transaction
from memoryhub.core.vocabulary import RIGHTS
from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.models import AgentToken, OAuthClient, Profile
from memoryhub.models.account import default_rights

PREFIX = "mh_"
_PREFIX_CHARS = 10  # characters of a token shown in lists
_MAX_NAME_CHARS = 100
# Runs on every request, several times faster than through the ORM. Includes whether the owner's account, if
# there is one, is active and confined.
_TOKEN_SQL = (
    f"SELECT {column_names(AgentToken, 't.')}, u.is_active, p.confined"  # noqa: S608 constants
    f" FROM {AgentToken._meta.db_table} t LEFT JOIN {User._meta.db_table} u ON u.username = t.owner"
    f" LEFT JOIN {Profile._meta.db_table} p ON p.user_id = u.id WHERE t.digest = %s"
)
USE_WRITE_TIMEOUT = 0.1  # seconds to wait for a busy database before the use is not recorded
USE_WRITE_INTERVAL = timedelta(minutes=1)


def generate_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


@dataclass(frozen=True)
class OAuthGrant:
    """The client of a token, the only MCP server that accepts it, and when its secret must be refreshed."""

    client: OAuthClient
    audience: str
    secret_until: datetime


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
    oauth: OAuthGrant | None = None,
) -> tuple[AgentToken, str]:
    """Create a token; return its row and the raw token, which cannot be read again.

    ``rights`` default to read and write. ``projects`` None means all; an empty list is refused, because
    it could be meant as none. ``within``: clearance of the issuer; a token beyond it is refused.
    ``oauth``: the OAuth client that gets the token. Raise :class:`StoreError` with the name of an invalid
    value.
    """
    now = now or timezone.now()
    token = build_token(name, owner, clearance, rights, projects, within, expires_at, now)
    about = _access_fields(token)
    if oauth is not None:
        token.client, token.audience, token.secret_until = oauth.client, oauth.audience, oauth.secret_until
        about["client"] = oauth.client.uid
    raw = _new_secret(token)
    with write_transaction():
        token.save()
        _record(actor, "issue", token, now, **about)
    return token, raw


def build_token(
    name: str,
    owner: str,
    clearance: str,
    rights: Iterable[str] | None,
    projects: Iterable[str] | None,
    within: Clearance | None,
    expires_at: datetime | None,
    now: datetime,
) -> AgentToken:
    """Return a valid token without a secret, not saved: see :func:`issue_token`."""
    if identities.is_former_username(owner.strip()):
        raise StoreError("the account with this name was deleted; choose an existing or a new owner", "owner")
    token = AgentToken(owner=_clean_name("owner", owner, 150), created_at=now)
    _set_fields(
        token, name, clearance, default_rights() if rights is None else rights, projects, expires_at, now
    )
    _require_within(token, within)
    return token


def suggest_name(name: str, owner: str) -> str:
    """Return a default name for a person's agent, with the person if the agent of someone else has the name.

    Author and cap of a memory depend on the name of its agent.
    """
    is_taken = AgentToken.objects.ever_named(name).exclude(owner=owner).exists()
    return f"{name}-{owner}"[:_MAX_NAME_CHARS] if is_taken else name


def _new_secret(token: AgentToken) -> str:
    """Set a new secret of a token, without saving it, and return it."""
    raw = generate_secret()
    token.prefix, token.digest = raw[:_PREFIX_CHARS], hash_token(raw)
    return raw


def renew_secret(token: AgentToken, until: datetime) -> str:
    """Replace the secret of an OAuth client's token and return the new one."""
    raw = _new_secret(token)
    token.secret_until = until
    token.save(update_fields=["prefix", "digest", "secret_until"])
    return raw


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
    """Change everything about a token but its owner.

    ``projects`` None means all. ``within``: as in :func:`issue_token`. Raise :class:`NotFound`,
    :class:`Conflict` if the token is revoked, and :class:`StoreError` with the name of an invalid value.
    """
    now = now or timezone.now()
    with write_transaction():
        token = _get_token(uid)
        if token.revoked_at:
            raise Conflict("this token is revoked; create another one")
        before = {field: getattr(token, field) for field in _CHANGEABLE_FIELDS}
        _set_fields(token, name, clearance, rights, projects, expires_at, now)
        _require_within(token, within)
        changed = [field for field in _CHANGEABLE_FIELDS if getattr(token, field) != before[field]]
        if changed:
            _save_changes(token, changed, actor, now)
    return token


def authenticate_token(
    raw: str, address: str = "", now: datetime | None = None, audience: str = ""
) -> AgentToken | None:
    """Return the valid token and record its use; None if it is invalid or its owner's account is closed.

    ``audience``: where it is used. An OAuth token is valid at its own audience alone.
    """
    if not raw.startswith(PREFIX):
        return None
    now = now or timezone.now()
    token = _find_by_digest(hash_token(raw))
    if token is None or token.has_ended(now) or token.owner_is_gone:
        return None
    if token.client_id is not None and not _is_usable_at(token, audience, now):
        return None
    _record_use(token, address, now)
    return token


def _is_usable_at(token: AgentToken, audience: str, now: datetime) -> bool:
    """Whether the token of an OAuth client is meant for this audience and need not be refreshed."""
    is_fresh = token.secret_until is not None and token.secret_until > now
    return is_fresh and bool(audience) and token.audience == audience


def _find_by_digest(value: str) -> AgentToken | None:
    with connection.cursor() as cursor:
        row = cursor.execute(_TOKEN_SQL, [value]).fetchone()
    if row is None:
        return None
    *cells, is_active, is_confined = row
    token = to_object(AgentToken, cells)
    token.owner_is_gone, token.owner_is_confined = is_active == 0, bool(is_confined)
    return token


def revoke_token(uid: str, actor: Actor, now: datetime | None = None, **detail: object) -> AgentToken:
    """Revoke a token at once. Revoking twice changes nothing. ``detail``: for the journal.

    Raise :class:`NotFound` if it does not exist.
    """
    now = now or timezone.now()
    with write_transaction():
        token = _get_token(uid)
        if token.revoked_at is None:
            token.revoked_at = now
            token.save(update_fields=["revoked_at"])
            _record(actor, "revoke", token, now, **detail)
    return token


def rotate_token(uid: str, actor: Actor, within: Clearance | None = None) -> tuple[AgentToken, str]:
    """Replace the secret of a token; return its row and the new raw token. The old one stops working.

    ``within``: as in :func:`issue_token`. Raise :class:`NotFound`, and :class:`Conflict` if the token is
    revoked, expired, or renewed by its app.
    """
    now = timezone.now()
    with write_transaction():
        token = _get_token(uid)
        if token.has_ended(now):
            raise Conflict("this token is revoked or expired; create another one")
        if token.client_id is not None:
            raise Conflict("its app renews this token by itself; revoke it and connect the app again")
        _require_within(token, within)
        raw = _new_secret(token)
        token.last_used_at, token.last_used_from, token.waiting_events = None, "", 0
        token.save(update_fields=["prefix", "digest", "last_used_at", "last_used_from", "waiting_events"])
        _record(actor, "rotate", token, now)
    return token, raw


def _get_token(uid: str) -> AgentToken:
    token: AgentToken | None = AgentToken.objects.filter(uid=uid).first()
    if token is None:
        raise NotFound("this token does not exist")
    return token


def reduce_tokens_to_owner(owner: User, actor: Actor) -> list[AgentToken]:
    """Remove from a person's tokens the levels and rights that they lack; return the changed tokens.

    Call it after their rights changed, with a freshly loaded ``owner``. A token without any right left
    is revoked. Projects are checked on every request: see :func:`token_actor`.
    """
    now = timezone.now()
    changed = []
    with write_transaction():
        for token in AgentToken.objects.active(now).filter(owner=owner.get_username()):
            clearance = _lower_clearance(token.clearance, user_clearance(owner).levels_in_any_project())
            rights = [right for right in token.rights if right in grantable_rights(owner)]
            fields = ["clearance"] * (clearance != token.clearance) + ["rights"] * (rights != token.rights)
            if not fields:
                continue
            changed.append(token)
            if not rights:
                revoke_token(token.uid, actor, now)
                continue
            token.clearance, token.rights = clearance, rights
            _save_changes(token, fields, actor, now)
    return changed


def _lower_clearance(clearance: str, levels: frozenset[str]) -> str:
    """Return the highest clearance up to this one whose levels are all allowed; at least public."""
    allowed = [one for one in LEVELS[: level_rank(clearance) + 1] if Clearance.up_to(one).levels <= levels]
    return allowed[-1] if allowed else Sensitivity.PUBLIC.value


def _revoke_tokens_of_owner(instance: User, **kwargs: Any) -> None:
    with write_transaction():
        for token in AgentToken.objects.active().filter(owner=instance.get_username()):
            revoke_token(token.uid, system_actor("accounts"))


def connect_signals() -> None:
    """Revoke the tokens of an account when it is deleted."""
    pre_delete.connect(_revoke_tokens_of_owner, sender=User, dispatch_uid="tokens end with their owner")


def token_actor(token: AgentToken) -> Actor:
    """Return the actor of a token: the agent's name and the token's clearance.

    If memberships confine its owner, the clearance is limited to what the owner sees now.
    """
    clearance = token.full_clearance()
    if token.owner_is_confined and (owner := confined_owner_clearance(token.owner)) is not None:
        clearance = clearance.within(owner)
    return Actor(f"{AGENT_PREFIX}{token.name}", clearance)


def hash_token(raw: str) -> str:
    return hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()


def _record_use(token: AgentToken, address: str, now: datetime) -> None:
    """Record the last use, at most once a minute: a read must not become a write."""
    if token.last_used_at and now - token.last_used_at < USE_WRITE_INTERVAL:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now)
    used = AgentToken.objects.filter(stale, pk=token.pk)
    values = {"last_used_at": now, "last_used_from": address[:45]}
    side_write(f"use of token {token.prefix} not recorded", partial(used.update, **values), USE_WRITE_TIMEOUT)


def record_waiting(token: AgentToken, count: int) -> None:
    """Record how many events wait on the agent's machine, if that has changed."""
    if count != token.waiting_events:
        found = AgentToken.objects.filter(pk=token.pk)
        what = f"waiting events of token {token.prefix} not recorded"
        side_write(what, partial(found.update, waiting_events=count), USE_WRITE_TIMEOUT)


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
    token.name = _clean_name("name", name, _MAX_NAME_CHARS)
    token.clearance = _clean_choices("clearance", [clearance], LEVELS)[0]
    token.rights = _clean_choices("rights", rights, RIGHTS)
    token.projects = _clean_projects(projects)
    if not token.rights:
        raise StoreError(f"a token needs at least one of: {', '.join(RIGHTS)}", "rights")
    if expires_at and expires_at <= now and expires_at != token.expires_at:
        raise StoreError("must be in the future", "expires_at")
    token.expires_at = expires_at


def _require_within(token: AgentToken, within: Clearance | None) -> None:
    """Refuse a token with levels or projects that its issuer does not have."""
    clearance = token.full_clearance()
    if within is None or within.covers(clearance):
        return
    if clearance.projects is None and within.projects is not None:
        named = ", ".join(sorted(within.projects)) or "you have none"
        raise StoreError(f"choose from your own projects: {named}", "projects")
    for project in token.projects:
        if not within.includes_project(project):
            raise StoreError(f"you do not see {project}; choose from your own projects", "projects")
        if not clearance.levels <= within.levels_in(project):
            raise StoreError(f"you cannot read {token.clearance} memories of {project}", "clearance")
    raise StoreError(f"you cannot read {token.clearance} memories yourself", "clearance")


def _clean_projects(projects: Iterable[str] | None) -> list[str]:
    """Return the projects as stored, where an empty list means all; refuse an empty list as input."""
    if projects is None:
        return []
    named = sorted({_clean_name("projects", project, 200) for project in projects})
    if not named:
        raise StoreError("is empty; list at least one project, or omit it for all", "projects")
    return named


def _access_fields(token: AgentToken) -> dict[str, object]:
    return {"clearance": token.clearance, "rights": token.rights, "projects": token.projects}


def _save_changes(token: AgentToken, fields: list[str], actor: Actor, now: datetime) -> None:
    token.save(update_fields=fields)
    _record(actor, "update", token, now, fields=fields, **_access_fields(token))


def _record(actor: Actor, operation: str, token: AgentToken, now: datetime, **detail: object) -> None:
    about = {"name": token.name, "owner": token.owner, **detail}
    journal.record(actor, [journal.Change(operation, "token", token.uid, about)], now)


def _clean_name(field: str, value: str, max_chars: int) -> str:
    value = value.strip()
    if not value or len(value) > max_chars or not value.isprintable():
        raise StoreError(f"must be 1 to {max_chars} printable characters", field)
    return value


def _clean_choices(field: str, values: Iterable[str], allowed: tuple[str, ...]) -> list[str]:
    """Return the values without duplicates, in the order of the vocabulary."""
    chosen = {value.strip() for value in values}
    if chosen - set(allowed):
        raise StoreError(f"must be of: {', '.join(allowed)}", field)
    return [value for value in allowed if value in chosen]


MAX_AGENTS = 200
_KNOWN_NAMES = {
    "antigravity-cli": "Antigravity CLI",
    "claude-code": "Claude Code",
    "claude-desktop": "Claude Desktop",
    "codex": "Codex",
    "copilot-cli": "Copilot CLI",
    "cursor": "Cursor",
    "gemini-cli": "Gemini CLI",
    "opencode": "OpenCode",
    "vscode": "VS Code",
    "windsurf": "Windsurf",
}


def actor_label(actor: str, owners: Mapping[str, str] | None = None) -> str:
    """Return the name of an actor for people, like ``Claude Code (mara)``. ``owners``: by agent."""
    kind, _, name = actor.partition(":")
    if not name:
        return actor
    if kind == AGENT_PREFIX.rstrip(":"):
        label, owner = _KNOWN_NAMES.get(name, name), (owners or {}).get(name)
        return f"{label} ({owner})" if owner else label
    if kind == "system":
        return f"memoryhub ({name.replace('-', ' ').replace('_', ' ')})"
    return f"{name} (command line)" if kind == "command" else name if kind == "user" else actor


def visible_tokens(clearance: Clearance) -> QuerySet[AgentToken]:
    """Return the person's own tokens, and all of them for managers of tokens."""
    tokens: QuerySet[AgentToken] = AgentToken.objects.all()
    return tokens if clearance.every_token else tokens.filter(owner=clearance.owner)


def agent_owners(clearance: Clearance) -> list[tuple[str, str]]:
    """Return the agents of visible tokens with their owners, in one query."""
    tokens = visible_tokens(clearance).order_by().values_list("name", "owner").distinct()
    return list(tokens[:MAX_AGENTS])


def unambiguous_owners(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the owners by agent, without agents of this name of several people."""
    owners: dict[str, set[str]] = {}
    for name, owner in pairs:
        owners.setdefault(name, set()).add(owner)
    return {name: min(people) for name, people in owners.items() if len(people) == 1}
