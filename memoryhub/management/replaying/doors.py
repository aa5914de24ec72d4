"""Two ways to the API of a hub: of this process, with a token for the occasion, or by HTTP."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.test import Client
from django.utils import timezone

from memoryhub.sensitivity import Actor, Sensitivity
from memoryhub.team import tokens

TIMEOUT = 30  # seconds for one answer
PATIENCE = 5  # times that a busy hub is asked again
_BUSY = (429, 503)


class Refused(Exception):
    """The hub's answer was not 2xx. ``final``: so will be every other (no access, no hub)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.final = status in (0, 401, 403)


class Door(Protocol):
    """Where requests to ``/api/v1`` go. ``where`` names the store for a person."""

    where: str

    def ask(self, method: str, path: str, query: dict[str, Any], body: Any = None) -> Any:
        """The JSON of the answer; Refused when it is not 2xx."""


class Inside:
    """The hub of this process."""

    def __init__(self, token: str) -> None:
        self.where = f"the store {settings.DATABASES['default']['NAME']}"
        named = [host.lstrip(".") for host in settings.ALLOWED_HOSTS if host != "*"]
        self._client = Client(SERVER_NAME=named[0] if named else "localhost")
        self._token = token

    def ask(self, method: str, path: str, query: dict[str, Any], body: Any = None) -> Any:
        answer = self._client.generic(
            method,
            f"/api/v1{path}?{urlencode(query)}",
            json.dumps(body) if body is not None else "",
            "application/json",
            secure=True,
            headers={"Authorization": f"Bearer {self._token}"},
        )
        return _understood(answer.status_code, answer.content)


class Outside:
    """A running hub at an address like ``http://127.0.0.1:8000``."""

    def __init__(self, url: str, token: str) -> None:
        self.where = f"the hub at {url}"
        self._url, self._token = url.rstrip("/"), token

    def ask(self, method: str, path: str, query: dict[str, Any], body: Any = None) -> Any:
        for attempt in range(PATIENCE + 1):
            status, content, wait = self._request(method, path, query, body)
            if status not in _BUSY or attempt == PATIENCE:
                break
            time.sleep(wait)
        return _understood(status, content)

    def _request(self, method: str, path: str, query: dict[str, Any], body: Any) -> tuple[int, bytes, float]:
        """Status, body, and the seconds to wait if the hub is busy. Status 0: no hub answers there."""
        request = urllib.request.Request(  # noqa: S310 is_address has looked at the scheme
            f"{self._url}/api/v1{path}?{urlencode(query)}",
            json.dumps(body).encode() if body is not None else None,
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
                return answer.status, answer.read(), 0
        except urllib.error.HTTPError as error:
            wait = error.headers.get("Retry-After", "1")
            return error.code, error.read(), float(wait) if wait.isdigit() else 1.0
        except OSError as error:
            return 0, f"no answer: {getattr(error, 'reason', error)}".encode(), 0


def is_address(url: str) -> bool:
    """Whether this may be a hub's address."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.netloc)


@contextmanager
def inside(actor: Actor, name: str) -> Iterator[Inside]:
    """A door into this process's store, by a token that ends with the block."""
    day = timezone.now() + timedelta(days=1)
    level = Sensitivity.SECRET.value
    token, raw = tokens.issue_token(name, name, level, ("read", "write"), actor=actor, expires_at=day)
    try:
        yield Inside(raw)
    finally:
        tokens.revoke(token.uid, actor)


def _understood(status: int, content: bytes) -> Any:
    try:
        said = json.loads(content)
    except ValueError:
        said = None
    if 200 <= status < 300 and said is not None:
        return said
    if isinstance(said, dict):
        errors = [f"{one.get('field')}: {one.get('message')}" for one in said.get("errors") or []]
        message = "; ".join(errors) or str(said.get("detail") or said.get("title") or "")
    else:
        message = (
            content[:200].decode("utf-8", "replace") if status == 0 else "the answer is not that of a hub"
        )
    raise Refused(status if status != 200 else 502, message)
