"""Authenticator apps and recovery codes: the second step of a sign-in, limits, journal rows, removal."""

from __future__ import annotations

import json
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth
from django.conf import settings as django_settings
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from memoryhub.accounts import sign_in
from memoryhub.http import authentication
from memoryhub.models import JournalEntry
from tests.accounts.passkey import confirm_session, create_passkey
from tests.cases import each
from tests.clients import PASSWORD, create_person, signed_in_client

STEP, SET_UP, CODES = "/login/step/", "/you/authenticator/", "/you/codes/"


def code_of(secret: str, later: int = 0) -> str:
    """Return the code that an authenticator app shows now, or ``later`` periods from now."""
    return str(auth.format_hotp_value(auth.hotp_value(secret, int(auth.time.time()) // 30 + later)))


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of the codes: on a busy machine, one could expire before it is checked."""
    now = time.time()
    monkeypatch.setattr(auth, "time", SimpleNamespace(time=lambda: now))


def confirmed(client: Client) -> Client:
    """Enter the password again, as required before second factors are shown or changed."""
    answer = client.post("/login/confirm/", {"password": PASSWORD, "next": "/you/"})
    assert (answer.status_code, answer["Location"]) == (302, "/you/")
    return client


def set_up(client: Client) -> tuple[str, list[str]]:
    """Set up an authenticator app; return its key and the recovery codes."""
    confirmed(client)
    secret = re.findall(r"<code class=\"break\">([A-Z2-7]+)</code>", client.get(SET_UP).content.decode())[0]
    answer = client.post(SET_UP, {"code": code_of(secret, -1)})
    assert (answer.status_code, answer["Location"]) == (302, CODES)
    return secret, re.findall(r"\b\d{8}\b", client.get(CODES).content.decode())


def first_step(address: str = "10.0.0.1", target: str = "") -> Client:
    client = Client(REMOTE_ADDR=address)
    answer = client.post("/login/", {"username": "ada", "password": PASSWORD, "next": target})
    assert answer["Location"] == STEP
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/you/").status_code == 200


def operations(name: str = "ada") -> list[str]:
    rows = JournalEntry.objects.filter(object_type="person", object_id=name).order_by("seq")
    return list(rows.values_list("operation", flat=True))


@pytest.fixture
def ada(db: None) -> User:
    return create_person("ada")


@pytest.fixture
def app(ada: User) -> tuple[str, list[str]]:
    return set_up(signed_in_client(ada))


def test_password_alone_no_longer_signs_in(app):
    client = first_step()
    assert not is_signed_in(client)
    assert client.get("/memories/").status_code == 302
    assert client.get("/login/")["Location"] == STEP
    page = client.get(STEP).content.decode()
    assert "Code of your authenticator app" in page
    assert "login" not in operations()


def test_code_completes_the_sign_in_and_redirects_to_the_requested_page(app):
    client = first_step(target="/trash/")
    assert client.post(STEP, {"code": code_of(app[0])})["Location"] == "/trash/"
    assert is_signed_in(client)
    assert operations()[-1] == "login"


def test_second_step_does_not_redirect_to_another_site(app):
    client = first_step(target="https://elsewhere.example/")
    answer = client.post(f"{STEP}?next=https://elsewhere.example/", {"code": code_of(app[0])})
    assert answer["Location"] == "/"


def test_sign_in_starts_a_new_session_after_the_second_step(app):
    client = first_step()
    before = client.cookies[django_settings.SESSION_COOKIE_NAME].value
    client.post(STEP, {"code": code_of(app[0])})
    assert client.cookies[django_settings.SESSION_COOKIE_NAME].value != before


def test_code_works_once(app):
    code = code_of(app[0])
    first_step().post(STEP, {"code": code})
    from django.core.cache import cache

    cache.clear()  # another process
    client = first_step()
    answer = client.post(STEP, {"code": code})
    assert "was used before" in answer.content.decode()
    assert not is_signed_in(client)
    assert operations()[-1] == "login_failed"
    client.post(STEP, {"code": code_of(app[0], 1)})
    assert is_signed_in(client)


def test_recovery_code_works_once(app):
    code = app[1][0]
    assert len(set(app[1])) == 10
    client = first_step()
    client.post(STEP, {"code": code})
    assert is_signed_in(client)
    client = first_step()
    client.post(STEP, {"code": code})
    assert not is_signed_in(client)
    client.post(STEP, {"code": app[1][1]})
    assert is_signed_in(client)


@each("wrong", ["000000", "", "x" * 21, "\u0661\u0662\u0663\u0664\u0665\u0666", "12 345"])
def test_wrong_code_is_refused(app, wrong):
    client = first_step()
    answer = client.post(STEP, {"code": wrong})
    assert (answer.status_code, is_signed_in(client)) == (200, False)


def test_wrong_codes_are_throttled_like_passwords_and_a_right_password_resets_nothing(app):
    for _ in range(sign_in.PER_PAIR):
        assert first_step().post(STEP, {"code": "000000"}).status_code == 200
    client = Client(REMOTE_ADDR="10.0.0.1")
    assert client.post("/login/", {"username": "ada", "password": PASSWORD}).status_code == 429
    client = first_step("10.0.0.2")
    assert client.post(STEP, {"code": code_of(app[0])})["Location"] == "/"


def test_throttled_second_step_answers_429_and_checks_no_code(app):
    client = first_step()
    for _ in range(sign_in.PER_PAIR):
        client.post(STEP, {"code": "000000"})
    for code in (code_of(app[0]), app[1][0]):
        answer = client.post(STEP, {"code": code})
        assert answer.status_code == 429
        assert 0 < int(answer["Retry-After"]) <= sign_in.FAILURE_WINDOW.total_seconds() + 1
        assert "Wait 15 minutes" in answer.content.decode()
    assert not is_signed_in(client)


def test_cancel_leaves_the_second_step(app):
    client = first_step()
    client.post("/logout/")
    assert client.get(STEP)["Location"] == "/login/"
    assert client.get("/login/").status_code == 200


def test_second_step_without_the_first_redirects_to_the_sign_in(app):
    assert Client().get(STEP)["Location"] == "/login/"
    assert Client().post(STEP, {"code": code_of(app[0])})["Location"] == "/login/"


def test_page_does_not_show_whether_a_person_has_a_second_factor(app):
    pages = [
        Client().post("/login/", {"username": name, "password": "guess"}).content.decode()
        for name in ("ada", "nobody")
    ]
    plain = [re.sub(r'value="[^"]*"', "", page) for page in pages]
    assert plain[0] == plain[1]


def test_admin_sign_in_asks_for_the_second_step_too(app):
    User.objects.update(is_staff=True)
    client = Client()
    form = {"username": "ada", "password": PASSWORD, "next": "/admin/"}
    assert client.post("/admin/login/?next=/admin/", form)["Location"] == STEP
    assert client.get("/admin/").status_code == 302
    assert client.post(STEP, {"code": code_of(app[0])})["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_person_without_access_to_the_admin_gets_no_redirect_loop(ada):
    client = signed_in_client(ada)
    assert client.get("/admin/", follow=True).status_code == 403


def test_closed_account_does_not_complete_the_second_step(app):
    client = first_step()
    User.objects.update(is_active=False)
    client.post(STEP, {"code": code_of(app[0])})
    assert not is_signed_in(client)


class TestOwnPages:
    PAGES = (SET_UP, CODES, "/you/codes/new/", "/you/passkeys/new/", "/you/authenticator/remove/")

    def test_pages_need_a_sign_in(self, app):
        for path in (*self.PAGES, "/login/confirm/", "/login/confirm/code/", "/login/confirm/passkey/"):
            assert Client().get(path)["Location"].startswith("/login/?next="), path

    def test_pages_need_the_password_again(self, app, ada):
        client = signed_in_client(ada)
        for path in self.PAGES:
            assert client.get(path)["Location"] == f"/login/confirm/?next={path.replace('/', '%2F')}", path
        assert client.post("/you/authenticator/remove/").status_code == 302
        assert Authenticator.objects.filter(user=ada, type="totp").exists()

    def test_wrong_password_confirms_nothing_and_is_throttled(self, app, ada):
        client = signed_in_client(ada)
        for _ in range(sign_in.PER_PAIR):
            page = client.post("/login/confirm/", {"password": "guess"}).content.decode()
            assert "This is not your password" in page
        assert client.post("/login/confirm/", {"password": PASSWORD}).status_code == 429
        assert client.get(SET_UP)["Location"].startswith("/login/confirm/")

    def test_code_confirms_too(self, app, ada):
        client = signed_in_client(ada)
        assert 'href="/login/confirm/code/' in client.get("/login/confirm/").content.decode()
        code = {"code": code_of(app[0]), "next": "https://elsewhere.example/"}
        assert client.post("/login/confirm/code/", code)["Location"] == "/"
        assert client.get("/you/authenticator/remove/").status_code == 200

    def test_confirmation_does_not_redirect_to_another_site(self, ada):
        form = {"password": PASSWORD, "next": "//elsewhere.example/"}
        assert signed_in_client(ada).post("/login/confirm/", form)["Location"] == "/"

    def test_recovery_codes_are_shown_once_and_replaced_by_new_ones(self, app, ada):
        client = confirmed(signed_in_client(ada))
        page = client.get(CODES).content.decode()
        assert not [code for code in app[1] if code in page]
        assert "10 unused recovery codes" in page
        assert client.post("/you/codes/new/")["Location"] == CODES
        new = re.findall(r"\b\d{8}\b", client.get(CODES).content.decode())
        assert len(new) == 10
        assert not set(new) & set(app[1])

    def test_removed_app_leaves_no_codes_and_the_password_signs_in(self, app, ada):
        client = confirmed(signed_in_client(ada))
        assert client.post("/you/authenticator/remove/")["Location"] == "/you/"
        assert not Authenticator.objects.exists()
        answer = Client().post("/login/", {"username": "ada", "password": PASSWORD})
        assert answer["Location"] == "/"
        assert operations().count("second_factor_removed") == 2

    def test_wrong_code_sets_up_nothing(self, ada):
        client = confirmed(signed_in_client(ada))
        client.get(SET_UP)
        assert "This code is wrong" in client.post(SET_UP, {"code": "000000"}).content.decode()
        assert not Authenticator.objects.exists()

    def test_profile_lists_the_factors(self, app, ada):
        page = signed_in_client(ada).get("/you/").content.decode()
        assert "Authenticator app" in page
        assert "Recovery codes" in page
        assert "Set up an authenticator app" not in page

    def test_person_without_a_password_or_factor_is_offered_none(self, db):
        user = create_person("dora")
        user.set_unusable_password()
        user.save()
        client = signed_in_client(user)
        assert "Add a passkey" not in client.get("/you/").content.decode()
        assert client.get(SET_UP).status_code == 403

    def test_only_way_to_sign_in_is_not_removed(self, ada):
        passkey = create_passkey(ada)
        path = f"/you/passkeys/{passkey.pk}/remove/"
        User.objects.filter(pk=ada.pk).update(password="!none")
        client = confirm_session(signed_in_client(User.objects.get(pk=ada.pk)), ada)
        assert "only way to sign in" in client.post(path, follow=True).content.decode()
        create_passkey(ada, "Phone")
        assert client.post(path)["Location"] == "/you/"
        assert [str(one) for one in Authenticator.objects.filter(type="webauthn")] == ["Phone"]

    def test_passkey_of_another_person_cannot_be_removed(self, app, ada):
        theirs = Authenticator.objects.create(user=create_person("eve"), type="webauthn", data={"name": "x"})
        client = confirmed(signed_in_client(ada))
        assert client.post(f"/you/passkeys/{theirs.pk}/remove/").status_code == 404
        assert Authenticator.objects.filter(pk=theirs.pk).exists()


def test_secrets_are_stored_encrypted_and_not_in_the_journal(app):
    with connection.cursor() as cursor:
        stored = str(cursor.execute("SELECT data FROM mfa_authenticator").fetchall())
    journal = json.dumps([row.detail for row in JournalEntry.objects.all()])
    for text in (app[0], *app[1]):
        assert text not in stored
        assert text not in journal


def test_codes_cannot_be_checked_after_the_secret_key_has_changed(app, settings):
    settings.SECRET_KEY = "another key"
    client = first_step()
    for code in (code_of(app[0]), app[1][0]):
        answer = client.post(STEP, {"code": code})
        assert (answer.status_code, "secret key has changed" in answer.content.decode()) == (200, True)
    assert not is_signed_in(client)


@pytest.mark.django_db(transaction=True)
def test_changes_are_journaled():
    client = signed_in_client(create_person("ada"))
    set_up(client)
    client.post("/you/codes/new/")
    client.post("/you/authenticator/remove/")
    added, removed = ["second_factor_added"] * 2, ["second_factor_removed"] * 2
    assert operations() == [*added, "recovery_codes_created", *removed]
    kinds = [row.detail["kind"] for row in JournalEntry.objects.filter(operation="second_factor_added")]
    assert sorted(kinds) == ["authenticator app", "recovery codes"]


class TestRemovalByOthers:
    def test_administrator_removes_the_factors_of_a_person_who_lost_their_device(self, app, ada):
        inside = signed_in_client(ada)
        boss = signed_in_client(User.objects.create_superuser("boss"))
        assert "Remove the second factors" in boss.get("/people/ada/").content.decode()
        assert boss.post("/people/ada/factors/").status_code == 302
        assert not is_signed_in(inside)
        client = Client()
        assert client.post("/login/", {"username": "ada", "password": PASSWORD})["Location"] == "/"
        row = JournalEntry.objects.get(operation="second_factor_removed")
        assert (row.actor, row.object_id) == ("user:boss", "ada")
        assert row.detail["kinds"] == ["authenticator app", "recovery codes"]
        assert "Remove the second factors" not in boss.get("/people/ada/").content.decode()

    def test_person_who_waits_at_the_second_step_starts_again(self, app):
        client = first_step()
        signed_in_client(User.objects.create_superuser("boss")).post("/people/ada/factors/")
        page = client.get(STEP, follow=True)
        assert (page.status_code, page.redirect_chain) == (200, [("/login/", 302)])
        assert "Your second factors were removed" in page.content.decode()
        assert client.post("/login/", {"username": "ada", "password": PASSWORD})["Location"] == "/"

    def test_own_factors_and_those_of_people_with_more_rights_stay(self, app, ada, member):
        User.objects.filter(pk=ada.pk).update(is_superuser=True)
        chief = member(name="chief")
        chief.groups.add(Group.objects.get(name="administrator"))
        for user, path in ((chief, "/people/ada/factors/"), (ada, "/people/ada/factors/")):
            client = signed_in_client(User.objects.get(pk=user.pk))
            assert "Nothing was changed" in client.post(path, follow=True).content.decode()
        assert signed_in_client(member(name="bob")).post("/people/ada/factors/").status_code == 403
        assert Authenticator.objects.filter(user=ada).count() == 2

    def test_command_removes_the_factors_of_the_last_administrator(self, app, ada, capsys):
        inside = signed_in_client(ada)
        call_command("remove_second_factors", "ada")
        assert "Removed 2 second factors of ada" in capsys.readouterr().out
        assert not Authenticator.objects.exists()
        assert not is_signed_in(inside)
        row = JournalEntry.objects.get(operation="second_factor_removed")
        assert row.actor.startswith("command:")
        for name, words in (("ada", "has no second factor"), ("nobody", "no account is called")):
            with pytest.raises(CommandError, match=words):
                call_command("remove_second_factors", name)


class TestPasskeySignIn:
    PATH = "/login/passkey/"

    @pytest.mark.parametrize("path", [PATH, "/login/organisation/"])
    def test_sign_ins_that_store_a_session_are_limited_by_address(self, provider, monkeypatch, path):
        monkeypatch.setattr(authentication, "SIGN_INS_PER_MINUTE", 3)
        asks: Any = {"headers": {"Accept": "application/json"}}
        statuses = [Client(REMOTE_ADDR="10.0.0.1").get(path, **asks).status_code for _ in range(4)]
        assert statuses[0] in (200, 302)
        assert statuses[:3] == [statuses[0]] * 3
        assert statuses[3] == 429
        assert Session.objects.count() == 3
        assert Client(REMOTE_ADDR="10.0.0.2").get(path, **asks).status_code == statuses[0]

    @pytest.mark.parametrize(
        "credential", ["", "{}", "[]", "null", '"x"', '{"response": {"userHandle": "MQ"}}']
    )
    def test_invalid_credential_is_refused_and_the_target_kept(self, ada, credential):
        client = Client()
        client.get(self.PATH, headers={"Accept": "application/json"})
        answer = client.post(self.PATH, {"credential": credential, "next": "/trash/"})
        assert (answer.status_code, answer["Location"]) == (302, "/login/?next=%2Ftrash%2F")
        assert not is_signed_in(client)
        assert "This sign-in was refused" in client.get("/login/").content.decode()


def test_admin_shows_no_tables_of_the_library(admin_client):
    page: Any = admin_client.get("/admin/").content.decode()
    assert "/admin/mfa/" not in page
    assert "/admin/account/emailaddress/" not in page
