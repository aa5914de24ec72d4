"""Sessions of handshake versions over HTTP, with signed ids that every worker process can verify.

An id contains the agreed version and is valid for one token and one toolset. It authenticates no one: the
token does that on every request. Ids of ended sessions are stored in Django's session table until they would
have expired.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.sessions.models import Session as SessionRow
from django.core import signing
from django.utils import timezone

from memoryhub.core.transactions import write_transaction
from memoryhub.models import AgentToken

SESSION_LIFETIME = timedelta(days=30)


@dataclass(frozen=True)
class McpSession:
    """``name``: the session id of stored memories and tool calls. ``version``: of the protocol."""

    name: str
    version: str


def new_session_name() -> str:
    return f"mcp-{secrets.token_hex(8)}"


def begin_session(token: AgentToken, toolset: str, version: str) -> str:
    """Return the id of a new session, for the header ``Mcp-Session-Id``."""
    return signing.dumps([new_session_name(), version], salt=_signing_salt(token, toolset))


def resume_session(raw: str, token: AgentToken, toolset: str) -> McpSession | None:
    """Return the session of an id; None if it is not of this token and toolset, expired or ended."""
    try:
        name, version = signing.loads(raw, salt=_signing_salt(token, toolset), max_age=SESSION_LIFETIME)
    except signing.BadSignature:
        return None
    return None if SessionRow.objects.filter(pk=_ended_key(raw)).exists() else McpSession(name, version)


def end_session(raw: str) -> None:
    """End a session for all worker processes."""
    now = timezone.now()
    with write_transaction():
        SessionRow.objects.filter(expire_date__lt=now).delete()
        SessionRow.objects.get_or_create(
            pk=_ended_key(raw), defaults={"session_data": "", "expire_date": now + SESSION_LIFETIME}
        )


def _signing_salt(token: AgentToken, toolset: str) -> str:
    return f"memoryhub.mcp:{toolset}:{token.uid}"


def _ended_key(raw: str) -> str:
    return hashlib.sha256(raw.encode()).hexdigest()[:40]
