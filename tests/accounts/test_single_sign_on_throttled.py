"""Failed single sign-on attempts are throttled like wrong passwords."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from memoryhub.accounts import sign_in
from memoryhub.models import JournalEntry
from tests.accounts.provider import Provider
from tests.accounts.sign_on_client import BACK, START, go, name_of, refused

pytestmark = pytest.mark.django_db


def come(client: Client, state: str) -> Any:
    return client.get(f"{BACK}?code=wrong-code&state={state}")


def begun(client: Client, provider: Provider) -> str:
    """Return a state that this browser has started."""
    return provider.agree(client.get(START)["Location"]).partition("state=")[2]


def fail(provider: Provider, times: int, address: str = "10.0.0.1") -> None:
    client = Client(REMOTE_ADDR=address)
    for _ in range(times):
        assert refused(come(client, begun(client, provider)))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sign_in, "PER_ADDRESS", 3)
    return 3


def test_flood_is_answered_429_without_asking_the_provider(provider: Provider, few: int) -> None:
    fail(provider, few)
    client = Client(REMOTE_ADDR="10.0.0.1")
    state = begun(client, provider)
    provider.broken = "token_endpoint"  # would be asked
    answer = come(client, state)
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= sign_in.FAILURE_WINDOW.total_seconds()
    assert "Wait 15 minutes" in answer.content.decode()
    assert JournalEntry.objects.filter(operation="login_refused").count() == few


def test_limit_equals_that_of_passwords_from_one_address(provider: Provider, few: int) -> None:
    fail(provider, few - 1)
    assert name_of(go(provider)[0]) == "ada"


def test_another_address_is_not_throttled(provider: Provider, few: int) -> None:
    fail(provider, few, address="10.0.0.2")
    assert name_of(go(provider)[0]) == "ada"


def test_login_works_again_when_the_failures_are_old(provider: Provider, few: int, rf: Any) -> None:
    fail(provider, few)
    request = rf.get(BACK, REMOTE_ADDR="10.0.0.1")
    assert sign_in.single_sign_on_wait(request)
    assert not sign_in.single_sign_on_wait(
        request, timezone.now() + sign_in.FAILURE_WINDOW + timedelta(seconds=1)
    )


def test_password_login_still_works(provider: Provider, few: int) -> None:
    User.objects.create_user("bob", password="a good password")
    fail(provider, few)
    client = Client(REMOTE_ADDR="10.0.0.1")
    page = come(client, "any").content.decode()
    assert '<form method="post" action="/login/"' in page
    client.post("/login/", {"username": "bob", "password": "a good password"})
    assert name_of(client) == "bob"


def test_wrong_passwords_do_not_throttle_single_sign_on(provider: Provider, few: int) -> None:
    for number in range(few):
        Client(REMOTE_ADDR="10.0.0.1").post("/login/", {"username": f"n{number}", "password": "guess"})
    assert name_of(go(provider)[0]) == "ada"


@pytest.mark.parametrize("query", ["error=access_denied", "code=c&state=s", ""])
def test_links_of_other_sites_do_not_count(provider: Provider, few: int, query: str) -> None:
    for _ in range(few + 1):
        assert Client(REMOTE_ADDR="10.0.0.1").get(f"{BACK}?{query}").status_code != 429
    assert not JournalEntry.objects.filter(operation="login_refused").exists()
    assert name_of(go(provider)[0]) == "ada"
