"""Test that arbitrary JSON in any field is answered and leaves a valid store."""

from __future__ import annotations

import functools
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub import capture
from memoryhub.access.policy import Actor, Clearance
from memoryhub.api.events import _run_command
from memoryhub.capture.classification import extract_findings, extract_reason_comments, strip_generated_lines
from memoryhub.capture.code_lines import view_file
from memoryhub.capture.events import reduce_call
from memoryhub.capture.observation import MAX_OUTPUT, observe, output_text, parse_commit_message
from memoryhub.http.authentication import Caller
from memoryhub.models import Event
from tests.cases import each
from tests.cost import cost_ratio

ACTOR = Actor("token:odd", Clearance.up_to("secret", owner="ada"))
TEXTS = st.text(max_size=40) | st.sampled_from(
    [
        "\x00",
        "\ud800",
        "git commit -m 'fix: it failed because of \x00'",
        "<memory-context>",
        "FAILED x - E\n1 failed",
        "1 passed",
        ".env",
        "'" * 9,
        'git commit -m "',
        "🦆" * 20,
        "数据库索引选错了因为统计信息过期",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
GIVEN = JSON | st.dictionaries(
    st.sampled_from(["command", "file_path", "content", "new_string", "edits", "prompt", "patch", "path"]),
    JSON,
)
NUMBERS = count()  # makes each event unique, or it would count as a repeated delivery
TOOLS = st.sampled_from(["Bash", "Edit", "Write", "Read", "Task", "mcp__a__search_memories", ""]) | TEXTS


@given(tool=TOOLS, asked=GIVEN, response=JSON, cwd=TEXTS)
def test_any_json_is_parsed_as_tool_call(tool, asked, response, cwd):
    call = reduce_call(observe(tool, asked, response, cwd), 300)
    assert len(call.preview) <= 300
    assert "\x00" not in call.preview
    call.preview.encode()
    assert all(path.encode() for path in call.files)


@pytest.mark.slow
@pytest.mark.django_db
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_event_is_accepted_and_no_handler_fails(caplog, data):
    event = data.draw(st.sampled_from([*capture.EVENTS, capture.CHECKPOINT]))
    happening = capture.HookEvent(
        event=event,
        session_id=data.draw(st.sampled_from(["a", "b", "ä\x00b"])),
        project=data.draw(st.sampled_from(["", "p"])),
        cwd=data.draw(TEXTS),
        sensitivity=data.draw(st.sampled_from(["public", "private", "secret"])),
        data={
            "tool_name": data.draw(TOOLS),
            "tool_input": data.draw(GIVEN),
            "tool_response": data.draw(JSON),
            "prompt": data.draw(JSON),
            "reason": data.draw(JSON),
            "source": data.draw(JSON),
            "number": next(NUMBERS),
        },
    )
    done = capture.dispatch(happening, ACTOR)
    assert [one for one in done.handlers if one.status == "failed"] == []
    assert done.event is not None
    assert Event.objects.filter(pk=done.event.pk).exists()


def test_value_in_nested_fields_is_read_once():
    reads = []

    class Value:
        def __str__(self) -> str:
            reads.append(self)
            return ""

    nested: object = Value()
    for _ in range(10):
        nested = {"content": nested}
    assert output_text(nested) == ""
    assert len(reads) == 1


def test_deep_nesting_is_read_to_the_maximum_depth():
    nested: object = "the bottom"
    for _ in range(5000):
        nested = [nested]
    assert output_text(nested) == ""
    nested = {"a": "top", "b": {}}
    for _ in range(5000):
        nested = {"content": nested}
    assert reduce_call(observe("Task", nested, nested, ""), 300).preview == ""


def test_only_the_start_of_a_huge_response_is_read():
    rows = [{"text": "word " * 100} for _ in range(5000)]
    assert len(output_text(rows)) <= MAX_OUTPUT


@pytest.mark.django_db
@each("half", [rb"\ud83d", rb"\udc4d", rb"\udc4d\ud83d"])
def test_output_cut_within_a_character_is_accepted(bot, half):
    body = (
        rb'{"session_id": "s", "cwd": "/shop", "hook_event_name": "PostToolUse", "tool_name": "Bash",'
        rb' "tool_input": {"command": "make"}, "tool_response": {"stdout": "thumbs \ud83d\udc4d up %s"}}'
    ) % half
    response = bot.raw_post("/hooks/claude-code", body)
    assert (response.status_code, response.json()) == (200, {})
    assert Event.objects.get().preview.startswith("make thumbs \U0001f44d up \ufffd")


@pytest.mark.django_db
def test_event_api_validates_types_strictly(bot):
    body = rb'{"event": "prompt:submit", "session_id": "s", "data": ["prompt"]}'
    assert bot.raw_post("/events", body).status_code == 422


@pytest.mark.parametrize(
    "command",
    [
        "git commit -F - <<'END'\n{}",
        "git commit -F - <<'END'\n{}\nEND",
        "git commit -m '{}x'",
        "git commit {}",
        "git commit -F - <<{}\n{}",
        "git{}x",
    ],
)
@pytest.mark.parametrize("part", ["\n", "\n ", " ", "a", " -c", "git -c ", "-aF - <<", "-m 'a' "])
def test_commit_message_of_a_hostile_command_takes_linear_time(command, part):
    short, long = (command.replace("{}", part * (length // len(part))) for length in (1000, 8000))
    assert cost_ratio(parse_commit_message, long, short, enough=16) <= 16


@pytest.mark.parametrize("part", [" ", "* ", "*", "*/ "])
def test_comments_of_a_hostile_line_are_read_in_linear_time(part):
    short, long = (f"# a{part * (length // len(part))}a" for length in (1000, 8000))
    assert cost_ratio(lambda line: extract_reason_comments(line, ""), long, short, enough=16) <= 16


@pytest.mark.parametrize("part", [" ", "\t", "\n", " \n"])
def test_hostile_command_in_a_prompt_takes_linear_time(part):
    short, long = (f"/memoryhub:pause{part * (length // len(part))}x\ny" for length in (1000, 8000))
    run = functools.partial(_run_command, caller=Caller(ACTOR, frozenset()))
    prompts = [
        capture.HookEvent(capture.PROMPT_SUBMIT, "s", data={"prompt": prompt}) for prompt in (long, short)
    ]
    assert cost_ratio(run, *prompts, enough=16) <= 16


@pytest.mark.parametrize("read", [strip_generated_lines, extract_findings])
@pytest.mark.parametrize("part", ["\n", "\n ", "中", "a", "a "])
def test_hostile_message_is_read_in_linear_time(read, part):
    short, long = (f"because {part * (length // len(part))}" for length in (1000, 8000))
    assert cost_ratio(read, long, short, enough=16) <= 16


@pytest.mark.parametrize("part", ["\n", " \n", " ", "1"])
def test_lines_of_a_hostile_file_are_read_in_linear_time(part):
    def view(text):
        given = {"file_path": "a.py"}
        return view_file(observe("Read", given, {"text": text}, ""), given, {"text": text})

    short, long = (f"a{part * (length // len(part))}b" for length in (1000, 8000))
    assert cost_ratio(view, long, short, enough=16) <= 16
