"""Whether shown memories helped: the outcomes that events, failures and people decide."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.injection import queries
from memoryhub.memories import merge_memories
from memoryhub.memories.imported_history import apply_history
from memoryhub.models import Injection, JournalEntry, Memory
from memoryhub.search.scoring import helpfulness
from memoryhub.transfer.export import memory_to_line
from memoryhub.transfer.schema import MemoryLine, memory_history
from tests.capture.conftest import agent, agent_session, bot, no_injection_deadline, open_session
from tests.cases import each
from tests.clients import create_person, signed_in_client
from tests.cost import cost_ratio

__all__ = ["agent", "agent_session", "bot", "no_injection_deadline", "open_session"]

TEXT = "The importer reads rates.csv twice because load_rates ignores the encoding cache of the ledger"
PROMPT = {"prompt": "Why does the importer read its rates twice?"}


@pytest.fixture
def shown(agent_session, remember):
    """A memory that a session was shown with its prompt."""
    agent_session.ok("session:start")
    memory = remember(TEXT, project="shop", files_modified=["src/import/rates.py"])
    assert "load_rates" in agent_session.ok("prompt:submit", PROMPT)["context"]
    return memory


def outcome():
    [one] = Injection.objects.filled().latest("at").injected
    return one.get("used"), one.get("why")


def counts(memory):
    memory = Memory.objects.get(uid=getattr(memory, "uid", memory))
    return memory.shown_count, memory.helped_count


def test_memory_helps_when_its_file_is_touched(agent_session, shown):
    agent_session.tool("Read", {"file_path": "src/import/rates.py"}, "def f(): ...")
    agent_session.end()
    assert (outcome(), counts(shown)) == ((True, "file"), (1, 1))


@pytest.mark.parametrize(("path", "helped"), [("src/import/rates.py", 1), ("web/src/import/rates.py", 0)])
def test_file_of_another_folder_does_not_count(agent_session, remember, path, helped):
    place = {"cwd": "/home/ada/mono/src", "repository": {"root": "a" * 40, "subfolder": "src"}}
    agent_session.ok("session:start", **place)
    memory = remember(TEXT, project="shop", files_modified=["src/import/rates.py"])
    assert agent_session.ok("prompt:submit", PROMPT)["context"]
    agent_session.tool("Read", {"file_path": f"/home/ada/mono/{path}"}, "text", cwd=place["cwd"])
    agent_session.end()
    assert counts(memory) == (1, helped)


def test_memory_helps_when_its_terms_are_repeated(agent_session, shown):
    agent_session.tool("Bash", {"command": "grep -rn load_rates src"}, {"stdout": "src/a.py:1"})
    agent_session.end()
    assert (outcome(), counts(shown)) == ((True, "terms"), (1, 1))


def test_terms_in_an_output_do_not_count(agent_session, shown):
    agent_session.tool("Bash", {"command": "ls -la"}, {"stdout": "load_rates rates.csv encoding ledger"})
    agent_session.end()
    assert (outcome(), counts(shown)) == ((False, None), (1, 0))


def test_terms_and_files_of_the_prompt_do_not_count(agent_session, remember):
    agent_session.ok("session:start")
    memory = remember(TEXT, project="shop", files_modified=["src/import/rates.py"])
    prompt = "Does load_rates in src/import/rates.py read rates.csv twice?"
    assert agent_session.ok("prompt:submit", {"prompt": prompt})["context"]
    agent_session.tool(
        "Edit", {"file_path": "src/import/rates.py", "new_string": "def load_rates(): ..."}, {}
    )
    agent_session.end()
    assert (outcome(), counts(memory)) == ((False, None), (1, 0))


def test_files_of_a_summary_do_not_count(agent_session, remember):
    agent_session.ok("session:start")
    files = ["src/import/rates.py"]
    memory = remember(TEXT, project="shop", files_modified=files, type="session_summary")
    assert agent_session.ok("prompt:submit", PROMPT)["context"]
    agent_session.tool("Read", {"file_path": files[0]}, "text")
    agent_session.end()
    assert counts(memory) == (1, 0)


def test_memory_of_a_failure_helps_when_the_command_then_succeeds(agent_session, remember):
    agent_session.ok("session:start")
    failure = "ModuleNotFoundError: No module named 'ledger_rates'"
    memory = remember(f"{failure}: run the build first, it makes the module", type="bugfix", project="shop")
    agent_session.tool("Bash", {"command": "pytest tests/unit"}, {"stderr": failure, "is_error": True})
    assert Injection.objects.filled().exists()
    agent_session.tool("Bash", {"command": "pytest tests/unit"}, {"stdout": "5 passed"})
    agent_session.end()
    assert (outcome(), counts(memory)) == ((True, "failure"), (1, 1))


def test_memory_of_another_failure_does_not_help(agent_session, shown, remember):
    memory = remember("Invoices of Norway are rounded: use Decimal", type="bugfix", project="shop")
    failure = "ModuleNotFoundError: No module named 'ledger_rates'"
    agent_session.tool("Bash", {"command": "pytest tests/unit"}, {"stderr": failure, "is_error": True})
    assert agent_session.ok("prompt:submit", {"prompt": "How are invoices of Norway rounded?"})["context"]
    agent_session.tool("Bash", {"command": "pytest tests/unit"}, {"stdout": "5 passed"})
    agent_session.end()
    assert (outcome(), counts(memory)) == ((False, None), (1, 0))


def test_outcome_is_decided_when_another_session_starts(agent_session, open_session, shown):
    agent_session.tool("Read", {"file_path": "src/import/rates.py"}, "text")
    later = timezone.now() + timedelta(hours=3)
    queries.decide_abandoned(agent_session.row, later)
    assert outcome() == (None, None), "its own session goes on"
    other = open_session("s2")
    other.ok("session:start")
    assert outcome() == (None, None), "it may go on"
    queries.decide_abandoned(other.row, later)
    assert outcome() == (True, "file")


def test_outcomes_are_decided_once(agent_session, shown):
    agent_session.end()
    agent_session.ok("session:start")
    agent_session.end()
    assert counts(shown) == (1, 0)


def test_injection_of_another_level_or_project_does_not_change_the_counts(agent_session, remember):
    """Its readers must not learn from the counts what happened where they cannot look."""
    everywhere = remember(TEXT)
    agent_session.ok("session:start")
    assert agent_session.ok("prompt:submit", PROMPT)["context"]
    remember("The planner scans each partition of the ledger", project="shop", sensitivity="public")
    assert agent_session.ok(
        "prompt:submit", {"prompt": "Does the planner scan each partition?"}, sensitivity="private"
    )["context"]
    agent_session.end()
    assert not Memory.objects.filter(shown_count__gt=0).exists()
    assert not Injection.objects.undecided().exists()
    assert counts(everywhere) == (0, 0)


def test_private_call_is_no_evidence_for_a_public_injection(agent_session, shown):
    agent_session.tool("Read", {"file_path": "src/import/rates.py"}, "text", sensitivity="private")
    agent_session.end()
    assert (outcome(), counts(shown)) == ((False, None), (1, 0))


def test_events_store_hashes_only_after_an_injection(agent_session, remember):
    command = {"command": "grep -rn load_rates src"}
    assert agent_session.tool("Bash", command, {"stdout": ""}).digests is None
    remember(TEXT, project="shop")
    agent_session.ok("prompt:submit", PROMPT)
    digests = agent_session.tool("Bash", command, {"stdout": ""}).digests
    assert digests["terms"]
    assert "load_rates" not in str(digests)


def test_failed_decision_does_not_reach_the_agent(agent_session, shown, monkeypatch):
    monkeypatch.setattr(queries, "_save", lambda *given: 1 / 0)
    assert agent_session.end()["handlers"][0]["status"] != "failed"


# --- Ratings ------------------------------------------------------------------------------------------------


def rate(agent, memory, *, useful):
    return agent.post(f"/memories/{memory.uid}/rating", {"useful": useful})


def test_rating_counts_before_and_after_the_events_decide(bot, agent_session, shown):
    assert rate(bot, shown, useful=True).json()["helped_count"] == 1
    assert bot.get(f"/memories/{shown.uid}/rating").json()["helped_count"] == 1
    agent_session.end()
    assert (outcome(), counts(shown)) == ((True, "rated"), (1, 1))
    assert rate(bot, shown, useful=False).json()["outcome"] == "updated"
    assert rate(bot, shown, useful=False).json()["outcome"] == "unchanged"
    assert (outcome(), counts(shown)) == ((False, "rated"), (1, 0))


def test_undone_rating_leaves_the_outcome_of_the_events(bot, agent_session, shown):
    agent_session.tool("Read", {"file_path": "src/import/rates.py"}, "text")
    agent_session.end()
    rate(bot, shown, useful=False)
    assert counts(shown) == (1, 0)
    assert bot.delete(f"/memories/{shown.uid}/rating").json()["outcome"] == "undone"
    assert (outcome(), counts(shown)) == ((True, "file"), (1, 1))
    assert list(
        JournalEntry.objects.filter(object_id=shown.uid).order_by("-seq")[:2].values_list("operation")
    ) == [
        ("undo_rate",),
        ("rate",),
    ]


def test_undone_rating_of_an_open_injection_is_decided_later(bot, agent_session, shown):
    rate(bot, shown, useful=True)
    bot.delete(f"/memories/{shown.uid}/rating")
    assert (outcome(), counts(shown)) == ((None, None), (0, 0))
    assert bot.delete(f"/memories/{shown.uid}/rating").status_code == 404, "undone already"
    agent_session.end()
    assert counts(shown) == (1, 0)


def test_memory_that_was_never_shown_cannot_be_rated(bot, remember):
    memory = remember(TEXT, project="shop")
    response = rate(bot, memory, useful=True)
    assert response.status_code == 409
    assert "no agent has received it yet" in response.json()["detail"]


def test_hidden_memory_cannot_be_rated(agent, agent_session, remember):
    memory = remember(TEXT, project="shop", sensitivity="secret")
    assert rate(agent("public"), memory, useful=True).status_code == 404


def test_rating_without_a_boolean_is_refused(bot, shown):
    assert bot.post(f"/memories/{shown.uid}/rating", {"useful": "very"}).status_code == 422


def ask(bot, command, session_id="s1"):
    hook = {"hook_event_name": "UserPromptSubmit", "session_id": session_id, "prompt": command}
    return bot.post("/hooks/claude-code?project=shop", hook).json()


@each("command, expected", [("", (1, 1)), (" no", (1, 0)), (" 1", (1, 1)), (" no 1", (1, 0))])
def test_command_rates_what_the_session_was_shown_last(bot, shown, command, expected):
    answer = ask(bot, f"/memoryhub:useful{command}")
    assert answer["decision"] == "block"
    assert "useful: The importer reads" in answer["reason"]
    assert counts(shown) == expected


@pytest.mark.parametrize(
    ("command", "message"),
    [(" perhaps", "write nothing, a number, or no"), (" 7", "no memory with this number")],
)
def test_command_explains_what_it_cannot_rate(bot, shown, command, message):
    assert message in ask(bot, f"/memoryhub:useful{command}")["reason"]
    assert "no memory was shown here yet" in ask(bot, "/memoryhub:useful", "s9")["reason"]
    assert counts(shown) == (0, 0)


# --- Order of candidates ------------------------------------------------------------------------------------


def test_factor_is_bounded_and_moves_slowly():
    assert helpfulness(0, 0) == 1
    assert 0.98 < helpfulness(1, 0) < 1 < helpfulness(1, 1) < 1.02
    assert helpfulness(10_000, 0) >= 0.9
    assert helpfulness(10_000, 10_000) <= 1.1


def test_memory_that_helped_is_injected_before_an_equal_one(bot, remember):
    names = ("north", "south")
    first, second = [remember(f"The {one} importer of rates warns twice", project="shop") for one in names]
    for helpful, other in ((first, second), (second, first)):
        Memory.objects.filter(pk=helpful.pk).update(shown_count=9, helped_count=9)
        Memory.objects.filter(pk=other.pk).update(shown_count=9, helped_count=0)
        injected = bot.post("/inject", {"prompt": "Why does the importer of rates warn?", "project": "shop"})
        ranked = injected.json()["injected"]
        assert [one["id"] for one in ranked] == [helpful.uid, other.uid]
        assert ranked[0]["factor"] > 1 > ranked[1]["factor"]


def test_search_keeps_its_documented_score_and_order(bot, remember):
    for name in ("north", "south"):
        remember(f"The {name} importer of rates warns", project="shop")
    before = bot.get("/search?query=importer+rates").json()["results"]
    Memory.objects.filter(uid=before[-1]["memory"]["id"]).update(shown_count=99, helped_count=99)
    after = bot.get("/search?query=importer+rates").json()["results"]
    assert [(one["memory"]["id"], one["score"]) for one in after] == [
        (one["memory"]["id"], one["score"]) for one in before
    ]


def test_counts_survive_export_and_import(shown):
    Memory.objects.filter(pk=shown.pk).update(shown_count=9, helped_count=6)
    row = Memory.objects.get(pk=shown.pk)
    past = memory_history(MemoryLine(**json.loads(memory_to_line(row))))
    assert (past.shown_count, past.helped_count) == (9, 6)
    fresh = Memory()
    apply_history(fresh, past, timezone.now())
    assert (fresh.shown_count, fresh.helped_count) == (9, 6)


def test_merged_memory_adds_up_the_counts(remember, actor):
    first, second = remember("The importer warns twice"), remember("The importer warns two times")
    Memory.objects.update(shown_count=3, helped_count=2)
    merge_memories(first.uid, [second.uid], actor)
    assert counts(first) == (6, 4)


# --- Pages --------------------------------------------------------------------------------------------------


def page(client, path):
    return client.get(path).content.decode()


def test_pages_show_how_often_memories_helped(agent_session, shown):
    client = signed_in_client(create_person("ada", "change_memory"))
    agent_session.tool("Read", {"file_path": "src/import/rates.py"}, "text")
    agent_session.end()
    assert "it helped 1 of 1 time" in page(client, f"/memories/{shown.uid}/")
    assert "used: its file was touched" in page(
        client, f"/injections/{Injection.objects.filled().get().uid}/"
    )
    home = page(client, "/")
    assert '<strong class="num">1</strong> of 1 injection helped' in home
    assert "helped 1 of 1 time" in page(client, "/memories/?q=importer")


def test_page_rates_and_undoes(shown):
    client, back = signed_in_client(create_person("ada", "change_memory")), f"/memories/{shown.uid}/"
    answer = client.post("/acts/", {"act": "useful", "uid": shown.uid, "next": back}, follow=True)
    assert "1 memory rated useful" in answer.content.decode()
    assert counts(shown) == (1, 1)
    [undo] = re.findall(r'action="(/acts/[^"]+/undo/)"', answer.content.decode())
    numbers = dict(re.findall(r'name="(first|last)" value="(\d+)"', answer.content.decode()))
    client.post(undo, {**numbers, "next": back})
    assert counts(shown) == (0, 0)


@pytest.mark.parametrize("part", ["\n", " \n", "$ \n", "` "])
def test_commands_of_a_hostile_memory_are_read_in_linear_time(part):
    short, long = (f"a{part * (length // len(part))}b" for length in (1000, 8000))
    assert cost_ratio(queries.find_commands, long, short, enough=16) <= 16


def test_commands_of_a_memory_are_those_in_backquotes_and_behind_a_prompt():
    text = "Run `make fixed` first.\n\n  $ make all\n$\nno command"
    assert queries.find_commands(text) == {"make fixed", "make all"}
