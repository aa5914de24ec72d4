"""Tokens in the admin: shown once, limited to the issuer's rights, revoked and never deleted."""

from __future__ import annotations

import json
import logging
import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as LoginSession
from django.utils import timezone

from memoryhub.accounts import tokens
from memoryhub.models import AgentToken, JournalEntry
from tests.admin.conftest import act, confirm, page, shown_messages

FORM = {
    "name": "scribe",
    "owner": "cleo",
    "clearance": "public",
    "rights": ["read", "write"],
    "projects": "hub\r\ndatasette",
    "expires_at_0": "",
    "expires_at_1": "",
}
MANAGER = ("view_agenttoken", "add_agenttoken", "change_agenttoken", "delete_agenttoken", "add_memory")


@pytest.fixture
def manager(staff):
    return staff(*MANAGER)


@pytest.fixture
def token(actor):
    return tokens.issue_token("scribe", "cleo", actor=actor)[0]


def issued(response) -> str:
    assert response.status_code == 200
    [raw] = set(re.findall(r"mh_[\w-]{43}", response.content.decode()))
    return raw


def errors(response) -> dict[str, list[str]]:
    assert response.status_code == 200
    return response.context["adminform"].form.errors


def test_a_new_token_works_and_has_the_requested_access(manager):
    raw = issued(manager.post(page(AgentToken, "add"), FORM))
    token = tokens.authenticate_token(raw)
    assert (token.name, token.owner, token.clearance) == ("scribe", "cleo", "public")
    assert (token.rights, token.projects) == (["read", "write"], ["datasette", "hub"])
    row = JournalEntry.objects.get()
    assert (row.actor, row.operation, row.object_id) == ("user:cleo", "issue", token.uid)


def test_a_token_is_shown_once_and_stored_nowhere(manager, caplog):
    with caplog.at_level(logging.DEBUG):
        response = manager.post(page(AgentToken, "add"), FORM)
    raw = issued(response)
    assert "no-store" in response["Cache-Control"]
    token = AgentToken.objects.get()
    pages = [page(AgentToken), "/admin/", page(JournalEntry)]
    pages += [page(AgentToken, view, token.pk) for view in ("change", "history")]
    for address in pages:
        assert raw not in manager.get(address, follow=True).content.decode()
    kept = [
        json.dumps(list(LogEntry.objects.values()), default=str),
        json.dumps(list(JournalEntry.objects.values()), default=str),
        json.dumps(list(AgentToken.objects.values()), default=str),
        json.dumps([login.get_decoded() for login in LoginSession.objects.all()]),
        "".join(cookie.value for cookie in manager.cookies.values()),
        caplog.text,
    ]
    assert not any(raw in text for text in kept)


def test_a_token_with_an_end_date_expires(manager):
    later = timezone.now() + timedelta(days=2)
    times = {"expires_at_0": f"{later:%Y-%m-%d}", "expires_at_1": f"{later:%H:%M:%S}"}
    manager.post(page(AgentToken, "add"), FORM | times)
    assert AgentToken.objects.get().expires_at == later.replace(microsecond=0)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("name", {"name": ""}),
        ("name", {"name": "x" * 101}),
        ("name", {"name": "a\tb"}),
        ("clearance", {"clearance": "cosmic"}),
        ("rights", {"rights": []}),
        ("rights", {"rights": ["rule"]}),
        ("projects", {"projects": "x" * 201}),
        ("expires_at", {"expires_at_0": "2001-01-01", "expires_at_1": "00:00"}),
        ("expires_at", {"expires_at_0": "soon", "expires_at_1": "00:00"}),
    ],
)
def test_a_bad_value_is_an_error_at_its_field_and_issues_nothing(manager, field, change):
    assert list(errors(manager.post(page(AgentToken, "add"), FORM | change))) == [field]
    assert not AgentToken.objects.exists()
    assert not JournalEntry.objects.exists()


@pytest.mark.parametrize(
    ("held", "grantable"),
    [
        ((), ["public"]),
        (("view_private",), ["public", "private"]),
        # A token for secrets reads private memories too, which this person may not.
        (("view_secret",), ["public"]),
        (("view_private", "view_secret"), ["public", "private", "secret"]),
    ],
)
def test_no_one_grants_a_clearance_they_lack(staff, held, grantable):
    client = staff(*MANAGER, *held)
    for level in ("public", "private", "secret"):
        response = client.post(page(AgentToken, "add"), FORM | {"clearance": level})
        if level in grantable:
            issued(response)
        else:
            assert list(errors(response)) == ["clearance"]
    assert sorted(AgentToken.objects.values_list("clearance", flat=True)) == sorted(grantable)


def test_staff_issue_tokens_for_themselves_only(manager):
    User.objects.create_user("ada")
    assert list(errors(manager.post(page(AgentToken, "add"), FORM | {"owner": "ada"}))) == ["owner"]


def test_a_superuser_issues_tokens_for_others(boss):
    User.objects.create_user("ada")
    issued(boss.post(page(AgentToken, "add"), FORM | {"owner": "ada", "clearance": "secret"}))
    assert AgentToken.objects.get().owner == "ada"


def test_a_token_is_changed_under_the_persons_name(manager, token):
    response = manager.post(
        page(AgentToken, "change", token.pk), FORM | {"name": "reader", "rights": ["read"]}
    )
    assert response.status_code == 302
    token.refresh_from_db()
    assert (token.name, token.rights, token.projects) == ("reader", ["read"], ["datasette", "hub"])
    row = JournalEntry.objects.get(operation="update")
    assert row.actor == "user:cleo"
    assert row.detail["fields"] == ["name", "rights", "projects"]


def test_saving_an_unchanged_token_writes_no_journal_row(manager, token):
    form = manager.get(page(AgentToken, "change", token.pk)).context["adminform"].form
    assert form["rights"].value() == ["read", "write"]
    data = {"name": token.name, "clearance": "public", "rights": token.rights, "projects": ""}
    manager.post(page(AgentToken, "change", token.pk), data)
    assert not JournalEntry.objects.filter(operation="update").exists()


def test_the_owner_of_a_token_stays(boss, token):
    User.objects.create_user("ada")
    boss.post(page(AgentToken, "change", token.pk), FORM | {"owner": "ada"})
    token.refresh_from_db()
    assert token.owner == "cleo"


@pytest.mark.parametrize("what", [{"owner": "ada"}, {"clearance": "secret"}])
def test_a_token_beyond_the_users_rights_can_be_seen_and_revoked_but_not_changed(manager, actor, what):
    token, _ = tokens.issue_token("theirs", **{"owner": "cleo"} | what, actor=actor)
    address = page(AgentToken, "change", token.pk)
    assert manager.get(address).status_code == 200
    assert manager.post(address, FORM).status_code == 403
    confirm(manager, act(manager, "revoke", token))
    token.refresh_from_db()
    assert token.name == "theirs"
    assert token.revoked_at is not None


def test_revoking_asks_first_and_is_journaled_under_the_persons_name(manager, actor):
    token, raw = tokens.issue_token("scribe", "cleo", actor=actor)
    asked = act(manager, "revoke", token)
    assert "scribe" in asked.content.decode()
    assert tokens.authenticate_token(raw)
    response = confirm(manager, asked)
    assert tokens.authenticate_token(raw) is None
    assert JournalEntry.objects.get(operation="revoke").actor == "user:cleo"
    assert any("1 token revoked" in text for text in shown_messages(manager, response))


def test_a_revoked_token_is_read_only(boss, token, actor):
    tokens.revoke_token(token.uid, actor)
    address = page(AgentToken, "change", token.pk)
    assert boss.get(address).status_code == 200
    assert boss.post(address, FORM).status_code == 403
    response = act(boss, "revoke", token)
    assert any("Nothing was changed" in text for text in shown_messages(boss, response))


def test_a_token_cannot_be_deleted_even_by_a_superuser(boss, token):
    assert boss.post(page(AgentToken, "delete", token.pk), {"post": "yes"}).status_code == 403
    act(boss, "delete_selected", token, post="yes")
    assert AgentToken.objects.exists()


@pytest.mark.parametrize("permission", ["view_agenttoken", "add_agenttoken"])
def test_revoking_needs_the_permission_to_change(staff, token, permission):
    act(staff("view_agenttoken", permission), "revoke", token, confirmed="yes", keys=token.pk)
    assert AgentToken.objects.get().revoked_at is None


def test_without_permission_tokens_stay_unseen(staff, token):
    client = staff("view_memory")
    for address in (page(AgentToken), page(AgentToken, "add"), page(AgentToken, "change", token.pk)):
        assert client.get(address).status_code == 403


def test_no_page_contains_the_digest(boss, token):
    for view in ("change", "history"):
        assert token.digest not in boss.get(page(AgentToken, view, token.pk)).content.decode()
    assert token.digest not in boss.get(page(AgentToken)).content.decode()
