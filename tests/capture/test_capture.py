"""Test which tool calls become memories, and the reasons to skip others."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Event, Memory
from tests.capture.conftest import DATABASE, FIX, AgentSession

KEY = "aZ3kQ8mW1xT6vB4nR9pL2cY7dF5gH0jS3uE8"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("bugfix", FIX),
        ("feature", "feat(queue): members wait in line for a tool that is out; the first has three days"),
        (
            "refactor",
            "refactor: the rates move into a module of their own; no one else may read the file now",
        ),
        (
            "decision",
            "We decided to keep one SQLite file instead of a server, because accounting copies it",
        ),
        ("discovery", "Turns out the export is made on a Mac, so its names are in NFD and not in NFC"),
        (
            "change",
            "chore: raise the limit to ninety seconds, because trains are slow and must not time out",
        ),
    ],
)
def test_commit_is_captured_with_its_type(agent_session, kind, message):
    assert agent_session.commit(message).memory.type == kind


def test_decision_in_a_document_is_captured(agent_session):
    text = (
        "# 3. Lapsed offers are computed, not written\n\nWe decided against a job at night, because the"
        " computer at the counter is off then. An offer lapses when it is looked at after three days."
    )
    event = agent_session.tool(
        "Write", {"file_path": "docs/decisions/0003-lapsed.md", "content": text}, {"success": True}
    )
    assert event.memory.type == "decision"
    assert event.memory.title == "Lapsed offers are computed, not written"


@pytest.mark.conformance("guide-88")
def test_captured_memory_has_metadata_and_event(agent_session):
    agent_session.tool("Read", {"file_path": "src/cache.py"}, {"file": {"content": "x = 1"}})
    agent_session.tool("Edit", {"file_path": "src/importer.py", "old_string": "a", "new_string": "b"}, {})
    memory = agent_session.commit(FIX).memory
    assert memory.title == "Read each file once"
    assert memory.subtitle == "in importer.py"
    assert memory.abstract.startswith("The cache key ignored the encoding")
    assert 0.6 <= memory.importance <= 0.85
    assert memory.session_id == "s1"
    assert memory.project == "shop"
    assert memory.discovery_tokens > 0
    assert {(one.access, one.path) for one in memory.files.all()} == {
        ("read", "src/cache.py"),
        ("modified", "src/importer.py"),
    }
    assert "problem-solution" in {one.value for one in memory.labels.filter(kind="concept")}
    assert memory.author == "token:bot"


@pytest.mark.parametrize("is_pinned", [True, False])
def test_revert_moves_the_memory_of_the_commit_to_the_trash_unless_it_is_pinned(
    agent_session, actor, is_pinned
):
    text = "perf: cues are read one by one because the file is larger than the memory of the reader"
    memory = agent_session.commit(text).memory
    if is_pinned:
        memories.update_memory(memory.uid, MemoryPatch(pinned=True), actor)
    agent_session.commit(f'Revert \\"{text}\\"\n\nErrors came too late, because no one had asked yet.')
    memory.refresh_from_db()
    assert (memory.deleted_at is None) is is_pinned


def test_discovery_tokens_count_the_work_since_the_last_memory(agent_session):
    agent_session.tool("Read", {"file_path": "a.py"}, "word " * 400)
    first = agent_session.commit(FIX).memory
    second = agent_session.commit(
        "feat: members wait in line for a tool that is out, and the first has three days"
    ).memory
    assert first.discovery_tokens > 400
    assert second.discovery_tokens < 100


@pytest.mark.conformance("guide-80", "guide-89")
def test_event_stores_the_memorability_parts(agent_session):
    event = agent_session.commit(FIX)
    parts = event.memorability_parts
    assert set(parts) == {"substance", "salience", "distinctiveness", "type_weight", "total"}
    assert event.memorability == parts["total"] >= 0.3


@pytest.mark.conformance("guide-82")
def test_candidate_below_the_threshold_is_skipped_with_its_parts(agent_session):
    event = agent_session.commit("wording of a label")
    assert event.memory is None
    assert event.skip_reason == "below the gate"
    assert event.memorability < 0.3
    assert set(event.memorability_parts) >= {"substance", "total"}


@pytest.mark.conformance("guide-111", "guide-120")
def test_memorability_threshold_is_configurable(agent_session, configure):
    configure(memorability_threshold=1.0)
    assert agent_session.commit(FIX).skip_reason == "below the gate"


def test_read_and_search_calls_are_routine(agent_session):
    for tool, given in (
        ("Read", {"file_path": "a.py"}),
        ("Grep", {"pattern": "x"}),
        ("Bash", {"command": "ls"}),
    ):
        assert agent_session.tool(tool, given, DATABASE).skip_reason == "routine"
    assert agent_session.memories() == []


def test_identical_text_is_a_duplicate(agent_session):
    agent_session.commit(FIX)
    event = agent_session.commit(FIX)
    assert event.skip_reason == "duplicate"
    assert len(agent_session.memories()) == 1


def test_similar_text_is_a_duplicate(agent_session, remember):
    remember(FIX.replace("fix(importer): ", "importer: "), project="shop")
    event = agent_session.commit(FIX)
    assert event.memory is None
    assert event.skip_reason == "duplicate"
    assert event.memorability_parts["distinctiveness"] < 0.2


def test_same_text_in_another_project_is_no_duplicate(agent_session, remember):
    remember(FIX, project="elsewhere")
    assert agent_session.commit(FIX).memory is not None


def test_deleted_memory_is_not_captured_again(agent_session, actor):
    memory = agent_session.commit(FIX).memory
    memories.trash_memories([memory.uid], actor)
    event = agent_session.commit(FIX)
    assert event.skip_reason == "forgotten before"
    assert agent_session.memories() == []


def test_neighbour_lookup_counts_no_access(agent_session, remember):
    known = remember(FIX + " It was the path.", project="shop")
    agent_session.commit(FIX)
    known.refresh_from_db()
    assert (known.accessed_count, known.last_accessed_at) == (0, None)


@pytest.mark.conformance("guide-17")
def test_capture_continues_while_memorability_is_disabled(agent_session, configure):
    configure(capability_memorability=False)
    event = agent_session.commit("wording of a label")
    assert event.memory is not None
    assert event.memorability is None
    assert "memory.memorability is switched off" in event.handlers[1]["detail"]


@pytest.mark.conformance("guide-18")
def test_capture_continues_when_memorability_fails(agent_session, monkeypatch):
    def explode(*args):
        raise RuntimeError("secret words")

    monkeypatch.setattr("memoryhub.capture.classification.score", explode)
    event = agent_session.commit(FIX)
    assert event.memory is not None
    assert "memory.memorability failed" in event.handlers[1]["detail"]
    assert "secret words" not in event.handlers[1]["detail"]


# --- What is never kept -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Read", {"file_path": "/srv/shop/.env"}),
        (
            "Write",
            {"file_path": ".env.production", "content": f"# because we must never lose it\nTOKEN={KEY}"},
        ),
        ("Edit", {"file_path": "config/secrets.yml", "new_string": f"# we decided to rotate it\nkey: {KEY}"}),
        ("Bash", {"command": "cat ~/.aws/credentials"}),
        ("Bash", {"command": "source .env && ./deploy"}),
        ("Read", {"file_path": "/home/ada/.ssh/id_ed25519"}),
        ("Read", {"file_path": "tls/server.key"}),
    ],
)
def test_call_on_a_credential_file_stores_only_the_file_name(agent_session, tool, given):
    event = agent_session.tool(tool, given, f"TOKEN={KEY} because we decided so, and never otherwise")
    assert event.skip_reason == "secret"
    assert event.sensitivity == "private"
    assert event.keywords == []
    assert KEY not in event.preview
    assert KEY not in str(agent_session.row.state)
    assert agent_session.memories() == []


@pytest.mark.parametrize("path", [".env.example", "src/secrets.py", "docs/keys.md", "id_rsa.pub"])
def test_file_with_a_similar_name_is_no_credential_file(agent_session, path):
    assert agent_session.tool("Read", {"file_path": path}, "text").sensitivity == "public"


def test_commit_message_with_a_credential_is_not_captured(agent_session):
    event = agent_session.commit(f"fix: the deploy failed because the token ghp_{KEY} had expired last week")
    assert event.skip_reason == "secret"
    assert "[secret removed]" in event.preview
    assert KEY not in event.preview
    assert not Memory.objects.exists()


def test_noted_failure_contains_no_credential(agent_session):
    agent_session.tool("Bash", {"command": "pytest"}, f"E   AuthError: ghp_{KEY} was refused\n1 failed")
    assert KEY not in str(agent_session.row.state)


def test_injected_context_is_not_captured(agent_session):
    block = f"<memory-context>\n{DATABASE}, so we decided to never use it\n</memory-context>"
    event = agent_session.tool("Task", {"prompt": "look"}, block)
    assert event.memory is None
    assert event.skip_reason == "injected block"
    assert "planner" not in event.preview
    assert agent_session.memories() == []


def test_unclosed_injected_block_extends_to_the_end(agent_session):
    event = agent_session.tool(
        "Task", {"prompt": "look"}, f"<memory-context foo>\n{DATABASE}, because we never looked"
    )
    assert event.memory is None


def test_text_around_an_injected_block_is_captured(agent_session):
    block = f"<memory-context>\n{DATABASE}\n</memory-context>"
    said = "The worker must never write to the share on Sundays, because the backup of the office runs then."
    event = agent_session.tool("Task", {"prompt": "When may the worker write?"}, f"{block}\n\n{said}")
    assert said in event.memory.content
    assert "planner" not in event.memory.content


@pytest.mark.parametrize(
    "tool",
    [
        "mcp__letsgo__search_memories",
        "mcp__memoryhub__get_memory",
        "mcp__hub__memory_recall",
        "memory_store",
        "store_memory",
        "mcp__mira__memory",
    ],
)
def test_memory_tool_calls_are_not_captured(agent_session, tool):
    event = agent_session.tool(
        tool, {"query": "x"}, {"content": f"{DATABASE}. We decided so because it never fails."}
    )
    assert event.skip_reason == "memory tool"
    assert agent_session.memories() == []


def test_preview_is_one_short_line(agent_session):
    event = agent_session.tool("Bash", {"command": "make"}, "many words on a line\n" * 500)
    assert len(event.preview) <= 300
    assert "\n" not in event.preview


def test_preview_length_is_configurable(agent_session, configure):
    configure(event_preview_chars=40)
    assert len(agent_session.tool("Bash", {"command": "make"}, "word " * 99).preview) <= 40


def test_prompt_preview_contains_no_credentials(agent_session):
    agent_session.ok(
        "prompt:submit", {"prompt": f"Use ghp_{KEY} please <memory-context>old</memory-context>"}
    )
    preview = Event.objects.get().preview
    assert KEY not in preview
    assert "old" not in preview


def test_captured_memory_has_the_level_of_its_event(agent_session):
    assert agent_session.commit(FIX, sensitivity="private").memory.sensitivity == "private"


def test_fix_without_commit_is_captured_at_session_end(agent_session):
    agent_session.tool(
        "Bash", {"command": "pytest -q"}, "FAILED tests/test_a.py::test_sum - ValueError: no rate\n1 failed"
    )
    agent_session.tool("Edit", {"file_path": "rates.py", "new_string": "x"}, {})
    agent_session.tool("Bash", {"command": "pytest -q"}, "3 passed in 0.1s")
    agent_session.end()
    [memory] = agent_session.memories("bugfix")
    assert "no rate" in memory.content


def test_routine_calls_create_no_memory(bot):
    agent_session = AgentSession(bot)
    for n in range(30):
        agent_session.tool("Read", {"file_path": f"f{n}.py"}, f"def f{n}(): return {n}")
    agent_session.end()
    assert agent_session.memories() == []


@pytest.mark.parametrize(
    ("tool", "kind", "text"),
    [
        (
            "Bash",
            "bugfix",
            "Fixed the bug in auth.py: the token refresh failed because the clock skew was ignored.",
        ),
        (
            "mcp__tracker__resolve_issue",
            "decision",
            "We decided to use one queue instead of two because workers starve otherwise.",
        ),
        (
            "str_replace",
            "discovery",
            "Root cause: the cache key ignored the tenant, so customers saw each other's data.",
        ),
        (
            "Bash",
            "discovery",
            "Discovered that the payment gateway silently truncates references of 35 characters.",
        ),
        (
            "mcp__tracker__resolve_issue",
            "feature",
            "Implemented the retry queue with exponential backoff and added tests for it.",
        ),
        (
            "str_replace",
            "refactor",
            "Refactored the session module: extracted the token store and renamed the manager.",
        ),
    ],
)
def test_tool_output_with_a_claim_is_captured(agent_session, tool, kind, text):
    event = agent_session.tool(tool, {"command": "make deploy", "path": "src/a.py"}, text)
    assert event.memory is not None, event.skip_reason
    assert event.memory.type == kind
    assert text in event.memory.content


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("feature", "Added a CSV export to the report page, with a button in the toolbar"),
        ("feature", "Implemented rate limiting for the login endpoint: ten attempts per minute and address"),
        ("refactor", "Refactored the payment module: the gateway client has its own file now"),
        ("decision", "We decided to use PostgreSQL instead of MySQL for the ledger"),
        ("change", "Changed the session timeout from 30 minutes to 8 hours for kiosk devices"),
        ("change", "Changed the retry limit of uploads from 3 to 10 attempts"),
        ("change", "Updated the default page size from 20 to 50 in the listing view"),
    ],
)
def test_output_that_reports_work_is_captured_with_its_type(agent_session, kind, output):
    event = agent_session.tool("Bash", {"command": "./agent-task.sh"}, {"stdout": output})
    assert (event.memory.type, event.memory.content) == (kind, output)


@pytest.mark.parametrize(
    "output",
    [
        "added 52 packages, and audited 53 packages in 3s",
        "Switched to a new branch 'feature/export-button'",
        "Updated 4 paths from the index for the build",
        "Removed intermediate container of the second build stage",
        "Server is now listening on port 8000 of all interfaces",
        "ERROR: ResolutionImpossible\nThe conflict is caused by:\n  foo 1 depends on bar\nTo fix this"
        " you could try to:\n1. loosen the range of package versions",
    ],
)
def test_message_of_a_build_tool_is_not_captured(agent_session, output):
    assert agent_session.tool("Bash", {"command": "make"}, {"stdout": output}).memory is None


def test_help_and_long_advice_are_not_captured(agent_session):
    advice = "Use this option rather than the old one, because it is faster."
    assert agent_session.tool("Bash", {"command": "tool --help"}, {"stdout": advice}).memory is None
    manual = "\n".join(
        f"{word.title()}: {advice}" for word in "alpha beta gamma delta omega kappa rho".split()
    )
    assert agent_session.tool("Bash", {"command": "./manual.sh"}, {"stdout": manual}).memory is None


@pytest.mark.parametrize(
    "output",
    [
        "Error: connect ECONNREFUSED 127.0.0.1:5432\nCause: the pool was closed before the last query ended."
        "\nFix: await pool.end() in the shutdown hook.",
        "Error: the export stopped at row 40\nThe cause is a name with a line break, which the writer\n"
        "does not quote.\nThe fix is to set quoting=QUOTE_ALL in\nthe export.",
        "TypeError: cart is undefined. Root cause: the cart is loaded lazily. Fixed by awaiting cart.load().",
    ],
)
def test_failure_that_states_cause_and_fix_is_a_bugfix(agent_session, output):
    memory = agent_session.tool("Bash", {"command": "node app.js"}, {"stderr": output}).memory
    assert memory.type == "bugfix"
    assert memory.content == output


QUESTION = {
    "question": "Which database should the ledger use?",
    "options": [
        {"label": "PostgreSQL", "description": "locks rows, needs a server"},
        {"label": "SQLite", "description": "one file"},
    ],
}


@pytest.mark.parametrize(
    "response",
    [
        {"questions": [QUESTION], "answers": {QUESTION["question"]: "PostgreSQL"}},
        'User has answered your questions: "Which database should the ledger use?"="PostgreSQL". Continue.',
        "PostgreSQL",
    ],
)
def test_answer_of_the_user_is_a_decision(agent_session, response):
    memory = agent_session.tool("AskUserQuestion", {"questions": [QUESTION]}, response).memory
    assert memory.type == "decision"
    assert memory.content == (
        "Decision of the user: PostgreSQL (Which database should the ledger use?)\n"
        "The chosen option reads: locks rows, needs a server.\nNot chosen: SQLite."
    )
    assert memory.title == "Decision of the user: PostgreSQL (Which database should the ledger use?)"


def test_bare_consent_to_the_next_step_is_not_captured(agent_session):
    question = "Shall I proceed with the commit?"
    asked = {"questions": [{"question": question}]}
    event = agent_session.tool("AskUserQuestion", asked, {"answers": {question: "Yes"}})
    assert event.skip_reason == "routine"


@pytest.mark.parametrize(("threshold", "kept"), [(0.05, True), (0.3, False)])
def test_threshold_decides_about_sentences_of_routine_output(agent_session, configure, threshold, kept):
    configure(memorability_threshold=threshold)
    output = "The build finished and wrote its output to the dist folder of the web shop."
    event = agent_session.tool("Bash", {"command": "make"}, {"stdout": output})
    assert bool(event.memory) is kept


def test_high_threshold_keeps_a_report_out(agent_session, configure):
    configure(memorability_threshold=0.95)
    output = "Added a CSV export to the report page, with a button in the toolbar"
    event = agent_session.tool("Bash", {"command": "make"}, {"stdout": output})
    assert event.skip_reason == "below the gate"
