"""Sessions of the handshake's era over HTTP: ids that any worker process can verify by itself.

An id is signed and says the version that was agreed on; it is good for one token at one toolset. It lets
nobody in: the token does that, with every request. Ids that a client has ended are kept where Django keeps
its own sessions, until they would have run out.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.sessions.models import Session as Row
from django.core import signing
from django.utils import timezone

from memoryhub.core.transactions import write_transaction
from memoryhub.models import AgentToken

SESSION_LIFETIME = timedelta(days=30)


@dataclass(frozen=True)
class McpSession:
    """``name``: what tools and stored memories know it by. ``version``: of the protocol."""

    name: str
    version: str


def new_session_name() -> str:
    return f"mcp-{secrets.token_hex(8)}"


def begin_session(token: AgentToken, toolset: str, version: str) -> str:
    """A new session's id, for the header ``Mcp-Session-Id``."""
    return signing.dumps([new_session_name(), version], salt=_signing_salt(token, toolset))


def resume_session(raw: str, token: AgentToken, toolset: str) -> McpSession | None:
    """The session under this id; None when it was never one of this token here, has run out or was ended."""
    try:
        name, version = signing.loads(raw, salt=_signing_salt(token, toolset), max_age=SESSION_LIFETIME)
    except signing.BadSignature:
        return None
    return None if Row.objects.filter(pk=_ended_key(raw)).exists() else McpSession(name, version)


def end_session(raw: str) -> None:
    """No worker takes this id from now on."""
    now = timezone.now()
    with write_transaction():
        Row.objects.filter(expire_date__lt=now).delete()
        Row.objects.get_or_create(
            pk=_ended_key(raw), defaults={"session_data": "", "expire_date": now + SESSION_LIFETIME}
        )


def _signing_salt(token: AgentToken, toolset: str) -> str:
    return f"memoryhub.mcp:{toolset}:{token.uid}"


def _ended_key(raw: str) -> str:
    return hashlib.sha256(raw.encode()).hexdigest()[:40]
