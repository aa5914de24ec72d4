"""claude-mem's SQLite file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memoryhub.transfer.formats import FORMATS, detect_format
from tests.transfer.formats.foreign import CLAUDE_MEM, CLAUDE_MEM_4, CLAUDE_MEM_FIRST, Read, sqlite_file

EPOCH = 1_772_359_200_000
WHEN = {"created_at": "2026-03-01T10:00:00.000Z", "created_at_epoch": EPOCH}


def observation(**values: Any) -> dict[str, Any]:
    return {
        "memory_session_id": "mem-s",
        "project": "shop",
        "type": "bugfix",
        "title": "Carts survive a restart",
        "subtitle": "They are written before the answer",
        "narrative": "Carts were lost because they were kept in the process.",
        "facts": '["Carts live in Redis now", "They expire after 30 days"]',
        "concepts": '["problem-solution"]',
        "files_read": '["cart/store.ts"]',
        "files_modified": '["cart/redis.ts"]',
        "discovery_tokens": 900,
        **WHEN,
    } | values


SESSION = {
    "content_session_id": "claude-1",
    "memory_session_id": "mem-s",
    "project": "shop",
    "started_at": "2026-03-01T09:00:00Z",
    "started_at_epoch": EPOCH - 3_600_000,
}


def claude_mem(tmp_path: Path, **tables: list[dict[str, Any]]) -> Read:
    return Read("claude-mem", sqlite_file(tmp_path / "claude-mem.db", CLAUDE_MEM, tables))


def test_observation_becomes_a_memory_with_facts_below_the_narrative(tmp_path: Path) -> None:
    [draft] = claude_mem(tmp_path, observations=[observation()]).drafts
    assert draft.content == (
        "Carts were lost because they were kept in the process.\n\n"
        "- Carts live in Redis now\n- They expire after 30 days"
    )
    assert (draft.type, draft.title, draft.project) == ("bugfix", "Carts survive a restart", "shop")
    assert draft.subtitle == "They are written before the answer"
    assert draft.concepts == ["problem-solution"]
    assert (draft.files_read, draft.files_modified) == (["cart/store.ts"], ["cart/redis.ts"])
    assert (draft.discovery_tokens, draft.ttl_days) == (900, 0)
    assert draft.created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_session_id_is_that_of_the_user(tmp_path: Path) -> None:
    read = claude_mem(
        tmp_path,
        sdk_sessions=[SESSION],
        observations=[observation(), observation(memory_session_id="unknown", narrative="Other")],
    )
    assert [draft.session_id for draft in read.drafts] == ["claude-1", "unknown"]
    assert read.unmapped == {}


def test_observation_without_narrative_keeps_other_texts(tmp_path: Path) -> None:
    rows = [
        observation(narrative=None, facts="[]", text="Sent as one text"),
        observation(narrative=None, facts='["Only a fact"]'),
        observation(narrative=None, facts=None),
    ]
    contents = [draft.content for draft in claude_mem(tmp_path, observations=rows).drafts]
    assert contents == ["Sent as one text", "- Only a fact", "They are written before the answer"]


def test_unknown_type_becomes_a_tag(tmp_path: Path) -> None:
    read = claude_mem(tmp_path, observations=[observation(type="security_note")])
    assert (read.drafts[0].type, read.drafts[0].tags) == ("change", ["security_note"])
    assert read.unmapped == {"type security_note (stored as change, with the type as a tag)": 1}


def test_worktree_rows_belong_to_the_merged_project(tmp_path: Path) -> None:
    [draft] = claude_mem(
        tmp_path, observations=[observation(project="shop/wt-3", merged_into_project="shop")]
    ).drafts
    assert (draft.project, draft.tags) == ("shop", ["shop/wt-3"])


def test_session_summary_becomes_one_text(tmp_path: Path) -> None:
    row = {
        "memory_session_id": "mem-s",
        "project": "shop",
        "request": "Why do carts vanish?",
        "investigated": "The session store",
        "learned": "They lived in memory",
        "completed": "Moved to Redis",
        "next_steps": None,
        "notes": "",
        "files_edited": '["cart/redis.ts"]',
        **WHEN,
    }
    [draft] = claude_mem(tmp_path, sdk_sessions=[SESSION], session_summaries=[row]).drafts
    assert draft.content == (
        "Request: Why do carts vanish?\n\nInvestigated: The session store\n\n"
        "Learned: They lived in memory\n\nCompleted: Moved to Redis"
    )
    assert (draft.type, draft.title, draft.session_id) == (
        "session_summary",
        "Why do carts vanish?",
        "claude-1",
    )
    assert draft.files_modified == ["cart/redis.ts"]


def test_directives_are_preferences_of_a_project_or_the_team(tmp_path: Path) -> None:
    rows = [
        {"content": "Always run the tests", **WHEN, "updated_at_epoch": EPOCH},
        {"content": "Use pnpm", "scope": "project", "project": "shop", **WHEN, "updated_at_epoch": EPOCH},
        {"content": "Old habit", "status": "removed", **WHEN, "updated_at_epoch": EPOCH + 1000},
    ]
    records = claude_mem(tmp_path, directives=rows).records
    found = [(record.draft.scope, record.draft.project, record.draft.type) for record in records]  # type: ignore[union-attr]
    assert found == [
        ("team", "", "preference"),
        ("project", "shop", "preference"),
        ("team", "", "preference"),
    ]
    assert [record.past.deleted_at is not None for record in records] == [False, False, True]


def test_sessions_and_prompts_are_imported(tmp_path: Path) -> None:
    ended = {"completed_at": "2026-03-01T11:00:00Z", "status": "completed", "platform_source": "codex"}
    prompt = {"content_session_id": "claude-1", "prompt_number": 1, "prompt_text": "Why do carts vanish?"}
    read = claude_mem(tmp_path, sdk_sessions=[{**SESSION, **ended}], user_prompts=[{**prompt, **WHEN}])
    [session] = read.history("session")
    assert (session.session_id, session.project, session.agent) == ("claude-1", "shop", "codex")
    assert session.started_at == datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert session.last_at == session.ended_at == datetime(2026, 3, 1, 11, tzinfo=UTC)
    assert session.end_reason == "completed"
    [event] = read.history("event")
    assert (event.session_id, event.project, event.event) == ("claude-1", "shop", "prompt:submit")
    assert (event.preview, event.at) == ("Why do carts vanish?", datetime(2026, 3, 1, 10, tzinfo=UTC))
    assert read.items[0].place == "sdk_sessions row 1"  # type: ignore[union-attr]


def test_long_prompt_is_cut_and_redacted(tmp_path: Path) -> None:
    said = "Use the key AKIA" + "QWERTYUIOPASDFGH" + " and " + "please " * 200
    prompt = {"content_session_id": "claude-1", "prompt_number": 1, "prompt_text": said, **WHEN}
    [event] = claude_mem(tmp_path, sdk_sessions=[SESSION], user_prompts=[prompt]).history("event")
    assert event.preview.startswith("Use the key")
    assert "QWERTYUIOPASDFGH" not in event.preview
    assert len(event.preview) <= 300


def test_unsupported_values_are_counted(tmp_path: Path) -> None:
    read = claude_mem(
        tmp_path,
        sdk_sessions=[{**SESSION, "custom_title": "Carts"}],
        observations=[observation(agent_type="explorer", generated_by_model="m", metadata='{"k": 1}')],
    )
    assert read.unmapped == {"custom_title": 1, "agent_type": 1, "generated_by_model": 1, "metadata k": 1}


def test_version_4_with_other_column_names_is_read(tmp_path: Path) -> None:
    tables = {
        "sdk_sessions": [
            {
                "claude_session_id": "c-4",
                "sdk_session_id": "s-4",
                "project": "shop",
                "started_at_epoch": EPOCH,
            }
        ],
        "observations": [
            {"sdk_session_id": "s-4", "project": "shop", "text": "One text", "type": "decision", **WHEN}
        ],
    }
    path = sqlite_file(tmp_path / "old.db", CLAUDE_MEM_4, tables)
    assert detect_format(path) is FORMATS["claude-mem"]
    read = Read("claude-mem", path)
    [draft] = read.drafts
    assert (draft.content, draft.session_id, draft.type) == ("One text", "c-4", "decision")
    assert [session.session_id for session in read.history("session")] == ["c-4"]


def test_first_versions_with_transcript_parts_are_read(tmp_path: Path) -> None:
    tables = {
        "memories": [
            {
                "session_id": "c-1",
                "text": "The parser skips comments",
                "keywords": "parser, comments",
                "title": "Parser",
                "facts": '["It is recursive"]',
                "files_touched": '["parse.ts"]',
                "project": "compiler",
                **WHEN,
            }
        ],
        "overviews": [
            {"session_id": "c-1", "content": "Worked on the parser", "project": "compiler", **WHEN}
        ],
        "transcript_events": [{"session_id": "c-1", "raw_json": "{}"}],
    }
    path = sqlite_file(tmp_path / "first.db", CLAUDE_MEM_FIRST, tables)
    assert detect_format(path) is FORMATS["claude-mem"]
    read = Read("claude-mem", path)
    first, second = read.drafts
    assert first.content == "The parser skips comments\n\n- It is recursive"
    assert (first.tags, first.files_read) == (["parser", "comments"], ["parse.ts"])
    assert (second.type, second.content) == ("session_summary", "Worked on the parser")
    assert read.unmapped == {"rows of transcript_events": 1}
