"""A damaged page: 503 with advice everywhere, and recorded until ``doctor`` finds the file whole."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub import memories
from memoryhub.core import database
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.ops.doctor import Status
from tests.api.conftest import Agent, agent, is_problem  # noqa: F401 a fixture
from tests.commands.conftest import home, own_store  # noqa: F401 fixtures
from tests.commands.examining import WRITER, named
from tests.ops.damaging import copy_page, damage_statement, leaf_pages, overwrite_pages, root_page

pytestmark = pytest.mark.django_db(transaction=True)
READS = ["/memories", "/search?query=zebra", "/stats", "/timeline"]
PAGES = ["/", "/memories/", "/memories/?q=zebra", "/trash/", "/stats/", "/admin/memoryhub/memory/"]


def store_zebras() -> None:
    """Store memories on more pages than a test damages."""
    memories.create_memories([MemoryDraft(content=f"zebra {n} " + "grass " * 300) for n in range(30)], WRITER)


@pytest.fixture
def damaged(own_store, agent):  # noqa: F811
    """An agent that may do everything, and a store with a damaged page in its table of memories."""
    bot = agent()
    store_zebras()
    User.objects.create_superuser("grace", password="x")
    overwrite_pages(own_store, *leaf_pages(own_store, "memoryhub_memory")[5:])
    return bot


@pytest.fixture
def person(damaged) -> Client:
    client = Client(raise_request_exception=False)
    assert client.login(username="grace", password="x")
    return client


def test_api_answers_503_with_advice(damaged):
    for path in READS:
        database.clear_damage()
        response = damaged.http.get(f"/api/v1{path}")
        assert_is_advice(response, path)
    assert_is_advice(damaged.post("/recall", {"query": "zebra"}), "/recall")


def assert_is_advice(response, path):
    problem = is_problem(response, 503, "store_damaged")
    assert "manage.py doctor" in problem["detail"], path
    assert response["Retry-After"] == "60", path


def test_export_of_a_damaged_store_breaks_off(damaged):
    """Its lines are read while it is sent."""
    response = damaged.http.get("/api/v1/export")
    with pytest.raises(Exception, match="malformed"):
        b"".join(response.streaming_content)


def test_memory_on_another_page_is_still_read(damaged):
    assert damaged.get("/facts").status_code == 200


def test_page_is_503_with_advice(person):
    for path in PAGES:
        database.clear_damage()
        page = person.get(path)
        assert page.status_code == 503, path
        assert "The store is damaged" in page.content.decode(), path
        assert "manage.py doctor" in page.content.decode(), path


def test_damaged_sessions_of_people_are_503(person, own_store):  # noqa: F811
    overwrite_pages(own_store, root_page(own_store, "django_session"))
    page = person.get("/")
    assert page.status_code == 503
    assert "The store is damaged" in page.content.decode()


def test_mcp_tool_returns_the_advice(damaged):
    call = {"name": "search_memories", "arguments": {"query": "zebra"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"accept": "application/json, text/event-stream"}
    response = damaged.http.post("/mcp/letsgo", body, content_type="application/json", headers=headers)
    result = response.json()["result"]
    assert result["isError"]
    assert "manage.py doctor" in result["content"][0]["text"]
    assert result["structuredContent"]["status"] == 503


def test_hook_of_claude_code_warns_its_user(damaged):
    hook = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "What does the zebra eat?"}
    response = damaged.post("/hooks/claude-code", hook)
    assert response.status_code == 200
    assert "manage.py doctor" in response.json()["systemMessage"]


def test_event_reports_the_damage(damaged):
    event = {"event": "prompt:submit", "session_id": "s", "data": {"prompt": "What does the zebra eat?"}}
    [handler] = damaged.post("/events", event).json()["handlers"]
    assert "manage.py doctor" in handler["detail"]


def test_damaged_tokens_are_503(damaged, own_store):  # noqa: F811
    overwrite_pages(own_store, root_page(own_store, "memoryhub_agenttoken"))
    is_problem(damaged.get("/facts"), 503, "store_damaged")


@pytest.fixture
def unexpected(monkeypatch):
    """An error that no code expects when facts are listed, as values of another table cause it."""

    def fail(*arguments, **options):
        raise ValueError("not enough values to unpack")

    monkeypatch.setattr("memoryhub.api.records.paginate", fail)
    monkeypatch.setattr("memoryhub.web.facts.views.render", fail)


@pytest.fixture
def misdirected(own_store, agent, unexpected):  # noqa: F811
    """A store in which the content of one page was written to another one, too."""
    bot = agent()
    store_zebras()
    User.objects.create_superuser("grace", password="x")
    first, second = leaf_pages(own_store, "memoryhub_memory")[:2]
    copy_page(own_store, first, second)
    return bot


def test_unexpected_error_with_a_page_in_the_wrong_place_is_503(misdirected):
    assert not database.is_damage_recorded()
    is_problem(misdirected.get("/facts"), 503, "store_damaged")
    assert "Rowid" in database.damage_path().read_text()


def test_page_with_an_unexpected_error_and_a_page_in_the_wrong_place_is_503(misdirected):
    person = Client(raise_request_exception=False)
    assert person.login(username="grace", password="x")
    page = person.get("/facts/")
    assert page.status_code == 503
    assert "The store is damaged" in page.content.decode()


def test_unexpected_error_with_a_whole_store_is_500(own_store, agent, unexpected):  # noqa: F811
    is_problem(agent().get("/facts"), 500, "internal_error")
    assert not database.is_damage_recorded()


def test_file_is_checked_once_a_minute_at_most(own_store, agent, unexpected, monkeypatch):  # noqa: F811
    bot = agent()
    bot.get("/facts")
    monkeypatch.setattr(database.sqlite3, "connect", lambda *args, **options: pytest.fail("checked again"))
    is_problem(bot.get("/facts"), 500, "internal_error")


def test_statement_of_the_schema_that_is_not_utf8_is_503(own_store, agent):  # noqa: F811
    bot = agent()
    damage_statement(own_store, "memoryhub_fact")
    assert_is_advice(bot.http.get("/api/v1/memories"), "/memories")
    assert "malformed" in database.damage_path().read_text()


def test_readyz_is_503_once_damage_was_met(damaged):
    damaged.get("/search?query=zebra")
    errors = is_problem(Agent().http.get("/readyz"), 503, "not_ready")["errors"]
    assert "the store is damaged" in errors[-1]["message"]


def test_record_of_damage_is_readable_for_its_owner_only(damaged):
    damaged.get("/search?query=zebra")
    assert database.is_damage_recorded()
    assert database.damage_path().stat().st_mode & 0o777 == 0o600
    assert "malformed" in database.damage_path().read_text()


def test_damage_is_recorded_in_a_folder_that_cannot_be_written_to(damaged, monkeypatch):
    def refuse(*arguments):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(database.os, "open", refuse)
    damaged.get("/search?query=zebra")
    assert database.is_damage_recorded()
    database.clear_damage()


@pytest.mark.parametrize("name", ["journal", "mirror"])
def test_doctor_reports_a_damaged_page_of_the_journal(damaged, own_store, name):  # noqa: F811
    overwrite_pages(own_store, *leaf_pages(own_store, "memoryhub_journalentry")[1:])
    [found] = named(name).findings()
    assert found.status is Status.FAIL
    assert "the store cannot be read" in found.text


def test_record_ends_when_doctor_finds_the_file_whole(own_store, agent):  # noqa: F811
    database.record_damage(OSError("database disk image is malformed"))
    assert Agent().http.get("/readyz").status_code == 503
    assert {one.status for one in named("integrity").findings()} == {Status.OK}
    assert not database.is_damage_recorded()
    assert Agent().http.get("/readyz").status_code == 200
