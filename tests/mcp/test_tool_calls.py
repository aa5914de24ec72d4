"""Tools called through MCP: the same results, refusals and visibility as over HTTP, and sessions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.core.vocabulary import Right
from memoryhub.http.authentication import Caller
from memoryhub.management.commands.mcp import StdioConnection
from memoryhub.mcp import http
from memoryhub.models import AgentToken, JournalEntry, Memory
from memoryhub.toolsets import TOOLSETS
from memoryhub.toolsets.base import Tool, Toolset
from tests.cases import each
from tests.mcp.conftest import McpAgent

SECRET = "AKIA" + "IOSFODNN7EXAMPLQ"


@pytest.fixture
def both(bot: McpAgent) -> Callable[..., tuple[dict[str, Any], dict[str, Any]]]:
    """``both("get_memory", id="x")``: the result over MCP and the body of the API."""

    def ask(name: str, **arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        path = f"/api/v1/tools/letsgo/{name}"
        over_http = bot.http.post(path, json.dumps(arguments), content_type="application/json")
        return bot.call(name, **arguments), over_http.json()

    return ask


class TestResults:
    def test_results_equal_the_apis_as_data_and_text(self, both: Any, remember: Any) -> None:
        remember("a bilby digs", project="den")
        for name, arguments in (
            ("list_memories", {}),
            ("search_memories", {"query": "bilby"}),
            ("search_by_concept", {"concept": "none"}),
            ("get_timeline", {"limit": 1}),
            ("query_facts", {}),
        ):
            over_mcp, answered = both(name, **arguments)
            assert over_mcp["isError"] is False
            assert over_mcp["structuredContent"] == answered["result"]
            [text] = over_mcp["content"]
            assert json.loads(text["text"]) == answered["result"]

    def test_unknown_arguments_are_named(self, bot: McpAgent) -> None:
        _, note = bot.call("list_memories", sort="up")["content"]
        assert note["text"] == "These arguments were ignored: sort"

    def test_ignored_argument_has_the_nearest_valid_name(self, bot: McpAgent) -> None:
        _, note = bot.call("list_memories", limits=3, colour="red")["content"]
        assert note["text"] == "These arguments were ignored: colour, limits (did you mean limit?)"

    def test_unknown_tool_names_the_nearest(self, bot: McpAgent) -> None:
        error = bot.ask("tools/call", {"name": "search_memory", "arguments": {}})["error"]
        assert error["message"].startswith("Unknown tool; did you mean search_memories?")

    @pytest.mark.parametrize(
        ("value", "text", "data"),
        [
            ("Memory stored", "Memory stored", {"result": "Memory stored"}),
            ([{"a": "ü"}], '[{"a":"ü"}]', {"result": [{"a": "ü"}]}),
            ({"a": 1}, '{"a":1}', {"a": 1}),
        ],
    )
    def test_sentence_and_list_keep_their_type(
        self, bot: McpAgent, monkeypatch: pytest.MonkeyPatch, value: Any, text: str, data: Any
    ) -> None:
        offer(monkeypatch, lambda caller, given: value)
        found = bot.call("probe")
        assert found["content"] == [{"type": "text", "text": text}]
        assert found["structuredContent"] == data


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("get_memory", {"id": "nothing"}),
            ("get_memory", {}),
            ("search_memories", {"query": "x", "limit": 0, "min_score": 7}),
            ("store_memory", {"content": ""}),
            ("store_memory", {"content": "x", "type": "no such type"}),
            ("store_memory", {"content": f"key {SECRET}"}),
            ("update_memory", {"id": "nothing", "title": "t"}),
            ("delete_fact", {"id": "nothing"}),
        ],
    )
    def test_refusal_has_the_text_of_the_problem(
        self, both: Any, name: str, arguments: dict[str, Any]
    ) -> None:
        over_mcp, problem = both(name, **arguments)
        assert over_mcp["isError"] is True
        [text] = over_mcp["content"]
        assert problem["detail"] in text["text"]
        for error in problem["errors"]:
            assert error["message"] in text["text"]
        assert {**over_mcp["structuredContent"], "request_id": ""} == {**problem, "request_id": ""}

    def test_refusal_repeats_no_sentence(self, bot: McpAgent) -> None:
        [text] = bot.call("store_memory", content=SECRET)["content"]
        assert text["text"].count("line 1 of content") == 1

    def test_refusal_names_the_field_that_its_sentence_does_not(self, bot: McpAgent) -> None:
        [text] = bot.call("store_memory", content="x", superseded_by="nothing")["content"]
        assert text["text"].startswith("there is no memory with this id")
        assert text["text"].endswith("\nfield: superseded_by")

    @pytest.mark.parametrize("arguments", [{"content": SECRET}, {"content": "x", "tags": [SECRET]}])
    def test_refusal_reveals_no_secret(
        self, bot: McpAgent, caplog: pytest.LogCaptureFixture, arguments: dict[str, Any]
    ) -> None:
        found = bot.call("store_memory", **arguments)
        assert found["structuredContent"]["code"] == "secret_detected"
        assert SECRET not in str(found) + caplog.text
        assert not JournalEntry.objects.filter(detail__icontains=SECRET).exists()

    def test_missing_right_is_refused(self, mcp_agent: Callable[..., McpAgent]) -> None:
        reader = mcp_agent(rights=["read"])
        assert reader.call("list_memories")["isError"] is False
        for name, arguments in (("store_memory", {"content": "x"}), ("purge_expired", {})):
            found = reader.call(name, **arguments)
            assert found["isError"] is True
            assert found["structuredContent"]["code"] == "missing_right"
        assert not Memory.objects.exists()
        assert (
            "lacks the right 'read'"
            in mcp_agent(rights=["write"]).call("list_memories")["content"][0]["text"]
        )

    def test_exception_is_hidden_and_logged_with_its_id(
        self, bot: McpAgent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fault(caller: Caller, given: Any) -> None:
            raise ZeroDivisionError("a private word")

        offer(monkeypatch, fault)
        found = bot.call("probe")
        assert found["isError"] is True
        assert "private word" not in str(found)
        assert found["structuredContent"]["request_id"] in caplog.text


class TestGate:
    """Only requested and cleared levels are shown, and never an unknown one."""

    @each("clearance", ["public", "private", "secret"])
    @each("asked", [(), ("private",), ("secret",), ("private", "secret")])
    @each("tool", ["search_memories", "list_memories"])
    def test_levels(
        self,
        mcp_agent: Callable[..., McpAgent],
        four_levels: Any,
        clearance: str,
        asked: tuple[str, ...],
        tool: str,
    ) -> None:
        cleared = ("public", "private", "secret")
        allowed = set(cleared[: cleared.index(clearance) + 1])
        flags: dict[str, Any] = {f"allow_{level}": True for level in asked}
        if tool == "search_memories":
            flags.update(query="zebra", min_score=0)
        found = mcp_agent(clearance).done(tool, **flags)
        seen = {one["sensitivity"] for one in found.get("results", found.get("memories"))}
        assert seen == {"public", *asked} & allowed

    def test_hidden_memory_is_not_found(self, mcp_agent: Callable[..., McpAgent], four_levels: Any) -> None:
        agent = mcp_agent("private")
        nothing = agent.call("get_memory", id="nothing")["content"]
        for level in ("secret", "cosmic"):
            everything = {"allow_private": True, "allow_secret": True}
            found = agent.call("get_memory", id=four_levels[level].uid, **everything)
            assert found["content"] == nothing
            for tool in ("delete_memory", "update_memory"):
                assert agent.call(tool, id=four_levels[level].uid, title="t")["isError"] is True

    def test_projects(self, mcp_agent: Callable[..., McpAgent], remember: Any) -> None:
        for project in ("den", "barn"):
            remember(f"a bilby of the {project}", project=project)
        confined = mcp_agent(projects=["den"])
        assert [one["project"] for one in confined.done("list_memories")["memories"]] == ["den"]
        assert confined.call("store_memory", content="x", project="barn")["isError"] is True

    def test_personal_memories(self, mcp_agent: Callable[..., McpAgent], remember: Any) -> None:
        mine = remember("ada's own bilby", scope="personal")
        assert len(mcp_agent().done("list_memories")["memories"]) == 1
        _, raw = tokens.issue_token("other", "bob", "secret", actor=system_actor("tests"))
        assert McpAgent(raw).done("list_memories")["memories"] == []
        assert McpAgent(raw).call("get_memory", id=mine.uid)["isError"] is True


class TestSession:
    """Tool calls know their session, where the protocol has one."""

    def test_http_session_is_that_of_the_handshake(
        self, bot: McpAgent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        offer(monkeypatch, lambda caller, given: caller.session)
        first, second = bot.begin(), bot.begin()
        names = [self.said(bot, session) for session in (first, first, second)]
        assert names[0] == names[1] != names[2]
        assert all(name.startswith("mcp-") for name in names)
        assert bot.call("probe")["content"][0]["text"] == ""
        stateless = bot.post_stateless("tools/call", {"name": "probe"}, Mcp_Session_Id=first).json()
        assert stateless["result"]["content"][0]["text"] == ""

    def said(self, bot: McpAgent, session: str) -> str:
        answered = bot.ask("tools/call", {"name": "probe"}, Mcp_Session_Id=session)
        return str(answered["result"]["content"][0]["text"])

    def test_stdio_session_lasts_until_the_next_handshake(self, bot: McpAgent) -> None:
        wire = StdioConnection(probing(lambda caller, given: caller.session), self.admit, 10_000)
        call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe"}}'
        hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}'
        names = []
        for line in (call, hello, call, call, hello, call):
            content = wire.answer(line)["result"].get("content")
            names += [content[0]["text"]] if content else []
        assert names[0] == ""
        assert names[1] == names[2] != names[3]

    def admit(self) -> Caller:
        return Caller.of(AgentToken.objects.get())


class Nothing(BaseModel):
    """No arguments."""


def probing(handler: Callable[[Caller, Any], Any]) -> Toolset:
    """Return LetsGo's toolset with one more tool."""
    tool = Tool("probe", "For this test.", Nothing, handler, Right.READ)
    return replace(TOOLSETS["letsgo"], tools=(*TOOLSETS["letsgo"].tools, tool))


def offer(monkeypatch: pytest.MonkeyPatch, handler: Callable[[Caller, Any], Any]) -> None:
    """Serve that toolset over HTTP."""
    monkeypatch.setattr(http, "TOOLSETS", {"letsgo": probing(handler)})
