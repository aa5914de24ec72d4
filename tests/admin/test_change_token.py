"""Changing a token through ``memoryhub.accounts.tokens``."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.accounts import tokens
from memoryhub.memories import Conflict, NotFound, StoreError
from memoryhub.models import JournalEntry

pytestmark = pytest.mark.django_db
SAME = {
    "name": "scribe",
    "clearance": "public",
    "rights": ["read", "write"],
    "projects": None,
    "expires_at": None,
}


@pytest.fixture
def token(actor):
    return tokens.issue_token("scribe", "ada", actor=actor)[0]


def test_a_changed_token_has_its_new_clearance(token, actor):
    tokens.change_token(token.uid, actor, **SAME | {"clearance": "private", "projects": ["hub"]})
    token.refresh_from_db()
    assert (token.clearance, token.projects, token.owner) == ("private", ["hub"], "ada")


def test_a_change_is_journaled_with_its_fields(token, actor):
    tokens.change_token(token.uid, actor, **SAME | {"rights": ["read"]})
    row = JournalEntry.objects.get(operation="update")
    assert (row.actor, row.object_type, row.object_id) == (actor.name, "token", token.uid)
    assert row.detail["fields"] == ["rights"]
    assert row.detail["rights"] == ["read"]


def test_an_unchanged_token_writes_no_journal_row(token, actor):
    tokens.change_token(token.uid, actor, **SAME)
    assert not JournalEntry.objects.filter(operation="update").exists()


def test_a_revoked_token_cannot_be_changed(token, actor):
    tokens.revoke_token(token.uid, actor)
    with pytest.raises(Conflict, match="revoked"):
        tokens.change_token(token.uid, actor, **SAME)


def test_a_missing_token_cannot_be_changed(actor):
    with pytest.raises(NotFound):
        tokens.change_token("nothing", actor, **SAME)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", " "),
        ("clearance", "cosmic"),
        ("rights", []),
        ("rights", ["rule"]),
        ("projects", ["a\nb"]),
        ("projects", []),
        ("expires_at", timezone.now() - timedelta(days=1)),
    ],
)
def test_a_bad_value_is_named(token, actor, field, value):
    with pytest.raises(StoreError) as refusal:
        tokens.change_token(token.uid, actor, **SAME | {field: value})
    assert refusal.value.field == field


def test_an_expired_token_can_still_be_renamed(token, actor):
    past = timezone.now() - timedelta(days=1)
    type(token).objects.update(expires_at=past)
    tokens.change_token(token.uid, actor, **SAME | {"name": "old scribe", "expires_at": past})
    token.refresh_from_db()
    assert token.name == "old scribe"


@pytest.mark.parametrize("field", ["projects", "rights"])
def test_an_empty_list_of_projects_is_refused_for_a_new_token(db, actor, field):
    with pytest.raises(StoreError) as refusal:
        tokens.issue_token("scribe", "ada", actor=actor, **{field: []})
    assert refusal.value.field == field
