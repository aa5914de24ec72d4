"""Single sign-on with a small provider on loopback; off by default."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils.html import escape

from memoryhub import config
from memoryhub.accounts import identities, sign_in
from memoryhub.config import ConfigError
from memoryhub.models import JournalEntry
from tests.accounts.conftest import seen
from tests.accounts.passkey import confirm_session, create_passkey
from tests.accounts.provider import OTHER_KEY, Provider
from tests.accounts.sign_on_client import BACK, START, go, name_of, refused
from tests.accounts.test_second_factors import code_of, set_up, stopped_clock
from tests.clients import PASSWORD, signed_in_client

__all__ = ["stopped_clock"]
pytest.importorskip("oauthlib")


def now_is(provider: Provider, subject: str | None, **claims: Any) -> None:
    """Set the person who is logged in at the provider."""
    provider.token, provider.claims = {"sub": subject}, {"sub": subject, **claims}


def test_confirmed_person_is_logged_in_and_journaled(provider):
    client, answer = go(provider)
    assert answer["Location"] == "/"
    assert "ada" in client.get("/").content.decode()
    [login, bound] = JournalEntry.objects.about_person("ada")
    assert (login.operation, login.detail["from"]) == ("login", "10.0.0.1")
    assert (bound.operation, bound.detail) == ("bound", {"through": provider.issuer, "subject": "person-1"})


def test_login_redirects_to_the_requested_page_on_this_site_only(provider):
    assert go(provider, start=f"{START}?next=/trash/")[1]["Location"] == "/trash/"
    assert go(provider, start=f"{START}?next=https://evil.example/")[1]["Location"] == "/"


def test_member_sees_their_projects_after_any_login(provider, world):
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
def test_foreign_token_is_refused(provider, wrong):
    provider.token = wrong
    client, answer = go(provider)
    assert refused(answer)
    assert client.get("/").status_code == 302


def test_token_signed_with_another_key_is_refused(provider):
    provider.key = OTHER_KEY
    assert refused(go(provider)[1])


@pytest.mark.parametrize(
    "claims",
    [
        {"email_verified": False},
        {"email_verified": "true"},
        {"email": ""},
        {"email": "unknown@example.org"},
        {"sub": "another"},
    ],
    ids=str,
)
def test_unverified_or_unknown_address_is_refused(provider, claims):
    provider.claims = claims
    assert refused(go(provider)[1])
    assert User.objects.count() == 1


def test_address_of_two_accounts_is_refused(provider):
    User.objects.create_user("eve", email="ada@example.org")
    assert refused(go(provider)[1])


def test_closed_account_is_refused(provider):
    User.objects.update(is_active=False)
    assert refused(go(provider)[1])


@pytest.mark.parametrize("broken", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
def test_provider_failure_is_not_a_server_error(provider, broken):
    provider.broken = broken
    assert refused(go(provider)[1])


@pytest.mark.parametrize(
    "answer",
    ["[]", '"x"', "{", '{"access_token": "a"}', '{"access_token": "a", "id_token": "x.y.z"}', "null"],
)
@pytest.mark.parametrize("endpoint", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
def test_unusable_answer_of_the_provider_is_refused_and_journaled(provider, endpoint, answer):
    provider.answers = {f"/{endpoint}": answer}
    assert refused(go(provider)[1])
    [row] = JournalEntry.objects.filter(operation="login_refused")
    assert row.detail["why"] == "not confirmed by the provider"


def test_unreachable_provider_returns_to_the_login_page(provider, settings):
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    client = Client()
    assert refused(client.get(START))
    assert "did not confirm who you are" in client.get("/login/?failed=1").content.decode()


def test_provider_with_another_issuer_is_not_trusted(provider, settings):
    settings.OIDC_ISSUER = provider.issuer + "/"
    assert refused(Client().get(START))


def test_cancelled_sign_in_is_not_reported_as_a_failure(provider):
    client = Client()
    state = parse_qs(urlsplit(client.get(START)["Location"]).query)["state"][0]
    answer = client.get(f"{BACK}?error=access_denied&state={state}")
    assert answer["Location"] == "/login/?failed=cancelled"
    assert "You cancelled the sign-in" in client.get(answer["Location"]).content.decode()
    assert not JournalEntry.objects.filter(operation="login_refused").exists()


def test_unknown_state_is_refused(provider):
    client = Client()
    client.get(START)
    assert refused(client.get(f"{BACK}?code=good-code&state=forged"))
    assert refused(Client().get(f"{BACK}?code=good-code&state=forged"))


def test_account_is_created_only_if_configured(provider, settings):
    provider.claims = {"email": "dora@example.org"}
    settings.OIDC_CREATE = True
    client, answer = go(provider)
    assert answer["Location"] == "/"
    dora = User.objects.get(email="dora@example.org")
    assert not dora.has_usable_password()
    assert not dora.get_all_permissions()
    assert "You sign in through your organisation" in client.get("/you/").content.decode()
    operations = [row.operation for row in JournalEntry.objects.about_person(dora.username)]
    assert operations == ["login", "bound", "account_made"]


def test_login_page_offers_it_and_keeps_the_target(provider, settings):
    settings.OIDC_NAME = "Example & Sons"
    text = Client().get("/login/?next=/trash/").content.decode()
    assert 'href="/login/organisation/?next=/trash/"' in text
    assert "Sign in with Example &amp; Sons" in text


def test_single_sign_on_is_not_offered_without_a_provider(db, client):
    assert client.get(START).status_code == 404
    assert client.get(BACK).status_code == 404
    assert "organisation" not in client.get("/login/").content.decode()


class TestIdentity:
    def test_bound_account_is_found_by_subject_whatever_its_address(self, provider):
        go(provider)
        now_is(provider, "person-1", email="married@example.org", email_verified=False)
        assert name_of(go(provider)[0]) == "ada"
        now_is(provider, "person-1", email=None)
        assert name_of(go(provider)[0]) == "ada"
        assert User.objects.count() == 1

    def test_address_given_to_another_person_does_not_open_the_account(self, provider, settings):
        settings.OIDC_CREATE = True
        go(provider)
        now_is(provider, "person-2")
        client, answer = go(provider)
        assert answer["Location"] == "/login/?failed=taken"
        assert "belongs to another person" in client.get(answer["Location"]).content.decode()
        assert client.get("/").status_code == 302
        row = JournalEntry.objects.about_person("ada")[0]
        assert (row.operation, row.detail["why"], row.detail["from"]) == (
            "login_refused",
            identities.ALREADY_BOUND,
            "10.0.0.1",
        )

    def test_address_moved_to_another_account_does_not_move_the_person(self, provider):
        go(provider)
        User.objects.filter(username="ada").update(email="")
        User.objects.create_user("eve", email="ada@example.org")
        assert name_of(go(provider)[0]) == "ada"

    @pytest.mark.parametrize("subject", [None, "", "x" * 256, 7], ids=["none", "empty", "long", "number"])
    def test_missing_or_invalid_subject_is_refused(self, provider, subject):
        now_is(provider, subject)
        assert refused(go(provider)[1])
        assert not SocialAccount.objects.exists()

    def test_unverified_address_binds_nothing(self, provider):
        now_is(provider, "person-1", email_verified=False)
        assert refused(go(provider)[1])
        assert not SocialAccount.objects.exists()

    def test_closed_bound_account_is_refused(self, provider):
        go(provider)
        User.objects.update(is_active=False)
        assert refused(go(provider)[1])
        assert JournalEntry.objects.about_person("ada")[0].detail["why"] == "closed"

    def test_superuser_account_is_not_bound_by_address(self, provider):
        User.objects.filter(username="ada").update(is_superuser=True)
        client, answer = go(provider)
        assert answer["Location"] == "/login/?failed=password"
        assert "with their password first" in client.get(answer["Location"]).content.decode()
        assert JournalEntry.objects.about_person("ada")[0].operation == "login_refused"

    def test_logged_in_superuser_binds_the_account(self, provider):
        ada = User.objects.get(username="ada")
        User.objects.filter(pk=ada.pk).update(is_superuser=True)
        inside = signed_in_client(ada)
        assert "Connect with your organisation" in inside.get("/you/").content.decode()
        go(provider, inside, f"{START}?next=/you/")
        assert "signs you in too" in inside.get("/you/").content.decode()
        assert name_of(go(provider)[0]) == "ada"

    def test_refusal_without_account_is_journaled_without_the_address(self, provider):
        now_is(provider, "person-9", email="stranger@example.org")
        assert refused(go(provider)[1])
        row = JournalEntry.objects.get(operation="login_refused")
        assert row.detail["why"] == "no account"
        assert "stranger" not in f"{row.object_id}{row.owner}{row.detail}"

    def test_refusals_are_shown_to_people_managers(self, provider):
        go(provider)
        now_is(provider, "person-2")
        go(provider)
        page = signed_in_client(User.objects.create_superuser("boss")).get("/people/").content.decode()
        assert f'<td data-label="Why">{escape(identities.ALREADY_BOUND)}</td>' in page

    def test_refusals_do_not_throttle_passwords(self, provider, rf):
        go(provider)
        now_is(provider, "person-2")
        for _ in range(sign_in.PER_PAIR):
            go(provider)
        assert sign_in.login_wait(rf.post("/login/", REMOTE_ADDR="10.0.0.1"), "ada") == 0

    def test_deleted_account_name_is_not_created_again(self, provider, settings):
        settings.OIDC_CREATE = True
        now_is(provider, "person-3", email="dora@example.org")
        assert name_of(go(provider)[0]) == "dora@example.org"
        User.objects.get(email="dora@example.org").delete()
        assert refused(go(provider)[1])
        assert not User.objects.filter(email="dora@example.org").exists()


class TestChangedProvider:
    """The operator has configured another issuer. Addresses alone must not move the accounts to it."""

    @pytest.fixture
    def ada(self, provider: Provider) -> User:
        """An account with a password whose identity is of the earlier issuer, with the same subject."""
        ada = User.objects.get(username="ada")
        ada.set_password(PASSWORD)
        ada.save()
        SocialAccount.objects.create(user=ada, provider="https://old.example", uid="person-1")
        return ada

    def test_person_is_asked_to_sign_in_with_the_password_and_connect(self, provider, ada):
        client, answer = go(provider)
        assert answer["Location"] == "/login/?failed=provider"
        page = client.get(answer["Location"]).content.decode()
        assert "linked to the sign-in provider that this hub used before" in page
        assert "belongs to another person" not in page
        assert client.get("/").status_code == 302
        assert JournalEntry.objects.about_person("ada")[0].detail["why"] == identities.PROVIDER_CHANGED

    def test_logged_in_person_connects_the_account_with_the_new_provider(self, provider, ada):
        inside = signed_in_client(ada)
        page = inside.get("/you/").content.decode()
        assert "Connect with your organisation" in page
        assert "signs you in too" not in page
        assert go(provider, inside, f"{START}?next=/you/")[1]["Location"] == "/you/"
        assert "signs you in too" in inside.get("/you/").content.decode()
        assert SocialAccount.objects.get().provider == provider.issuer
        operations = [row.operation for row in JournalEntry.objects.about_person("ada")]
        assert operations == ["bound", "unbound"]
        assert name_of(go(provider)[0]) == "ada"

    def test_person_cannot_connect_the_account_of_someone_else(self, provider, ada, member):
        inside = signed_in_client(member(name="eve"))
        assert go(provider, inside)[1]["Location"] == "/login/?failed=provider"
        assert SocialAccount.objects.get().provider == "https://old.example"

    def test_person_page_explains_the_link_and_an_administrator_removes_it(self, provider, ada):
        boss = signed_in_client(User.objects.create_superuser("boss"))
        assert "this link signs no one in" in boss.get("/people/ada/").content.decode()
        boss.post("/people/ada/unbind/")
        assert name_of(go(provider)[0]) == "ada"

    def test_only_passkey_stays_because_the_link_signs_no_one_in(self, provider, ada):
        ada.set_unusable_password()
        ada.save()
        inside = confirm_session(signed_in_client(ada), ada)
        passkey = create_passkey(ada)
        page = inside.post(f"/you/passkeys/{passkey.pk}/remove/", follow=True).content.decode()
        assert "only way to sign in" in page


class TestUnbinding:
    def test_next_person_with_the_address_is_bound_after_unbinding(self, provider):
        theirs, _ = go(provider)
        boss = signed_in_client(User.objects.create_superuser("boss"))
        assert "person-1" in boss.get("/people/ada/").content.decode()
        assert boss.post("/people/ada/unbind/").status_code == 302
        assert theirs.get("/").status_code == 302
        now_is(provider, "person-2")
        assert name_of(go(provider)[0]) == "ada"
        operations = [row.operation for row in JournalEntry.objects.about_person("ada")]
        assert operations == ["login", "bound", "unbound", "login", "bound"]

    def test_unbinding_and_address_changes_need_the_right_to_change_the_account(self, provider, member):
        go(provider)
        User.objects.filter(username="ada").update(is_superuser=True)
        chief = member(name="chief")
        chief.groups.add(Group.objects.get(name="administrator"))
        client = signed_in_client(User.objects.get(pk=chief.pk))
        client.post("/people/ada/unbind/")
        assert client.post("/people/ada/address/", {"email": "chief@example.org"}).status_code == 422
        assert SocialAccount.objects.filter(user__username="ada").exists()
        assert User.objects.get(username="ada").email == "Ada@example.org"
        bob = signed_in_client(member(name="bob"))
        assert bob.get("/people/ada/").status_code == 403
        assert bob.post("/people/ada/unbind/").status_code == 403
        assert bob.post("/people/ada/address/", {"email": "bob@example.org"}).status_code == 403

    def test_unbinding_an_unbound_account_is_refused(self, provider):
        boss = signed_in_client(User.objects.create_superuser("boss"))
        page = boss.post("/people/ada/unbind/", follow=True).content.decode()
        assert "ada is not bound" in page

    def test_address_is_set_on_the_person_page_and_must_be_unique(self, provider):
        User.objects.create_user("bob")
        boss = signed_in_client(User.objects.create_superuser("boss"))
        refusal = boss.post("/people/bob/address/", {"email": "ADA@example.org"})
        assert (refusal.status_code, "This address is taken" in refusal.content.decode()) == (422, True)
        assert boss.post("/people/bob/address/", {"email": "bob@example.org"}).status_code == 302
        now_is(provider, "person-2", email="bob@example.org")
        assert name_of(go(provider)[0]) == "bob"
        assert [row.operation for row in JournalEntry.objects.about_person("bob")][-1] == "address"

    def test_superuser_unbinds_several_accounts_in_the_admin(self, provider):
        go(provider)
        boss = signed_in_client(User.objects.create_superuser("boss"))
        chosen = {"action": "unbind", "_selected_action": [str(one.pk) for one in User.objects.all()]}
        assert boss.post("/admin/auth/user/", chosen).status_code == 302
        assert not SocialAccount.objects.exists()
        assert JournalEntry.objects.filter(operation="unbound", actor="user:boss").count() == 1


class TestOnesOwnAccount:
    """A stolen session cannot give the account to someone else."""

    @pytest.fixture
    def ada(self, provider: Provider) -> User:
        """An administrator with a bound account."""
        go(provider)
        user = User.objects.get(username="ada")
        user.groups.add(Group.objects.get(name="administrator"))
        return User.objects.get(pk=user.pk)

    def test_own_address_cannot_be_changed(self, ada):
        client = signed_in_client(ada)
        refusal = client.post("/people/ada/address/", {"email": "thief@example.org"})
        assert refusal.status_code == 422
        assert "ask another administrator" in refusal.content.decode()
        assert User.objects.get(pk=ada.pk).email == "Ada@example.org"

    def test_own_account_cannot_be_unbound(self, ada):
        page = signed_in_client(ada).post("/people/ada/unbind/", follow=True).content.decode()
        assert "ask another administrator" in page
        assert SocialAccount.objects.filter(user=ada).exists()

    def test_own_page_offers_neither(self, ada, member):
        unbinding, address = "/people/ada/unbind/", "/people/ada/address/"
        page = signed_in_client(ada).get("/people/ada/").content.decode()
        assert not [one for one in (unbinding, address) if one in page]
        page = signed_in_client(User.objects.create_superuser("boss")).get("/people/ada/").content.decode()
        assert [one for one in (unbinding, address) if one in page] == [unbinding, address]

    def test_superuser_does_neither_for_themselves_in_the_admin(self, ada):
        User.objects.filter(pk=ada.pk).update(is_superuser=True, is_staff=True)
        client = signed_in_client(User.objects.get(pk=ada.pk))
        chosen = {"action": "unbind", "_selected_action": [str(ada.pk)]}
        page = client.post("/admin/auth/user/", chosen, follow=True).content.decode()
        assert "unlinked by another administrator" in page
        assert SocialAccount.objects.filter(user=ada).exists()
        form = client.get(f"/admin/auth/user/{ada.pk}/change/").content.decode()
        assert ("Ada@example.org" in form, 'name="email"' in form) == (True, False)


class TestConfiguration:
    def read(self, **environ: str) -> tuple[str, str, str]:
        with patch.dict(os.environ, {f"MEMORYHUB_OIDC_{k}": v for k, v in environ.items()}):
            operator = config.load_operator()
        return operator.oidc_issuer, operator.oidc_client_id, operator.oidc_client_secret

    def test_is_off_without_an_issuer(self):
        assert self.read(CLIENT_ID="x") == ("", "", "")

    def test_issuer_must_be_https_or_loopback(self):
        with pytest.raises(ConfigError, match="https"):
            self.read(ISSUER="http://id.example.org", CLIENT_ID="x", CLIENT_SECRET="y")
        assert self.read(ISSUER="http://localhost:9", CLIENT_ID="x", CLIENT_SECRET="y")[0]

    def test_issuer_needs_client_and_secret(self):
        with pytest.raises(ConfigError, match="CLIENT_SECRET"):
            self.read(ISSUER="https://id.example.org", CLIENT_ID="x")

    def test_issuer_needs_the_extra(self, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ConfigError, match="pip install"):
            self.read(ISSUER="https://id.example.org", CLIENT_ID="x", CLIENT_SECRET="y")


@pytest.mark.parametrize(
    "email",
    ["taken@example.org", "TAKEN@example.org", "a/b@example.org", "a b@example.org", "x" * 150 + "@x.org"],
)
def test_no_account_with_a_taken_or_invalid_name_is_created(provider, settings, email):
    User.objects.create_user("Taken@example.org", email="else@example.org")
    settings.OIDC_CREATE = True
    provider.claims = {"email": email}
    assert refused(go(provider)[1])
    assert set(User.objects.values_list("username", flat=True)) == {"ada", "Taken@example.org"}


def test_link_with_an_error_signs_no_one_out(provider):
    client, _ = go(provider)
    assert refused(client.get(f"{BACK}?error=access_denied&state=forged"))
    assert client.get("/").status_code == 200


class TestSecondStep:
    def test_person_with_an_authenticator_app_enters_a_code_after_the_provider(self, provider):
        ada = User.objects.get(username="ada")
        ada.set_password(PASSWORD)
        ada.save()
        secret, _ = set_up(signed_in_client(ada))
        client, answer = go(provider, start=f"{START}?next=/trash/")
        assert answer["Location"] == "/login/step/"
        assert client.get("/you/").status_code == 302
        assert client.post("/login/step/", {"code": code_of(secret)})["Location"] == "/trash/"
        assert name_of(client) == "ada"


def test_address_of_the_sign_in_cannot_change_what_is_asked(provider):
    redirect = Client().get(f"{START}?scope=admin&auth_params=prompt%3Dnone%26nonce%3Dmine&process=connect")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(redirect["Location"]).query).items()}
    assert set(asked["scope"].split()) == {"openid", "email"}
    assert asked["nonce"] != "mine"
    assert "prompt" not in asked
    assert asked["redirect_uri"] == f"http://testserver{BACK}"


def test_sign_in_starts_a_new_session(provider, settings):
    client = Client(REMOTE_ADDR="10.0.0.1")
    redirect = client.get(START)
    before = client.cookies[settings.SESSION_COOKIE_NAME].value
    client.get(f"{BACK}?{provider.agree(redirect['Location'])}")
    assert name_of(client) == "ada"
    assert client.cookies[settings.SESSION_COOKIE_NAME].value != before


def test_return_works_once(provider):
    client = Client(REMOTE_ADDR="10.0.0.1")
    back = f"{BACK}?{provider.agree(client.get(START)['Location'])}"
    assert client.get(back)["Location"] == "/"
    client.post("/logout/")
    assert refused(client.get(back))


def test_subject_as_long_as_the_standard_allows_is_bound(provider):
    now_is(provider, "x" * 255, email="ada@example.org")
    assert name_of(go(provider)[0]) == "ada"
    assert name_of(go(provider)[0]) == "ada"
    assert SocialAccount.objects.get().uid == "x" * 255


def test_no_claim_is_stored(provider):
    provider.claims = {"picture": "https://id.example/ada.png", "phone_number": "1"}
    go(provider)
    assert SocialAccount.objects.get().extra_data == {}
