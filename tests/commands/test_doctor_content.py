"""``doctor``: content of the store, and who can access it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from allauth.mfa.totp.internal.auth import TOTP
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.capture.projects import configure_project
from memoryhub.models import AgentToken, JournalEntry, Memory, Project
from memoryhub.ops.doctor import Status, ok
from tests.accounts.passkey import create_passkey
from tests.commands.examining import WRITER, look, look_first, named, remember
from tests.database import without_journal_triggers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store", "on_loopback")]


def test_unknown_levels_are_counted_and_not_shown(sound):
    remember("unspeakable words", project="attic")
    Memory.objects.filter(project="attic").update(sensitivity="cosmic")
    found = look(named("sensitivity"))
    assert found.status is Status.WARN
    assert found.text.startswith("rows of memory with an unknown level, hidden from everyone: 1")
    assert not {"unspeakable", "attic", "cosmic"} & set(found.text.split())


def test_codes_that_a_new_secret_key_made_useless_are_reported(sound, settings):
    ada = User.objects.get(username="ada")
    TOTP.activate(ada, "A" * 32)
    create_passkey(ada)  # with recovery codes
    assert look(named("second factors")).status is Status.OK
    settings.SECRET_KEY = "another key"
    found = look(named("second factors"))
    assert (found.status, found.text.partition(" ")[0]) == (Status.FAIL, "2")


def test_projects_over_or_near_their_cap_are_warned_about(sound, configure):
    configure(max_memories=0)
    for n in range(9):
        remember(f"m{n}", project="zoo")
    assert look(named("cap")).status is Status.OK
    configure(max_memories=10)
    assert look(named("cap")).text == "zoo has 9 memories of one owner, of at most 10"
    configure(max_memories=5)
    assert "zoo has 9 memories of one owner, over the cap of 5" in look(named("cap")).text


def test_ignored_files_that_are_slow_to_match_are_warned_about(sound):
    Project.objects.create(name="barn", ignored_paths="*.pem")
    assert look(named("ignored files")).status is Status.OK
    Project.objects.create(name="shed", ignored_paths="*.pem\n*a*b*c*d*e")  # as an earlier release allowed
    found = look(named("ignored files"))
    assert found.status is Status.WARN
    assert found.text.startswith("the ignored files of shed: line 2 has too many wildcards")


def test_expired_memories_are_warned_about_once_their_grace_is_over(sound, configure):
    configure(expiry_grace_days=30)
    memory = remember("short lived", ttl_days=1)
    Memory.objects.filter(pk=memory.pk).update(expires_at=timezone.now() - timedelta(days=3))
    assert look(named("expiry")) == ok("1 expired memories can still be restored")
    Memory.objects.filter(pk=memory.pk).update(expires_at=timezone.now() - timedelta(days=31))
    assert look(named("expiry")).status is Status.WARN
    memories.purge_expired(system_actor("test"))
    assert look(named("expiry")) == ok("none is waiting")


def test_a_clock_that_went_wrong_is_found(sound, monkeypatch):
    assert look(named("clock")).status is Status.OK
    Memory.objects.update(created_at=timezone.now() + timedelta(days=9))
    assert "1 memories have a creation date in the future" in look(named("clock")).text
    Memory.objects.update(created_at=timezone.now())
    with without_journal_triggers():
        JournalEntry.objects.update(at=timezone.now() + timedelta(hours=1))
    assert "newest row is of" in look(named("clock")).text
    monkeypatch.setattr(
        timezone, "now", lambda: timezone.datetime(1999, 1, 1, tzinfo=timezone.get_default_timezone())
    )
    assert look_first("clock").status is Status.FAIL


def test_an_installation_without_an_administrator_is_warned_about(own_store):
    User.objects.create_user("bob")
    User.objects.create_superuser("gone", password="x", is_active=False)
    assert look(named("administrator")).status is Status.WARN
    User.objects.create_superuser("ada", password="x")
    assert look(named("administrator")) == ok("1 of 2 people who can sign in")


def test_accounts_of_an_earlier_openid_provider_are_warned_about(own_store, settings):
    settings.OIDC_ISSUER = "https://login.example.org"
    for name, issuer in {
        "ada": settings.OIDC_ISSUER,
        "bob": "https://old.example.org",
        "gone": "https://old",
    }.items():
        user = User.objects.create_user(name, is_active=name != "gone")
        SocialAccount.objects.create(user=user, provider=issuer, uid=name)
    found = look(named("provider links"))
    assert found.status is Status.WARN
    assert found.text.startswith("1 account is linked to an earlier OpenID provider")
    User.objects.filter(username="bob").delete()
    assert look(named("provider links")).status is Status.OK


def test_tokens_that_expire_soon_or_are_none_are_warned_about(own_store):
    assert "no agent has a valid token" in look(named("tokens")).text
    token, raw = tokens.issue_token("claude", "ada", actor=WRITER)
    assert look(named("tokens")) == ok("1 valid")
    AgentToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() + timedelta(days=3))
    found = look(named("tokens"))
    assert found.status is Status.WARN
    assert "claude" in found.text
    assert raw not in found.text
    AgentToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(days=3))
    assert "no agent has a valid token" in look(named("tokens")).text


def test_the_cap_of_a_project_is_compared_instead_of_the_configured_one(sound, configure):
    configure(max_memories=4)
    configure_project("zoo", system_actor("tests"), max_memories=50)
    for n in range(5):
        remember(f"m{n}", project="zoo")
    assert look(named("cap")).status is Status.OK
    configure_project("zoo", system_actor("tests"), max_memories=3)
    assert "over the cap of 3" in look(named("cap")).text
