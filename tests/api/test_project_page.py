"""The page of a project through the API: the answer, its access, and corrections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.access.policy import system_actor
from memoryhub.facts.services import create_fact
from memoryhub.memories import undo_last_change
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, JournalEntry, Memory
from tests.api.conftest import Agent, is_problem
from tests.cases import each

Remember = Callable[..., Memory]
PATH = "/projects/shop/page"


@pytest.fixture
def decision(remember: Remember) -> Memory:
    return remember("# Use SQLite\n\nOne file is easy to back up.", type="decision", project="shop")


@pytest.fixture
def fact(db: None) -> Fact:
    draft = FactDraft(subject="shop", predicate="uses", object="tabs", project="shop")
    return create_fact(draft, system_actor("tests"))[0]


def correct(bot: Agent, **body: Any) -> Any:
    return bot.post(f"{PATH}/corrections", body)


def lines(bot: Agent, **params: Any) -> list[str]:
    sections = bot.get(PATH, **params).json()["sections"]
    return [entry["line"] for section in sections for entry in section["entries"]]


def test_page_is_json_and_markdown(bot: Agent, decision: Memory) -> None:
    found = bot.get(PATH).json()
    assert found["markdown"] == "## Decisions in force\n\n- Use SQLite: One file is easy to back up.\n"
    [section] = found["sections"]
    assert (section["key"], section["title"]) == ("decisions", "Decisions in force")
    [entry] = section["entries"]
    assert (entry["kind"], entry["id"], entry["reason"]) == ("memory", decision.uid, "type decision")
    assert found["sent"] is True
    assert 0 < found["tokens"] <= 800


def test_private_and_secret_lines_are_shown_only_on_request(bot: Agent, remember: Remember) -> None:
    for level in ("public", "private", "secret"):
        remember(f"Use {level} keys", type="decision", project="shop", sensitivity=level)
    assert lines(bot) == ["Use public keys"]
    assert len(lines(bot, allow_private=True)) == 2
    assert not JournalEntry.objects.filter(operation="reveal").exists()
    assert len(lines(bot, allow_private=True, allow_secret=True)) == 3
    assert JournalEntry.objects.get(operation="reveal").detail["page"] == "api project page"


def test_page_of_a_closed_project_is_not_found(agent: Callable[..., Agent], decision: Memory) -> None:
    other = agent(projects=["docs"])
    is_problem(other.get(PATH), 404)
    is_problem(correct(other, action="pin", id=decision.uid), 404)


def test_line_is_reworded_pinned_and_left_out(bot: Agent, decision: Memory) -> None:
    assert correct(bot, action="reword", id=decision.uid, text="Use PostgreSQL").status_code == 200
    assert lines(bot) == ["Use PostgreSQL"]
    decision.refresh_from_db()
    assert (decision.title, decision.content) == ("Use PostgreSQL", "Use PostgreSQL")
    correct(bot, action="pin", id=decision.uid)
    decision.refresh_from_db()
    assert decision.pinned
    correct(bot, action="leave_out", id=decision.uid)
    assert lines(bot) == []
    number = decision.revisions.order_by("-number")[0].number
    undo_last_change(decision.uid, number, system_actor("tests"))
    assert lines(bot) == ["Use PostgreSQL"]


def test_rewording_a_line_of_a_long_memory_changes_its_title_alone(bot: Agent, remember: Remember) -> None:
    rest = "The harbour closes its gates at night. " * 20
    memory = remember(f"# Use SQLite\n\n{rest}", type="decision", project="shop")
    correct(bot, action="reword", id=memory.uid, text="Use SQLite everywhere")
    memory.refresh_from_db()
    assert memory.title == "Use SQLite everywhere"
    assert memory.content.startswith("# Use SQLite everywhere\n\nThe harbour closes")


def test_memory_that_is_not_true_goes_to_the_trash_and_a_fact_ends(
    bot: Agent, decision: Memory, fact: Fact
) -> None:
    correct(bot, action="not_true", id=decision.uid)
    correct(bot, action="not_true", kind="fact", id=fact.uid)
    assert lines(bot) == []
    assert Memory.objects.trashed().get() == decision
    fact.refresh_from_db()
    assert fact.valid_until


def test_reworded_fact_ends_and_becomes_a_pinned_memory(bot: Agent, fact: Fact) -> None:
    body = {"kind": "fact", "id": fact.uid, "section": "decisions", "text": "The shop uses spaces"}
    found = correct(bot, action="reword", **body).json()
    memory = Memory.objects.get(uid=found["memory_id"])
    assert memory.pinned
    assert lines(bot) == ["The shop uses spaces"]


def test_new_line_is_a_pinned_memory_of_its_section(bot: Agent) -> None:
    correct(bot, action="add", section="questions", text="Who owns the  importer")
    memory = Memory.objects.get()
    assert (memory.pinned, memory.project, memory.content) == (True, "shop", "Who owns the importer")
    assert bot.get(PATH).json()["sections"][0]["key"] == "questions"


@each(
    "body, status, name",
    [
        ({"action": "add", "section": "nonsense", "text": "x"}, 422, "section"),
        ({"action": "add", "section": "purpose", "text": "  "}, 422, "text"),
        ({"action": "add", "section": "purpose", "text": "x" * 501}, 422, "text"),
        ({"action": "dance"}, 422, "action"),
        ({"action": "pin", "id": "unknown"}, 404, ""),
        ({"action": "not_true", "kind": "fact", "id": "unknown"}, 404, ""),
        ({"action": "add", "section": "purpose", "text": f"key AKIA{'QWERTYUIOPASDFGH'}"}, 422, ""),
    ],
)
def test_invalid_correction_is_refused(bot: Agent, body: dict[str, Any], status: int, name: str) -> None:
    problem = is_problem(correct(bot, **body), status)
    assert not name or problem["errors"][0]["field"].endswith(name)
    assert not Memory.objects.exists()


def test_hidden_line_is_not_corrected(agent: Callable[..., Agent], remember: Remember) -> None:
    memory = remember("Use secret keys", type="decision", project="shop", sensitivity="secret")
    bot = agent(clearance="public")
    is_problem(correct(bot, action="not_true", id=memory.uid, allow_secret=True), 404)
    assert not Memory.objects.trashed().exists()


def test_correction_needs_write_and_the_setting_maintain(
    agent: Callable[..., Agent], bot: Agent, decision: Memory
) -> None:
    is_problem(correct(agent(rights=["read"]), action="pin", id=decision.uid), 403)
    writer = agent(rights=["read", "write"], name="writer")
    is_problem(writer.patch("/projects/shop", {"sends_page": False}), 403)
    change = bot.patch("/projects/shop", {"sends_page": False}).json()["change"]
    assert bot.get(PATH).json()["sent"] is False
    bot.post(f"/project-changes/{change}/undo")
    assert bot.get(PATH).json()["sent"] is True
