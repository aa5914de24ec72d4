"""docs/connect.md: each text equals what the hub shows, and connects to a real hub."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from memoryhub.core import agent_hooks
from memoryhub.toolsets import TOOLSETS
from memoryhub.web import connect_snippets
from memoryhub.web.base.navigation import SECTIONS
from memoryhub.web.connect_snippets import HubConnection, Snippet
from tests.mcp import node
from tests.mcp.clients import over_http, over_stdio
from tests.mcp.conftest import PLAIN, Served

PAGE = (Path(__file__).parents[2] / "docs" / "connect.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
DOCUMENTED = HubConnection("http://127.0.0.1:8000", manage="/opt/memoryhub/manage.py", home="/srv/letsgo")
HOOKS = agent_hooks.to_json(agent_hooks.settings_snippet(DOCUMENTED.base, None))
# How each client writes an environment variable; VS Code asks the user instead.
VARIABLES = {
    "claude-code": r"\$\{(\w+)\}",
    "cursor": r"\$\{env:(\w+)\}",
    "windsurf": r"\$\{env:(\w+)\}",
    "gemini": r"\$(\w+)",
    "copilot": r"\$\{(\w+)\}",
    "opencode": r"\{env:(\w+)\}",
    "vscode": r"\$\{input:(memoryhub-token)\}",
}
BY_ADDRESS = [*VARIABLES, "codex"]
BY_COMMAND = ["claude-desktop", "stdio"]


def documented(key: str, place: HubConnection = DOCUMENTED) -> Snippet:
    [found] = [one for one in everything(place) if one.key == key]
    return found


def everything(place: HubConnection = DOCUMENTED) -> list[Snippet]:
    return [*connect_snippets.client_snippets(place), *connect_snippets.program_snippets(place)]


def here(served: Served, text: str) -> str:
    """Return a documented text with the addresses of the hub under test."""
    for documented_text, ours in (
        (DOCUMENTED.base, served.base),
        (DOCUMENTED.manage, str(served.hub.folder / "manage.py")),
        (DOCUMENTED.home, str(served.hub.home / ".letsgo")),
        (connect_snippets.NO_TOKEN, served.token),
    ):
        text = text.replace(documented_text, ours)
    return text


def shell(served: Served, text: str, *folders: Path, token: str | None = None) -> str:
    """Return what a command prints in a shell with the token."""
    path = os.pathsep.join([*map(str, folders), os.path.dirname(sys.executable), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        env={
            "PATH": path,
            "MEMORYHUB_TOKEN": served.token if token is None else token,
            "HOME": str(served.hub.home),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def tools(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


class TestThePage:
    def test_documented_texts_equal_those_of_the_hub(self) -> None:
        shown = [(one.language, one.text) for one in everything()]
        assert [block for block in shown if block not in BLOCKS] == []
        [token, plugin, hooks] = [block for block in BLOCKS if block not in shown]
        assert "create_token" in token[1]
        assert plugin[1].startswith("claude plugin install memoryhub@memoryhub ")  # run by tests/plugin
        assert hooks == ("json", HOOKS)

    def test_every_documented_text_is_tested(self) -> None:
        tried = {*BY_ADDRESS, *BY_COMMAND, "claude-add", "curl", "python", "mcp-python", "mcp-javascript"}
        assert {one.key for one in everything()} == tried

    def test_toolsets_are_the_served_ones(self) -> None:
        rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", PAGE, re.MULTILINE))
        assert rows == connect_snippets.TOOLSETS
        assert list(connect_snippets.TOOLSETS) == list(TOOLSETS)

    def test_sidebar_readme_and_documentation_use_the_same_names(self) -> None:
        root = Path(__file__).parents[2]
        template = (root / "templates/connect/page.html").read_text("utf-8")
        [title] = re.findall("block title %}(.+?){%", template)
        [way] = [
            f"{section.text} → {page.text}"
            for section in SECTIONS
            for page in section.pages
            if page.url_name == "agents"
        ]
        [button] = re.findall(
            "url 'connect' %}.+%}(.+?)</a>", (root / "templates/agents/page.html").read_text("utf-8")
        )
        assert f"*{way} → {button}*" in (root / "README.md").read_text("utf-8")
        assert f"**{way} → {button}**" in PAGE
        assert f"# {title}\n" in PAGE

    def test_first_line_creates_a_token(self, served: Served) -> None:
        line = BLOCKS[0][1].replace("manage.py", str(served.hub.folder / "manage.py"))
        assert re.fullmatch(r"mh_\S+\n", shell(served, f'{line}; echo "$MEMORYHUB_TOKEN"'))


class TestClients:
    @pytest.mark.parametrize("key", BY_ADDRESS)
    def test_client_configuration_connects(self, served: Served, key: str) -> None:
        url, headers = read(key, here(served, documented(key).text), served.token)
        assert over_http(url, headers, tools) == [tool.name for tool in TOOLSETS["letsgo"].tools]

    @pytest.mark.parametrize("key", BY_ADDRESS)
    def test_configuration_with_a_new_token_connects(self, served: Served, key: str) -> None:
        text = documented(key, HubConnection(served.base, token=served.token)).text
        assert "$" not in text
        assert "input:" not in text
        if key == "codex":
            server = tomllib.loads(text)["mcp_servers"]["memoryhub"]
            url, headers = server["url"], server["http_headers"]
        else:
            url, headers = read(key, text, "")
        assert over_http(url, headers, tools)

    @pytest.mark.slow
    @pytest.mark.parametrize("key", BY_COMMAND)
    def test_command_configuration_connects(self, served: Served, key: str, tmp_path: Path) -> None:
        server = json.loads(here(served, documented(key).text))["mcpServers"]["memoryhub"]
        path = os.path.dirname(sys.executable)
        environment = {**served.hub.environment(**PLAIN), "PATH": path, **server["env"]}
        parameters = StdioServerParameters(
            command=server["command"], args=server["args"], env=environment, cwd=tmp_path
        )
        assert over_stdio(parameters, tools) == [tool.name for tool in TOOLSETS["letsgo"].tools]

    def test_claude_command_connects(self, served: Served, tmp_path: Path) -> None:
        stand_in = tmp_path / "claude"
        stand_in.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
        stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
        words = shell(served, here(served, documented("claude-add").text), tmp_path).splitlines()
        assert words[:5] == ["mcp", "add", "--transport", "http", "memoryhub"]
        url, option, header = words[5:]
        assert option == "--header"
        name, _, value = header.partition(": ")
        assert over_http(url, {name: value}, tools)

    @pytest.mark.parametrize("toolset", sorted(TOOLSETS))
    def test_every_toolset_has_an_address(self, served: Served, toolset: str) -> None:
        place = HubConnection(served.base, toolset=toolset)
        url, headers = read("codex", documented("codex", place).text, served.token)
        assert over_http(url, headers, tools) == [tool.name for tool in TOOLSETS[toolset].tools]


def read(key: str, text: str, token: str) -> tuple[str, dict[str, str]]:
    """Return address and headers as that client builds them from its configuration."""
    if key == "codex":
        server = tomllib.loads(text)["mcp_servers"]["memoryhub"]
        assert server["bearer_token_env_var"] == "MEMORYHUB_TOKEN"
        return server["url"], {"Authorization": f"Bearer {token}"}
    config = json.loads(text)
    [server] = next(config[name] for name in ("mcpServers", "servers", "mcp") if name in config).values()
    values = {"MEMORYHUB_TOKEN": token, **{one["id"]: token for one in config.get("inputs", [])}}
    headers = {
        name: re.sub(VARIABLES[key], lambda found: values[found[1]], value)
        for name, value in server["headers"].items()
    }
    [url] = [server[name] for name in ("url", "serverUrl", "httpUrl") if name in server]
    return url, headers


class TestPrograms:
    def test_curl(self, served: Served) -> None:
        printed = shell(served, here(served, documented("curl").text))
        stored, end = json.JSONDecoder().raw_decode(printed)
        assert stored["outcome"] in ("created", "refreshed")
        found = json.loads(printed[end:])["results"]
        assert any("Tuesdays" in hit["memory"]["content"] for hit in found)

    def test_python(self, served: Served, tmp_path: Path) -> None:
        outcome, *hits = self.run(served, documented("python"), tmp_path)
        assert outcome in ("created", "refreshed")
        assert any("Tuesdays" in hit for hit in hits)

    @pytest.mark.parametrize("key", ["python", "curl"])
    def test_program_with_a_new_token_is_pasted_into_a_shell(self, served: Served, key: str) -> None:
        place = HubConnection(served.base, token=served.token)
        [text, *_] = connect_snippets.choice_snippets(connect_snippets.choices()[key], place)
        assert text.where == "a shell"
        assert "Tuesdays" in shell(served, text.text, token="")

    @pytest.mark.slow
    @pytest.mark.parametrize("toolset", sorted(TOOLSETS))
    def test_python_over_mcp(self, served: Served, tmp_path: Path, toolset: str) -> None:
        self.run(served, documented("python"), tmp_path)
        place = HubConnection(DOCUMENTED.base, toolset=toolset)
        listed, *found = self.run(served, documented("mcp-python", place), tmp_path)
        assert listed == str([tool.name for tool in TOOLSETS[toolset].tools])
        assert "Tuesdays" in "\n".join(found)

    @pytest.mark.parametrize("toolset", sorted(TOOLSETS))
    def test_javascript_over_mcp(self, served: Served, tmp_path: Path, toolset: str) -> None:
        node.require_node("v2")
        self.run(served, documented("python"), tmp_path)
        (tmp_path / "node_modules").symlink_to(node.MODULES)
        script = tmp_path / "hub.mjs"
        place = HubConnection(DOCUMENTED.base, toolset=toolset)
        script.write_text(here(served, documented("mcp-javascript", place).text), "utf-8")
        listed, *found = shell(served, f"node {script}").splitlines()
        assert listed.split() == [tool.name for tool in TOOLSETS[toolset].tools]
        assert "Tuesdays" in "\n".join(found)

    def run(self, served: Served, snippet: Snippet, folder: Path) -> list[str]:
        script = folder / "script.py"
        script.write_text(here(served, snippet.text), "utf-8")
        return shell(served, f"python3 -W error {script}").splitlines()


class TestHooks:
    """Runs each hook of the documented settings as Claude Code does."""

    def test_every_hook_is_accepted_and_creates_the_session(self, served: Served) -> None:
        hooks = json.loads(here(served, HOOKS))["hooks"]
        answers = {event: self.fire(served, event, entry["hooks"][0]) for event, [entry] in hooks.items()}
        assert all(isinstance(answer, dict) for answer in answers.values())
        request = urllib.request.Request(f"{served.base}/api/v1/sessions/documented")
        request.add_header("Authorization", f"Bearer {served.token}")
        with urllib.request.urlopen(request, timeout=120) as answer:
            events = {entry.get("event") for entry in json.load(answer)["timeline"]["items"]}
        assert {"prompt:submit", "tool:post"} <= events

    def fire(self, served: Served, event: str, hook: dict[str, Any]) -> Any:
        words = {
            "hook_event_name": event,
            "session_id": "documented",
            "cwd": "/home/me/zoo",
            "prompt": "when do we deploy?",
            "tool_name": "Bash",
            "tool_input": {"command": "make deploy"},
            "tool_response": {"stdout": "done"},
            "error": "make: *** no rule",
        }
        if hook["type"] == "command":
            command = hook["command"]
            text = f"cat <<'END' | {{ {command}; }}\n{json.dumps(words)}\nEND"
            return json.loads(shell(served, text))
        assert hook["allowedEnvVars"] == ["MEMORYHUB_TOKEN"]
        headers = {
            name: value.replace("$MEMORYHUB_TOKEN", served.token) for name, value in hook["headers"].items()
        }
        request = urllib.request.Request(
            hook["url"], json.dumps(words).encode(), {**headers, "Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)
