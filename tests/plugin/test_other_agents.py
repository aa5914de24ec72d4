"""Other agents with the settings of the connect page and their hooks, against a served hub."""

from __future__ import annotations

import json
import subprocess

from memoryhub.core.agent_hooks import AGENTS, hooks_configuration, opencode_plugin
from memoryhub.toolsets import TOOLSETS
from memoryhub.web.connect_snippets import HubConnection, client_snippets
from tests.mcp.conftest import Served
from tests.plugin import model_api, scripted_api
from tests.plugin.conftest import Machine, require_program
from tests.plugin.model_api import Call
from tests.plugin.test_claude_code import memories, post


def snippet(served: Served, key: str) -> str:
    [found] = [one.text for one in client_snippets(HubConnection(served.base)) if one.key == key]
    return found


def test_gemini_cli_connects(machine: Machine, served: Served) -> None:
    settings = {**json.loads(snippet(served, "gemini")), "security": {"folderTrust": {"enabled": False}}}
    machine.write(".gemini/settings.json", settings)
    listed = machine.run("gemini", "mcp", "list", MEMORYHUB_TOKEN=served.token)
    assert f"memoryhub: {served.url('letsgo')} (http) - Connected" in listed


def test_codex_cli_lists_the_hub_with_its_token(machine: Machine, served: Served) -> None:
    machine.write(".codex/config.toml", snippet(served, "codex"))
    listed = json.loads(machine.run("codex", "mcp", "list", "--json", MEMORYHUB_TOKEN=served.token))
    assert [(one["name"], one["auth_status"]) for one in listed] == [("memoryhub", "bearer_token")]


def test_codex_cli_reads_the_tools(machine: Machine, served: Served) -> None:
    """``codex mcp list`` does not connect; its app server does."""
    machine.write(".codex/config.toml", snippet(served, "codex"))
    with subprocess.Popen(
        [str(require_program("codex")), "app-server"],
        cwd=machine.project,
        env=machine.environment(MEMORYHUB_TOKEN=served.token),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        client = {"clientInfo": {"name": "tests", "version": "1"}}
        requests = [{"id": 1, "method": "initialize", "params": client}, {"method": "initialized"}]
        requests.append({"id": 2, "method": "mcpServerStatus/list", "params": {}})
        for request in requests:
            process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answers = map(json.loads, iter(process.stdout.readline, ""))
        found = next(answer for answer in answers if answer.get("id") == 2)
        process.kill()
    [hub] = [one for one in found["result"]["data"] if one["name"] == "memoryhub"]
    assert set(hub["tools"]) == {tool.name for tool in TOOLSETS["letsgo"].tools}


RULE = "Greetings of the shop are in greetings.py, because translators edit it."
GREET = "where do the greetings of the shop go?"
FIX = "fix: greet each customer once, because the cart is loaded twice"


def test_opencode_reports_its_session_and_receives_memories(machine: Machine, served: Served) -> None:
    before = {memory["title"] for memory in memories(served)}
    for command in ("init -q", "config user.name Ada", "config user.email ada@example.org"):
        subprocess.run(["git", *command.split()], cwd=machine.project, check=True)
    (machine.project / "greetings.py").write_text("HELLO = 'hello'\n")
    post(served, "/memories", {"content": RULE, "type": "decision", "project": "shop", "importance": 1})
    bash = {"command": f"git add . && git commit -q -m '{FIX}'", "description": "Commit"}
    with model_api.serving({GREET: [Call("bash", bash), "In greetings.py."]}) as model:
        provider = {"anthropic": {"options": {"baseURL": f"{model.base_url}/v1", "apiKey": "none"}}}
        machine.write(
            ".config/opencode/opencode.json",
            {**json.loads(snippet(served, "opencode")), "provider": provider, "permission": "allow"},
        )
        machine.write(".config/opencode/plugins/memoryhub.js", opencode_plugin(served.base))
        more = {"MEMORYHUB_TOKEN": served.token, "OPENCODE_DISABLE_MODELS_FETCH": "true"}
        more["MEMORYHUB_HOOK_TIMEOUT"] = "20"  # a busy machine takes its time
        machine.run("opencode", "run", "-m", "anthropic/claude-sonnet-4-5", GREET, **more)
    assert RULE in model.text_for(GREET)
    assert any(tool["name"].startswith("memoryhub_") for tool in model.requests[-1]["tools"])
    learned = "Greet each customer once, because the cart is loaded twice"
    found = {memory["title"] for memory in memories(served)} - before
    assert found - {RULE} == {learned, f"Session: {learned}"}


def test_copilot_cli_reports_its_session_and_receives_memories(machine: Machine, served: Served) -> None:
    place = {"project": machine.project.name}
    post(served, "/memories", {"content": RULE, "type": "decision", "importance": 1, **place})
    before = {memory["title"] for memory in memories(served)}
    for command in ("init -q", "config user.name Ada", "config user.email ada@example.org"):
        subprocess.run(["git", *command.split()], cwd=machine.project, check=True)
    (machine.project / "prices.py").write_text("PRICE = 1\n")
    message = "fix: charge each customer once, because the till is read twice"
    bash = {"command": f"git add . && git commit -q -m '{message}'", "description": "Commit"}
    machine.write(".copilot/hooks/memoryhub.json", hooks_configuration(AGENTS["copilot"], served.base))
    with model_api.serving({GREET: [Call("bash", bash), "In greetings.py."]}) as model:
        more = {"COPILOT_PROVIDER_TYPE": "anthropic", "COPILOT_PROVIDER_BASE_URL": model.base_url}
        more |= {"COPILOT_PROVIDER_API_KEY": "none", "COPILOT_MODEL": "claude-sonnet-4-20250514"}
        more |= {"MEMORYHUB_TOKEN": served.token, "COPILOT_OFFLINE": "true"}
        machine.run("copilot", "--allow-all-tools", "-p", GREET, **more)
    learned = "Charge each customer once, because the till is read twice"
    assert {memory["title"] for memory in memories(served)} - before >= {learned}
    assert RULE in json.dumps(model.requests, ensure_ascii=False)


def test_gemini_cli_reports_its_session_and_receives_memories(machine: Machine, served: Served) -> None:
    before = {memory["title"] for memory in memories(served)}
    post(served, "/memories", {"content": RULE, "type": "decision", "project": "shop", "importance": 1})
    for command in ("init -q", "config user.name Ada", "config user.email ada@example.org"):
        subprocess.run(["git", *command.split()], cwd=machine.project, check=True)
    (machine.project / "stock.py").write_text("STOCK = 1\n")
    message = "fix: count each article once, because the scanner reports it twice"
    shell = {"command": f"git add . && git commit -q -m '{message}'", "description": "Commit"}
    settings = {"folderTrust": {"enabled": False}, "auth": {"selectedType": "gemini-api-key"}}
    hooks = hooks_configuration(AGENTS["gemini"], served.base)
    machine.write(".gemini/settings.json", {"security": settings, **hooks})
    steps = Call("run_shell_command", shell), "In greetings.py."
    with scripted_api.serving(scripted_api.gemini_events, *steps) as model:
        more = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": model.base_url}
        more["MEMORYHUB_TOKEN"] = served.token
        machine.run("gemini", "--yolo", "-m", "gemini-2.5-pro", "-p", GREET, **more)
    assert RULE in json.dumps(model.requests, ensure_ascii=False)
    learned = "Count each article once, because the scanner reports it twice"
    assert learned in {memory["title"] for memory in memories(served)} - before


def test_codex_cli_reports_its_session_and_receives_memories(machine: Machine, served: Served) -> None:
    before = {memory["title"] for memory in memories(served)}
    post(served, "/memories", {"content": RULE, "type": "decision", "project": "shop", "importance": 1})
    for command in ("init -q", "config user.name Ada", "config user.email ada@example.org"):
        subprocess.run(["git", *command.split()], cwd=machine.project, check=True)
    (machine.project / "labels.py").write_text("LABEL = 1\n")
    message = "fix: print each label once, because the printer repeats the last job"
    steps = Call("exec_command", {"cmd": f"git add . && git commit -q -m '{message}'"}), "In greetings.py."
    machine.write(".codex/hooks.json", hooks_configuration(AGENTS["codex"], served.base))
    with scripted_api.serving(scripted_api.responses_events, *steps) as model:
        provider = f'name = "local"\nbase_url = "{model.base_url}"\nwire_api = "responses"\n'
        head = 'model = "gpt-5"\nmodel_provider = "local"\n'
        machine.write(".codex/config.toml", f"{head}[model_providers.local]\n{provider}")
        allowed = ["--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox"]
        machine.run("codex", "exec", *allowed, GREET, MEMORYHUB_TOKEN=served.token)
    assert RULE in json.dumps(model.requests, ensure_ascii=False)
    learned = "Print each label once, because the printer repeats the last job"
    assert learned in {memory["title"] for memory in memories(served)} - before


FOUND = "The key of the workshop is under the red bench."


def test_gemini_cli_stores_and_searches_with_the_tools(machine: Machine, served: Served) -> None:
    post(served, "/memories", {"content": FOUND})
    settings = json.loads(snippet(served, "gemini"))
    security = {"folderTrust": {"enabled": False}, "auth": {"selectedType": "gemini-api-key"}}
    machine.write(".gemini/settings.json", {**settings, "security": security})
    learned = "Parcels leave at noon."
    steps = (
        Call("mcp_memoryhub_store_memory", {"content": learned, "project": "shop"}),
        Call("mcp_memoryhub_search_memories", {"query": "key of the workshop"}),
        "It is under the red bench.",
    )
    with scripted_api.serving(scripted_api.gemini_events, *steps) as model:
        more = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": model.base_url}
        more["MEMORYHUB_TOKEN"] = served.token
        machine.run("gemini", "--yolo", "-m", "gemini-2.5-pro", "-p", GREET, **more)
    assert learned in {memory["title"] for memory in memories(served)}
    assert FOUND in json.dumps(model.requests[-1], ensure_ascii=False)


def test_codex_cli_stores_and_searches_with_the_tools(machine: Machine, served: Served) -> None:
    post(served, "/memories", {"content": FOUND})
    learned = "Letters leave in the evening."
    steps = (
        Call("mcp__memoryhub/store_memory", {"content": learned, "project": "shop"}),
        Call("mcp__memoryhub/search_memories", {"query": "key of the workshop"}),
        "It is under the red bench.",
    )
    with scripted_api.serving(scripted_api.responses_events, *steps) as model:
        provider = f'name = "local"\nbase_url = "{model.base_url}"\nwire_api = "responses"\n'
        head = f'model = "gpt-5"\nmodel_provider = "local"\n{snippet(served, "codex")}\n'
        machine.write(".codex/config.toml", f"{head}[model_providers.local]\n{provider}")
        allowed = "--dangerously-bypass-approvals-and-sandbox"
        machine.run("codex", "exec", allowed, GREET, MEMORYHUB_TOKEN=served.token)
    assert learned in {memory["title"] for memory in memories(served)}
    assert FOUND in json.dumps(model.requests[-1], ensure_ascii=False)
