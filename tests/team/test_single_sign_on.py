"""Signing in through an OpenID Connect provider, against a small one on loopback; off by default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub import environment
from memoryhub.conf import ConfigError
from memoryhub.models import JournalEntry
from tests.team.conftest import seen
from tests.team.provider import CLIENT, OTHER_KEY, SECRET, Provider, serve

pytest.importorskip("mozilla_django_oidc")
START, BACK = "/login/organisation/", "/login/organisation/back/"


@pytest.fixture
def provider(settings: Any, db: None) -> Iterator[Provider]:
    """The hub knows this provider; ada has an account with her address."""
    one = Provider()
    server = serve(one)
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = one.issuer, CLIENT, SECRET
    settings.AUTHENTICATION_BACKENDS = [
        "memoryhub.team.accounts.AccountBackend",
        "memoryhub.team.single_sign_on.SingleSignOnBackend",
    ]
    User.objects.create_user("ada", email="Ada@example.org")
    yield one
    server.shutdown()
    server.server_close()


def go(provider: Provider, client: Client | None = None, start: str = START) -> tuple[Client, Any]:
    """A browser that goes to the provider, where the person agrees, and back."""
    client = client or Client(REMOTE_ADDR="10.0.0.1")
    there = client.get(start)
    assert there.status_code == 302
    return client, client.get(f"{BACK}?{provider.agree(there['Location'])}")


def refused(answer: Any) -> bool:
    return answer.status_code == 302 and answer["Location"] == "/login/?failed=1"


def test_who_is_vouched_for_is_signed_in_and_it_is_in_the_journal(provider):
    client, answer = go(provider)
    assert answer["Location"] == "/"
    assert "ada" in client.get("/").content.decode()
    [row] = JournalEntry.objects.about_person("ada")
    assert (row.operation, row.detail["from"]) == ("login", "10.0.0.1")


def test_the_way_leads_back_to_the_page_that_was_asked_for_and_to_this_site_alone(provider):
    assert go(provider, start=f"{START}?next=/trash/")[1]["Location"] == "/trash/"
    assert go(provider, start=f"{START}?next=https://evil.example/")[1]["Location"] == "/"


def test_a_member_sees_their_projects_alone_however_they_signed_in(provider, world):
    User.objects.get(username="ada").memberships.create(project="farm", clearance="private")
    client, _ = go(provider)
    assert {project for project, _ in seen(client.get("/memories/").content.decode())} == {"farm"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.example"},
        {"aud": "another-client"},
        {"aud": ["another-client"]},
        {"nonce": "another"},
        {"exp": 1},
        {"exp": None},
        {"sub": "somebody-else"},
    ],
    ids=str,
)
def test_a_token_that_is_not_ours_signs_nobody_in(provider, wrong):
    provider.token = wrong
    client, answer = go(provider)
    assert refused(answer)
    assert client.get("/").status_code == 302


def test_a_token_signed_with_another_key_signs_nobody_in(provider):
    provider.key = OTHER_KEY
    assert refused(go(provider)[1])


@pytest.mark.parametrize(
    "claims",
    [
        {"email_verified": False},
        {"email_verified": "true"},
        {"email": ""},
        {"email": "nobody@example.org"},
        {"sub": "another"},
    ],
    ids=str,
)
def test_an_address_that_is_not_vouched_for_or_not_known_signs_nobody_in(provider, claims):
    provider.claims = claims
    assert refused(go(provider)[1])
    assert User.objects.count() == 1


def test_an_address_that_two_accounts_have_signs_nobody_in(provider):
    User.objects.create_user("eve", email="ada@example.org")
    assert refused(go(provider)[1])


def test_a_closed_account_stays_closed(provider):
    User.objects.update(is_active=False)
    assert refused(go(provider)[1])


@pytest.mark.parametrize("broken", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
def test_a_provider_that_fails_on_the_way_is_no_error_of_the_page(provider, broken):
    provider.broken = broken
    assert refused(go(provider)[1])


def test_a_provider_that_does_not_answer_leads_back_to_the_login(provider, settings):
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    client = Client()
    assert refused(client.get(START))
    assert "did not vouch for you" in client.get("/login/?failed=1").content.decode()


def test_a_provider_that_calls_itself_something_else_is_not_trusted(provider, settings):
    settings.OIDC_ISSUER = provider.issuer + "/"
    assert refused(Client().get(START))


def test_a_state_that_this_browser_did_not_bring_is_refused(provider):
    client = Client()
    client.get(START)
    assert client.get(f"{BACK}?code=good-code&state=forged").status_code == 400
    assert refused(Client().get(f"{BACK}?code=good-code&state=forged"))


def test_an_account_is_made_only_where_the_operator_says_so(provider, settings):
    provider.claims = {"email": "dora@example.org"}
    settings.OIDC_CREATE = True
    client, answer = go(provider)
    assert answer["Location"] == "/"
    dora = User.objects.get(email="dora@example.org")
    assert not dora.has_usable_password()
    assert not dora.get_all_permissions()
    assert "You sign in through your organisation" in client.get("/you/").content.decode()
    operations = [row.operation for row in JournalEntry.objects.about_person(dora.username)]
    assert operations == ["login", "account_made"]


def test_the_login_page_offers_it_and_keeps_where_to_go(provider, settings):
    settings.OIDC_NAME = "Example & Sons"
    text = Client().get("/login/?next=/trash/").content.decode()
    assert 'href="/login/organisation/?next=/trash/"' in text
    assert "Sign in with Example &amp; Sons" in text


def test_without_a_provider_there_is_nothing(db, client):
    assert client.get(START).status_code == 404
    assert client.get(BACK).status_code == 404
    assert "organisation" not in client.get("/login/").content.decode()


class TestConfiguration:
    def read(self, **environ: str) -> tuple[str, str, str]:
        return environment.read_provider(
            "MEMORYHUB_OIDC", {f"MEMORYHUB_OIDC_{k}": v for k, v in environ.items()}
        )

    def test_it_is_off_without_an_issuer(self):
        assert self.read(CLIENT_ID="x") == ("", "", "")

    def test_an_issuer_is_an_https_address_or_on_this_machine(self):
        with pytest.raises(ConfigError, match="https"):
            self.read(ISSUER="http://id.example.org", CLIENT_ID="x", CLIENT_SECRET="y")
        assert self.read(ISSUER="http://localhost:9", CLIENT_ID="x", CLIENT_SECRET="y")[0]

    def test_an_issuer_needs_a_client_and_its_secret(self):
        with pytest.raises(ConfigError, match="CLIENT_SECRET"):
            self.read(ISSUER="https://id.example.org", CLIENT_ID="x")

    def test_an_issuer_needs_the_extra(self, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ConfigError, match="pip install"):
            self.read(ISSUER="https://id.example.org", CLIENT_ID="x", CLIENT_SECRET="y")


@pytest.mark.parametrize(
    "email",
    ["taken@example.org", "TAKEN@example.org", "a/b@example.org", "a b@example.org", "x" * 150 + "@x.org"],
)
def test_no_account_is_made_whose_name_is_taken_or_cannot_be_one(provider, settings, email):
    User.objects.create_user("Taken@example.org", email="else@example.org")
    settings.OIDC_CREATE = True
    provider.claims = {"email": email}
    assert refused(go(provider)[1])
    assert set(User.objects.values_list("username", flat=True)) == {"ada", "Taken@example.org"}


def test_a_link_with_an_error_signs_nobody_out(provider):
    client, _ = go(provider)
    assert refused(client.get(f"{BACK}?error=access_denied&state=forged"))
    assert client.get("/").status_code == 200
