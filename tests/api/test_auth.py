"""Tokens: issued, authenticated by either header, limited by rights, expired and revoked."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.memories import NotFound, StoreError
from memoryhub.models import AgentToken, JournalEntry
from tests.api.conftest import Agent, is_problem
from tests.cases import each

BOSS = system_actor("tests")


@pytest.fixture
def issue(db):
    def make(**options):
        return tokens.issue_token(**{"name": "bot", "owner": "ada", "actor": BOSS, **options})

    return make


@pytest.mark.parametrize("header", ["Authorization: Bearer {}", "Authorization: bearer {}", "X-API-Key: {}"])
def test_a_token_is_recognised_in_either_header(issue, header):
    _, raw = issue()
    name, value = header.format(raw).split(": ")
    assert Agent(headers={name: value}).get("/memories").status_code == 200


@each(
    "headers",
    [
        {},
        {"Authorization": "Bearer mh_wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": "Bearer mh_\xff"},
        {"Authorization": "mh_"},
        {"X-API-Key": "mh_wrong"},
        {"X-API-Key": ""},
        {"X-API-Key": "x" * 10_000},
    ],
)
def test_missing_or_invalid_token_is_401_everywhere(db, headers):
    for path in ("/memories", "/search?query=x", "/stats", "/journal", "/tools", "/sessions/x"):
        response = Agent(headers=headers).http.get(f"/api/v1{path}")
        is_problem(response, 401, "unauthenticated")
        assert response["WWW-Authenticate"].startswith("Bearer")


def test_body_is_not_validated_without_a_token(db):
    is_problem(Agent().post("/memories", {"importance": 7}), 401)


def test_revoked_token_stops_at_once(issue):
    token, raw = issue()
    tokens.revoke_token(token.uid, BOSS)
    is_problem(Agent(raw).get("/memories"), 401)
    tokens.revoke_token(token.uid, BOSS)
    assert JournalEntry.objects.filter(operation="revoke", object_id=token.uid).count() == 1


def test_expired_token_is_401(issue):
    token, raw = issue(expires_at=timezone.now() + timedelta(days=1))
    assert Agent(raw).get("/memories").status_code == 200
    AgentToken.objects.filter(pk=token.pk).update(expires_at=timezone.now())
    is_problem(Agent(raw).get("/memories"), 401)


def test_token_is_stored_hashed_and_not_journaled(issue):
    token, raw = issue(clearance="secret", projects=["b", "a"])
    assert raw.startswith("mh_")
    assert raw not in str(AgentToken.objects.filter(pk=token.pk).values())
    row = JournalEntry.objects.get(operation="issue")
    assert (row.object_id, row.actor) == (token.uid, "system:tests")
    assert row.detail["projects"] == ["a", "b"]
    assert token.digest not in str(row.detail)
    assert raw[:20] not in str(row.detail)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"owner": ""}, "owner"),
        ({"clearance": "cosmic"}, "clearance"),
        ({"rights": ["fly"]}, "rights"),
        ({"rights": []}, "rights"),
        ({"projects": [""]}, "projects"),
        ({"expires_at": timezone.now() - timedelta(1)}, "expires_at"),
    ],
)
def test_invalid_value_is_named_and_no_token_is_created(issue, options, field):
    with pytest.raises(StoreError) as refusal:
        issue(**options)
    assert refusal.value.field == field
    assert not AgentToken.objects.exists()


def test_revoking_a_missing_token_is_refused(db):
    with pytest.raises(NotFound):
        tokens.revoke_token("nothere", BOSS)


READS = [
    "/memories",
    "/search?query=x",
    "/timeline",
    "/sessions",
    "/facts",
    "/journal",
    "/journal/verify",
    "/stats",
]


@each("path", READS)
def test_reading_needs_the_right_to_read(agent, path):
    problem = is_problem(agent(rights=["write", "maintain"]).http.get(f"/api/v1{path}"), 403, "missing_right")
    assert "'read'" in problem["detail"]


def test_writing_needs_the_right_to_write(agent):
    reader = agent(rights=["read"])
    for answer in (
        reader.post("/memories", {"content": "x"}),
        reader.post("/memories/batch", {"memories": []}),
        reader.patch("/memories/x", {"title": "t"}),
        reader.delete("/memories/x"),
        reader.post("/memories/x/restore"),
        reader.post("/facts", {}),
        reader.delete("/facts/x"),
    ):
        assert "'write'" in is_problem(answer, 403, "missing_right")["detail"]


@pytest.mark.parametrize("tool", ["purge_expired", "summarize_old"])
def test_maintaining_as_a_tool_needs_the_right_to_write(agent, tool):
    answer = agent(rights=["read", "maintain"]).post(f"/tools/letsgo/{tool}", {})
    assert "'write'" in is_problem(answer, 403, "missing_right")["detail"]
    assert agent(rights=["write"]).post(f"/tools/letsgo/{tool}", {}).status_code == 200


def test_use_is_recorded_once_a_minute(issue, django_assert_num_queries):
    token, raw = issue()
    now = timezone.now()
    tokens.authenticate_token(raw, "10.0.0.1", now)
    with django_assert_num_queries(1):
        tokens.authenticate_token(raw, "10.0.0.2", now + timedelta(seconds=59))
    token.refresh_from_db()
    assert (token.last_used_at, token.last_used_from) == (now, "10.0.0.1")
    tokens.authenticate_token(raw, "10.0.0.2", now + timedelta(seconds=61))
    token.refresh_from_db()
    assert token.last_used_from == "10.0.0.2"


def test_busy_database_does_not_refuse_a_valid_token(issue, monkeypatch, caplog):
    _, raw = issue()

    def locked(*args, **kwargs):
        raise OperationalError("database is locked")

    monkeypatch.setattr("memoryhub.models.querysets.TokenQuerySet.update", locked)
    assert Agent(raw).get("/memories").status_code == 200
    assert "not recorded" in caplog.text


def test_nearest_proxy_reports_the_address(issue, settings):
    token, raw = issue()
    settings.BEHIND_PROXY = True
    Agent(raw, {"X-Forwarded-For": "6.6.6.6, 10.1.1.1"}).get("/memories")
    token.refresh_from_db()
    assert token.last_used_from == "10.1.1.1"


def test_create_token_prints_only_the_token(db, capsys):
    call_command("create_token", "bot", "--clearance=secret", "--rights=read,maintain", "--projects=a, b")
    out, err = capsys.readouterr()
    raw = out.strip()
    assert out == raw + "\n"
    token = AgentToken.objects.get()
    assert tokens.authenticate_token(raw) == token
    assert (token.name, token.owner, token.clearance) == ("bot", "bot", "secret")
    assert (token.rights, token.projects) == (["read", "maintain"], ["a", "b"])
    assert "not shown again" in err


def test_create_token_grants_little_by_default(db, capsys):
    call_command("create_token", "bot", "--owner=ada", "--expires-days=7")
    token = AgentToken.objects.get()
    assert (token.owner, token.clearance, token.rights, token.projects) == (
        "ada",
        "public",
        ["read", "write"],
        [],
    )
    assert abs(token.expires_at - timezone.now() - timedelta(days=7)) < timedelta(minutes=1)


@each(
    "options, named",
    [
        (["--clearance=cosmic"], "clearance"),
        (["--rights=read,fly"], "rights"),
        (["--rights="], "rights"),
        (["--expires-days=0"], "expires-days"),
        (["--expires-days=nan"], "expires-days"),
    ],
)
def test_create_token_explains_errors(db, options, named):
    with pytest.raises(CommandError, match=named):
        call_command("create_token", "bot", *options)
    assert not AgentToken.objects.exists()
