"""Single sign-on in a test client: to the provider and back."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user
from django.test import Client

from tests.accounts.provider import Provider

START, BACK = "/login/organisation/", "/login/organisation/back/"


def go(provider: Provider, client: Client | None = None, start: str = START) -> tuple[Client, Any]:
    """Log in through the provider; return the client and the response."""
    client = client or Client(REMOTE_ADDR="10.0.0.1")
    redirect = client.get(start)
    assert redirect.status_code == 302
    return client, client.get(f"{BACK}?{provider.agree(redirect['Location'])}")


def name_of(client: Client) -> str:
    """Return the name of the logged-in person."""
    return str(get_user(client).get_username())  # type: ignore[arg-type]  # a client has a session too


def refused(answer: Any) -> bool:
    return answer.status_code == 302 and answer["Location"] == "/login/?failed=1"
