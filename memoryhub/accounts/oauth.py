"""OAuth 2.1 for hosted agents: clients, their approval, authorization codes and refresh tokens.

A client registers itself (RFC 7591) and can do nothing until a person approves it. What a person grants to
it is an agent token (:mod:`memoryhub.accounts.tokens`), so there is one mechanism for access: owner, rights,
clearance and projects. A refresh gives the token a new secret. A code or refresh token that is used twice
may be stolen, so the second use revokes the token, unless it repeats a refresh whose response was lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.utils import timezone
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from memoryhub.access.policy import Actor
from memoryhub.accounts import tokens
from memoryhub.accounts.clearance import user_clearance
from memoryhub.accounts.permissions import CHANGE_TOKEN, grantable_rights
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.dates import parse_moment
from memoryhub.core.vocabulary import RIGHTS
from memoryhub.memories.errors import Forbidden, StoreError
from memoryhub.models import AgentToken, OAuthClient, OAuthCode, OAuthRefresh
from memoryhub.models.account import default_rights

SECRET_LIFETIME = timedelta(hours=1)  # of an access token
CODE_LIFETIME = timedelta(minutes=1)
REFRESH_LIFETIME = timedelta(days=30)  # without use
REFRESH_GRACE = timedelta(minutes=1)  # in which a client may repeat a refresh, because the response was lost
PENDING_LIFETIME = timedelta(hours=24)  # of a client that no person approved
MAX_PENDING = 100
PENDING_LIFETIME_AT_CAP = timedelta(hours=1)
AUTH_METHODS = ("none", "client_secret_post", "client_secret_basic")
_ANONYMOUS = Actor("anonymous")
# https, or http to the person's own machine (RFC 8252): origin, port and the rest. No user name, no fragment,
# and no character that could end a directive of the content security policy.
_REDIRECT_URI = re.compile(
    r"(https://[A-Za-z0-9.-]+|http://(?:127\.0\.0\.1|localhost))(:\d{1,5})?"
    r"((?:[/?][A-Za-z0-9\-._~:/?\[\]@!$&*+,;=%()]*)?)",
    re.ASCII,
)


@dataclass
class RegistrationRefused(Exception):
    """``error``: a code of RFC 7591. The description repeats no value of the request."""

    error: str
    description: str
    status: int = 400


class ClientMetadata(BaseModel):
    """The metadata of RFC 7591 that the hub uses. Nothing else is stored or fetched."""

    model_config = ConfigDict(strict=True, extra="ignore")

    redirect_uris: list[str] = Field(min_length=1, max_length=10)
    client_name: str = Field("", max_length=100)
    token_endpoint_auth_method: Literal["none", "client_secret_post", "client_secret_basic"] = (
        "client_secret_basic"  # noqa: S105 name of a method
    )
    grant_types: list[str] = Field(["authorization_code"], max_length=20)
    response_types: list[str] = Field(["code"], max_length=20)

    @field_validator("redirect_uris")
    @classmethod
    def _check_redirect_uris(cls, uris: list[str]) -> list[str]:
        if any(len(uri) > 500 or not _REDIRECT_URI.fullmatch(uri) for uri in uris):
            raise ValueError("each must be an https address, or http to 127.0.0.1 or localhost")
        return uris

    @field_validator("client_name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if name and not name.isprintable():
            raise ValueError("must be printable characters")
        return name.strip()

    @field_validator("grant_types", "response_types")
    @classmethod
    def _check_types(cls, types: list[str]) -> list[str]:
        if not {"authorization_code", "code"} & set(types):
            raise ValueError("this hub supports only the authorization code grant")
        return types


def resource_url(toolset: str) -> str:
    """Return the address of an MCP server: what its OAuth tokens are bound to. Empty without OAuth."""
    return f"{settings.PUBLIC_URL}/mcp/{toolset}" if settings.PUBLIC_URL else ""


def challenge(toolset: str) -> str:
    """Return the ``WWW-Authenticate`` of an MCP server (RFC 9728). Empty without OAuth."""
    if not settings.PUBLIC_URL:
        return ""
    where = f"{settings.PUBLIC_URL}/.well-known/oauth-protected-resource/mcp/{toolset}"
    return f'Bearer realm="memoryhub", resource_metadata="{where}", scope="{" ".join(default_rights())}"'


def resource_metadata(toolset: str) -> dict[str, Any]:
    """Describe an MCP server (RFC 9728)."""
    return {
        "resource": resource_url(toolset),
        "resource_name": f"memoryhub ({toolset})",
        "authorization_servers": [settings.PUBLIC_URL],
        "scopes_supported": default_rights(),
        "bearer_methods_supported": ["header"],
    }


def server_metadata() -> dict[str, Any]:
    """Describe the authorization server (RFC 8414)."""
    issuer = settings.PUBLIC_URL
    registration = {"registration_endpoint": f"{issuer}/api/v1/oauth/register"}
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize/",
        "token_endpoint": f"{issuer}/api/v1/oauth/token",
        "revocation_endpoint": f"{issuer}/api/v1/oauth/revoke",
        **(registration if settings.MEMORYHUB.oauth_registration else {}),
        "scopes_supported": list(RIGHTS),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": list(AUTH_METHODS),
        "revocation_endpoint_auth_methods_supported": list(AUTH_METHODS),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        # To fetch a document from an address that a stranger names is not worth the risk.
        "client_id_metadata_document_supported": False,
    }


def normalize_resource(uri: str) -> str:
    """Return a resource without differences that do not matter: case of the host, slash at the end."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    if parts.query or parts.fragment:
        return ""
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def register_client(metadata: Any, address: str) -> tuple[OAuthClient, str]:
    """Store a client that waits for approval; return it and its secret, empty for a public client."""
    now = timezone.now()
    try:
        found = ClientMetadata.model_validate(metadata)
    except ValidationError as error:
        raise _refusal(error) from None
    is_public = found.token_endpoint_auth_method == "none"  # noqa: S105 name of a method
    secret = "" if is_public else tokens.generate_secret()
    client = OAuthClient(
        redirect_uris=found.redirect_uris,
        auth_method=found.token_endpoint_auth_method,
        secret_digest=tokens.hash_token(secret) if secret else "",
        registered_at=now,
        registered_from=address[:45],
    )
    client.name = found.client_name or client.hosts[0]
    with write_transaction():
        _prune(now)
        waiting = OAuthClient.objects.filter(approved_at=None)
        if waiting.count() >= MAX_PENDING:  # else a flood would close registration for a day
            waiting.filter(registered_at__lte=now - PENDING_LIFETIME_AT_CAP).delete()
        if waiting.count() >= MAX_PENDING:
            raise RegistrationRefused("temporarily_unavailable", "too many clients wait for approval", 429)
        client.save()
        journal.record(
            _ANONYMOUS, [_client_change("register", client, **{"from": client.registered_from})], now
        )
    return client, secret


def _refusal(error: ValidationError) -> RegistrationRefused:
    """Return the first error of invalid metadata."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = str(first["loc"][0]) if first["loc"] else "body"
    code = "invalid_redirect_uri" if field == "redirect_uris" else "invalid_client_metadata"
    return RegistrationRefused(code, f"{field}: {str(first['msg']).removeprefix('Value error, ')}")


def usable_clients(now: datetime | None = None) -> QuerySet[OAuthClient]:
    """Return the clients that are approved, and those that may still be."""
    waiting = Q(registered_at__gt=(now or timezone.now()) - PENDING_LIFETIME)
    return OAuthClient.objects.filter(waiting | Q(approved_at__isnull=False), removed_at=None)


def accepts_redirect(client: OAuthClient, uri: str) -> bool:
    """Whether a redirect URI is exactly one that the client registered.

    On the person's own machine the port may differ: a program learns it when it starts (RFC 8252, 7.3).
    """
    given = _REDIRECT_URI.fullmatch(uri)
    if given is None or uri in client.redirect_uris:
        return given is not None
    return uri.startswith("http://") and any(
        known is not None and known.group(1, 3) == given.group(1, 3)
        for known in map(_REDIRECT_URI.fullmatch, client.redirect_uris)
    )


def redirect_origin(uri: str) -> str:
    """Return scheme, host and port of a valid redirect URI."""
    found = _REDIRECT_URI.fullmatch(uri)
    return f"{found[1]}{found[2] or ''}" if found else ""


def approve_client(client: OAuthClient, user: User, actor: Actor) -> None:
    """Approve a client. Forbidden without the permission."""
    if not user.has_perm(CHANGE_TOKEN):
        raise Forbidden("you need the permission to manage tokens to approve an app")
    now = timezone.now()
    with write_transaction():
        if OAuthClient.objects.filter(pk=client.pk, approved_at=None).update(
            approved_at=now, approved_by=user.get_username()
        ):
            change = _client_change("approve", client, owner=user.get_username())
            journal.record(actor, [change], now)
    client.refresh_from_db()


def remove_client(uid: str, user: User, actor: Actor) -> OAuthClient | None:
    """Withdraw the approval of a client and revoke every token that it has; None if there is none."""
    if not user.has_perm(CHANGE_TOKEN):
        raise Forbidden("you need the permission to manage tokens to remove an app")
    now = timezone.now()
    with write_transaction():
        client = usable_clients(now).filter(uid=uid).first()
        if client is None:
            return None
        client.removed_at = now
        client.save(update_fields=["removed_at"])
        journal.record(actor, [_client_change("remove", client, owner=user.get_username())], now)
        for token in AgentToken.objects.active(now).filter(client=client):
            tokens.revoke_token(token.uid, actor, now)
    return client


def create_code(
    raw: str,
    client: OAuthClient,
    user: User,
    *,
    redirect_uri: str,
    audience: str,
    code_challenge: str,
    grant: Mapping[str, Any],
) -> None:
    """Store what a person grants to an approved client until the client collects it.

    ``grant``: name, clearance, rights, projects and expires_at, as in :func:`tokens.issue_token`.
    StoreError names an invalid value.
    """
    now = timezone.now()
    if client.approved_at is None:
        raise Forbidden("no person has approved this app")
    tokens.build_token(**grant, owner=user.get_username(), within=user_clearance(user), now=now)
    ends = grant["expires_at"]
    with write_transaction():
        _prune(now)
        OAuthCode.objects.create(
            digest=tokens.hash_token(raw),
            client=client,
            user=user,
            redirect_uri=redirect_uri,
            audience=audience,
            code_challenge=code_challenge,
            grant={**grant, "expires_at": ends and ends.isoformat()},
            expires_at=now + CODE_LIFETIME,
        )


def find_code(raw: str, client: OAuthClient) -> OAuthCode | None:
    """Return a valid code of this client. A used code revokes the token that it gave."""
    codes = OAuthCode.objects.select_related("client", "user", "token")
    code = codes.filter(digest=tokens.hash_token(raw), client=client).first()
    if code is None:
        return None
    if code.used_at is not None:
        _revoke_reused(code.token, "authorization code")
        return None
    return code if code.expires_at > timezone.now() and code.user.is_active else None


def redeem_code(code: OAuthCode) -> dict[str, Any] | None:
    """Exchange a code for a token, within what its person may grant now. None if that is nothing."""
    now, user, grant = timezone.now(), code.user, dict(code.grant)
    grant["rights"] = [right for right in grant["rights"] if right in grantable_rights(user)]
    ends = grant.pop("expires_at")
    name = user.get_username()
    clearance = user_clearance(user)
    try:
        token, raw = tokens.issue_token(
            owner=name,
            actor=Actor(f"user:{name}", clearance),
            within=clearance,
            expires_at=parse_moment(ends),
            now=now,
            oauth=tokens.OAuthGrant(code.client, code.audience, now + SECRET_LIFETIME),
            **grant,
        )
    except StoreError:
        return None
    code.used_at, code.token = now, token
    code.save(update_fields=["used_at", "token"])
    return _token_response(token, raw, now)


def find_refresh(raw: str) -> OAuthRefresh | None:
    """Return a valid refresh token. A used one revokes its grant, unless it may repeat its refresh."""
    found = OAuthRefresh.objects.select_related("token__client").filter(digest=tokens.hash_token(raw)).first()
    if found is None:
        return None
    now, token = timezone.now(), found.token
    if found.used_at is not None and not _may_repeat(found, found.used_at, now):
        _revoke_reused(token, "refresh token")
        return None
    is_owned = User.objects.filter(username=token.owner, is_active=True).exists()
    return found if found.expires_at > now and not token.has_ended(now) and is_owned else None


def _may_repeat(found: OAuthRefresh, used_at: datetime, now: datetime) -> bool:
    """Whether a refresh token was just used, and no later one of its grant was."""
    later = OAuthRefresh.objects.filter(token=found.token, used_at__gt=used_at)
    return now - REFRESH_GRACE < used_at <= now and not later.exists()


def redeem_refresh(found: OAuthRefresh) -> dict[str, Any]:
    """Exchange a refresh token for new secrets of its grant. A repeat replaces those of the first time."""
    now, token = timezone.now(), found.token
    if found.used_at is None:
        found.used_at = now
        found.save(update_fields=["used_at"])
    else:
        # They count as used a minute ago, so they cannot be repeated: if a thief repeated the refresh, the
        # next one of the app revokes the grant.
        OAuthRefresh.objects.filter(token=token, used_at=None).update(used_at=now - REFRESH_GRACE)
    return _token_response(token, tokens.renew_secret(token, now + SECRET_LIFETIME), now)


def find_grant(raw: str) -> AgentToken | None:
    """Return the grant of an access or refresh token."""
    digest = tokens.hash_token(raw)
    grants = AgentToken.objects.select_related("client").filter(client__isnull=False)
    named = OAuthRefresh.objects.filter(digest=digest).values("token")
    return grants.filter(Q(digest=digest) | Q(pk__in=named)).first()


def _token_response(token: AgentToken, raw: str, now: datetime) -> dict[str, Any]:
    refresh, ends = tokens.generate_secret(), now + REFRESH_LIFETIME
    OAuthRefresh.objects.create(digest=tokens.hash_token(refresh), token=token, expires_at=ends)
    until = min(filter(None, (token.secret_until, token.expires_at)))
    return {
        "access_token": raw,
        "token_type": "Bearer",
        "expires_in": int((until - now).total_seconds()),
        "refresh_token": refresh,
        "scope": " ".join(token.rights),
    }


def _revoke_reused(token: AgentToken | None, what: str) -> None:
    if token is not None and token.revoked_at is None:
        tokens.revoke_token(token.uid, _ANONYMOUS, reused=what)


def _prune(now: datetime) -> None:
    """Delete what has expired: clients that no person approved, codes, refresh tokens.

    A used code or refresh token stays until it expires, so that a second use is noticed.
    """
    OAuthClient.objects.filter(approved_at=None, registered_at__lte=now - PENDING_LIFETIME).delete()
    OAuthCode.objects.filter(expires_at__lte=now - PENDING_LIFETIME).delete()
    OAuthRefresh.objects.filter(expires_at__lte=now).delete()


def _client_change(operation: str, client: OAuthClient, **detail: object) -> journal.Change:
    about = {"name": client.name, "hosts": client.hosts, **detail}
    return journal.Change(operation, "client", client.uid, about)
