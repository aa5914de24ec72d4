"""Transcript files: supported shapes and error messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memoryhub.core.text import estimate_tokens
from memoryhub.extraction.conversation import (
    InvalidTranscript,
    Turn,
    parse_messages,
    parse_turns,
    read_transcript,
    split_turns,
    to_messages,
)

TWO = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]
SAID = [Turn("user", "Hello"), Turn("assistant", "Hi!")]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(TWO),
        json.dumps({"messages": TWO, "model": "x"}),
        "\n".join(json.dumps(one) for one in TWO),
        "\n".join(json.dumps({"type": one["role"], "message": one, "uuid": "u"}) for one in TWO),
        "User: Hello\n\nAssistant: Hi!\n",
        "## User:\nHello\n## Assistant:\nHi!",
        "**User:** Hello\n**Assistant:** Hi!",
        "Human: Hello\nAI: Hi!",
        f'{{"summary": "x"}}\n{json.dumps(TWO[0])}\nbroken {{\n{json.dumps(TWO[1])}',
    ],
)
def test_every_transcript_shape_is_read(text: str) -> None:
    assert parse_turns(parse_messages(text)) == SAID


def test_recorded_hooks_are_read() -> None:
    rows = [
        {"offset": 0, "hook": {"hook_event_name": "UserPromptSubmit", "prompt": "Hello"}},
        {"offset": 1, "hook": {"hook_event_name": "PostToolUse", "tool_name": "Bash"}},
        {"offset": 2, "hook": {"hook_event_name": "Stop", "last_assistant_message": "Hi!"}},
    ]
    assert parse_turns(parse_messages("\n".join(map(json.dumps, rows)))) == SAID


def test_messages_added_by_the_program_are_skipped() -> None:
    row = {"type": "user", "isMeta": True, "message": {"role": "user", "content": "Caveat: generated"}}
    assert parse_messages(json.dumps(row)) == []


@pytest.mark.parametrize("text", ["", "just words", "[]", "{}", "12", '["a"]', "[" * 100_000])
def test_file_without_conversation_is_reported(text: str, tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_text(text)
    with pytest.raises(InvalidTranscript, match="it must contain JSON messages"):
        read_transcript(file)


def test_binary_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidTranscript, match="UTF-8"):
        read_transcript(file)


@pytest.mark.parametrize(
    "message",
    [None, 7, "text", {}, {"role": "user"}, {"content": "x"}, {"role": "system", "content": "x"},
     {"role": "user", "content": 7}, {"role": "user", "content": ["x"]}, {"role": "user", "content": "  "}],
)  # fmt: skip
def test_other_messages_are_skipped(message: Any) -> None:
    assert parse_turns([message]) == []


def test_turns_contain_no_credentials_and_injected_memories() -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    [turn] = parse_turns(
        [{"role": "user", "content": f"a {secret} <memory-context>old</memory-context> b\x00"}]
    )
    assert secret not in turn.text
    assert "old" not in turn.text
    assert parse_turns(to_messages([turn])) == [turn]


@pytest.mark.conformance("pigo-50")
def test_conversation_is_split_by_tokens_without_loss() -> None:
    said = [Turn("user", f"number {n} " + "word " * 50) for n in range(20)] + [Turn("user", "x" * 5000)]
    parts = split_turns(said, 500)
    assert all(sum(estimate_tokens(one.text) + 4 for one in part) <= 500 for part in parts)
    assert "".join(one.text for part in parts for one in part) == "".join(one.text for one in said)
