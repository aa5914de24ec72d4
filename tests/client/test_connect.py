"""``memoryhub connect``: changes of configuration files in an empty home."""

from __future__ import annotations

import difflib
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from memoryhub.client import Client, config_files, connect
from memoryhub.client.calls import AuthenticationFailed
from memoryhub.client.config_files import GUIDELINE
from memoryhub.core import agent_hooks
from memoryhub.core.agent_hooks import AGENTS, hooks_configuration, opencode_plugin
from memoryhub.web import connect_snippets
from memoryhub.web.connect_snippets import HubConnection

Run = Callable[..., int]
Keyring = dict[tuple[str, str], str]
HUB = HubConnection("http://127.0.0.1:8000")
FILES = {
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "gemini": ".gemini/settings.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "claude-code": ".claude.json",
    "copilot": ".copilot/mcp-config.json",
    "opencode": ".config/opencode/opencode.json",
}
TITLES = {"codex": "Codex CLI", "cursor": "Cursor", "vscode": "VS Code", "gemini": "Gemini CLI"}


def snippet(key: str, hub: HubConnection = HUB) -> str:
    return next(one.text for one in connect_snippets.client_snippets(hub) if one.key == key)


def parse(path: Path) -> object:
    text = path.read_text("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def tree(home: Path) -> dict[str, str]:
    found = {str(path.relative_to(home)): path for path in home.rglob("*") if path.is_file()}
    return {name: path.read_text("utf-8") for name, path in found.items()}


@pytest.fixture
def cursor(home: Path) -> Path:
    """The configuration file of Cursor, the only agent of this machine."""
    return write(
        home / FILES["cursor"], '{\n  "mcpServers": {\n    "other": {"url": "http://other"}\n  }\n}\n'
    )


@pytest.mark.parametrize("key", FILES)
def test_each_agent_gets_the_documented_configuration(run: Run, home: Path, key: str) -> None:
    assert run("connect", "--yes", "--agent", key) == 0
    text = snippet(key)
    expected = tomllib.loads(text) if key == "codex" else json.loads(text)
    hooks = hooks_configuration(AGENTS[key], HUB.base) if key == "gemini" else {}
    assert parse(home / FILES[key]) == expected | hooks


@pytest.mark.parametrize("key", ["codex", "cursor"])
def test_agent_with_a_file_of_hooks_gets_them_and_loses_them_with_undo(
    run: Run, home: Path, key: str
) -> None:
    file = (home / FILES[key]).with_name("hooks.json")
    assert run("connect", "--yes", "--agent", key) == 0
    assert parse(file) == hooks_configuration(AGENTS[key], HUB.base)
    assert run("connect", "--yes", "--undo") == 0
    assert not file.exists()


def test_hooks_of_the_user_stay(run: Run, home: Path) -> None:
    own = {"version": 1, "hooks": {"sessionStart": [{"command": "./mine.sh"}]}}
    file = write((home / FILES["cursor"]).with_name("hooks.json"), json.dumps(own))
    assert run("connect", "--yes", "--agent", "cursor") == 0
    assert parse(file)["hooks"]["sessionStart"][0] == {"command": "./mine.sh"}
    assert run("connect", "--yes", "--undo") == 0
    assert parse(file) == own


GUIDELINES = {
    "claude-code": ".claude/CLAUDE.md",
    "codex": ".codex/AGENTS.md",
    "gemini": ".gemini/GEMINI.md",
    "antigravity": ".gemini/GEMINI.md",
    "copilot": ".copilot/copilot-instructions.md",
    "opencode": ".config/opencode/AGENTS.md",
    "windsurf": ".codeium/windsurf/memories/global_rules.md",
}


OTHER_TEXTS = [None, "", "# Mine\n\nBe brief.", "# Mine\r\n\r\nBe brief.\r\n"]


# Only the path of the file depends on the agent.
@pytest.mark.parametrize(
    ("key", "own"), [*((key, "# Mine\n") for key in GUIDELINES), *(("codex", own) for own in OTHER_TEXTS)]
)
def test_guideline_is_added_to_the_instructions_and_removed_with_undo(
    run: Run, home: Path, key: str, own: str | None
) -> None:
    file = home / GUIDELINES[key]
    if own is not None:
        write(file, own)
    assert run("connect", "--yes", "--agent", key) == 0
    text = file.read_bytes().decode()
    assert text.startswith(own or "")
    assert text.endswith(GUIDELINE.replace("\n", "\r\n") if "\r" in text else GUIDELINE)
    assert text.count("\r\n") in (0, text.count("\n"))
    assert run("connect", "--yes", "--undo") == 0
    assert (file.read_bytes().decode() if file.exists() else None) == own


RULES = {
    "cursor": ("shop/.cursor/rules/memoryhub.mdc", {"description": "Shared memory", "alwaysApply": True}),
    "vscode": (
        ".config/Code/User/prompts/memoryhub.instructions.md",
        {"description": "Shared memory", "applyTo": "**"},
    ),
}


@pytest.fixture
def in_repository(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a repository. A folder in it is the working folder."""
    root = home / "shop"
    for folder in (root / ".git", root / "src"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(root / "src")
    return root


@pytest.mark.parametrize("key", RULES)
def test_guideline_is_a_rule_for_every_request_and_removed_with_undo(
    run: Run, home: Path, in_repository: Path, key: str
) -> None:
    name, header = RULES[key]
    assert run("connect", "--yes", "--agent", key) == 0
    _, front, rest = (home / name).read_text("utf-8").split("---\n")
    assert yaml.safe_load(front) == header
    assert rest.strip() == GUIDELINE.strip()
    assert run("connect", "--yes", "--agent", key) == 0
    assert (home / name).read_text("utf-8").count("Shared memory") == 2
    assert run("connect", "--yes", "--undo") == 0
    assert not (home / name).exists()


@pytest.mark.parametrize("key", RULES)
def test_rule_of_the_user_with_the_same_name_stays(
    run: Run, home: Path, in_repository: Path, key: str
) -> None:
    file = write(home / RULES[key][0], "Be brief.\n")
    assert run("connect", "--yes", "--agent", key) == 1
    assert file.read_text("utf-8") == "Be brief.\n"


def test_rule_of_cursor_needs_a_repository(run: Run, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("connect", "--yes", "--agent", "cursor") == 0
    assert "run this command in one to add the guideline" in capsys.readouterr().out
    assert not list(home.rglob("*.mdc"))


def test_codex_gets_the_line_endings_of_its_file(run: Run, home: Path) -> None:
    file = write(home / ".codex" / "config.toml", 'model = "x"\r\n')
    assert run("connect", "--yes", "--agent", "codex") == 0
    text = file.read_bytes().decode()
    assert "mcp_servers.memoryhub" in text
    assert text.count("\r\n") == text.count("\n")
    assert run("connect", "--yes", "--undo") == 0
    assert file.read_bytes() == b'model = "x"\r\n'


@pytest.mark.parametrize(("key", "asked"), [("codex", True), ("gemini", False)])
def test_step_in_which_codex_asks_for_trust_is_printed(
    run: Run, home: Path, capsys: pytest.CaptureFixture[str], key: str, asked: bool
) -> None:
    assert run("connect", "--yes", "--agent", key) == 0
    assert ("enter /hooks" in capsys.readouterr().out) is asked


@pytest.mark.parametrize(("key", "named"), [("claude-code", True), ("codex", True), ("gemini", False)])
def test_backfill_is_named_for_agents_with_transcripts(
    run: Run, home: Path, capsys: pytest.CaptureFixture[str], key: str, named: bool
) -> None:
    assert run("connect", "--yes", "--agent", key) == 0
    assert ("memoryhub backfill --dry-run" in capsys.readouterr().out) is named


def test_instructions_that_the_user_has_added_since_stay(run: Run, home: Path) -> None:
    file = home / GUIDELINES["codex"]
    run("connect", "--yes", "--agent", "codex")
    file.write_text(file.read_text("utf-8") + "\nBe brief.\n", "utf-8")
    assert run("connect", "--yes", "--undo") == 0
    assert file.read_text("utf-8").strip() == "Be brief."


def test_guideline_that_the_user_has_changed_stays(
    run: Run, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / GUIDELINES["codex"]
    run("connect", "--yes", "--agent", "codex")
    changed = file.read_text("utf-8").replace("Never store", "Rarely store")
    file.write_text(changed, "utf-8")
    assert run("connect", "--yes", "--undo") == 1
    assert file.read_text("utf-8") == changed
    assert "remove it by hand" in capsys.readouterr().err


PLUGIN = ".config/opencode/plugins/memoryhub.js"


def test_opencode_gets_a_plugin_for_the_hub_and_loses_it_with_undo(run: Run, home: Path) -> None:
    assert run("connect", "--yes", "--agent", "opencode") == 0
    assert f'const HUB = "{HUB.base}";' in (home / PLUGIN).read_text("utf-8")
    assert run("connect", "--yes", "--undo") == 0
    assert not (home / PLUGIN).exists()


@pytest.mark.parametrize("other", ["// mine\n", opencode_plugin(HUB.base) + "// mine\n"])
def test_plugin_with_other_content_stays(run: Run, home: Path, other: str) -> None:
    file = write(home / PLUGIN, other)
    assert run("connect", "--yes", "--agent", "opencode") == 1
    assert file.read_text("utf-8") == other


def test_plugin_that_the_user_has_changed_stays(
    run: Run, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("connect", "--yes", "--agent", "opencode")
    (home / PLUGIN).write_text("// mine", "utf-8")
    assert run("connect", "--yes", "--undo") == 1
    assert (home / PLUGIN).read_text("utf-8") == "// mine"
    assert "by hand" in capsys.readouterr().err


HOOK_FILES = {"copilot": ".copilot/hooks/memoryhub.json", "antigravity": ".gemini/config/hooks.json"}


@pytest.mark.parametrize("key", HOOK_FILES)
def test_agent_gets_its_own_file_of_hooks_once(run: Run, home: Path, key: str) -> None:
    for _ in range(2):
        assert run("connect", "--yes", "--agent", key) == 0
        assert parse(home / HOOK_FILES[key]) == hooks_configuration(AGENTS[key], HUB.base)


@pytest.mark.parametrize("key", HOOK_FILES)
def test_other_hooks_of_the_agent_do_not_hide_those_of_another_hub(run: Run, home: Path, key: str) -> None:
    other = json.dumps(hooks_configuration(AGENTS[key], "http://other.test"))
    file = write(home / HOOK_FILES[key], other)
    assert run("connect", "--yes", "--agent", key) == 1
    assert file.read_text("utf-8") == other


def test_hooks_of_another_hub_are_not_joined(
    run: Run, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = json.dumps(hooks_configuration(AGENTS["codex"], "http://other.test"))
    file = write((home / FILES["codex"]).with_name("hooks.json"), other)
    assert run("connect", "--yes", "--agent", "codex") == 1
    assert file.read_text("utf-8") == other
    assert "other hooks of a memoryhub" in capsys.readouterr().err


def test_claude_code_gets_the_documented_hooks(run: Run, home: Path) -> None:
    run("connect", "--yes", "--agent", "claude-code")
    assert parse(home / ".claude/settings.json") == agent_hooks.settings_snippet(HUB.base, None)


@pytest.mark.parametrize("key", [*TITLES])
def test_agent_with_a_folder_is_detected(home: Path, key: str) -> None:
    (home / FILES[key]).parent.mkdir(parents=True)
    assert [one.title for one in connect.known_agents() if one.is_installed()] == [TITLES[key]]


def test_agent_with_a_program_is_detected(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / "bin" / "claude", "", 0o700)
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert [one.title for one in connect.known_agents() if one.is_installed()] == ["Claude Code"]


def test_machine_without_agents_is_reported(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("connect", "--yes") == 1
    assert "No agent found" in capsys.readouterr().err


def test_folders_from_variables_are_used(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
    run("connect", "--yes", "--agent", "claude-code", "--agent", "codex")
    assert {"claude/.claude.json", "claude/settings.json", "codex/config.toml"} < set(tree(home))


def test_test_event_arrives_and_is_shown(
    run: Run, cursor: Path, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("connect", "--yes") == 0
    [session] = client.sessions()
    assert (
        f"Test event arrived: session {session.session_id}, project –, agent token:bot"
        in capsys.readouterr().out
    )


def test_shown_diff_is_the_applied_change(run: Run, cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = cursor.read_text("utf-8")
    run("connect", "--yes")
    lines = difflib.unified_diff(
        before.splitlines(), cursor.read_text("utf-8").splitlines(), str(cursor), str(cursor), lineterm=""
    )
    assert "\n".join(lines) in capsys.readouterr().out


def test_dry_run_changes_nothing(
    run: Run, home: Path, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(home)
    assert run("connect", "--dry-run") == 0
    assert '+    "memoryhub": {' in capsys.readouterr().out
    assert (tree(home), (home / ".local").exists()) == (before, False)


def test_declined_change_is_not_applied(
    run: Run, home: Path, cursor: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(home)
    answer(monkeypatch, "n")
    assert run("connect") == 0
    assert (tree(home), list(client.sessions())) == (before, [])


def test_confirmed_change_is_applied(run: Run, cursor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "y")
    assert run("connect") == 0
    assert '"memoryhub"' in cursor.read_text("utf-8")


def test_without_a_terminal_consent_is_required(
    run: Run, home: Path, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(home)
    assert run("connect") == 1
    assert "--yes" in capsys.readouterr().err
    assert tree(home) == before


def test_hub_that_refuses_the_token_changes_nothing(
    run: Run, home: Path, cursor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(server: str, token: str) -> None:
        raise AuthenticationFailed(401, {"code": "unauthenticated"})

    monkeypatch.setattr(connect, "Client", refuse)
    before = tree(home)
    assert run("connect", "--yes") == 1
    assert tree(home) == before


def test_second_run_changes_nothing(run: Run, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for agent in connect.known_agents():
        agent.folder.mkdir(parents=True)
    run("connect", "--yes")
    before = tree(home)
    capsys.readouterr()
    assert run("connect", "--yes") == 0
    assert tree(home) == before
    assert capsys.readouterr().out.count("needs no change") == 22


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_backup_and_changed_file_keep_the_mode(run: Run, cursor: Path, mode: int) -> None:
    cursor.chmod(mode)
    before = cursor.read_text("utf-8")
    run("connect", "--yes")
    backup = cursor.with_name("mcp.json.memoryhub-backup")
    assert backup.read_text("utf-8") == before
    assert {file.stat().st_mode & 0o777 for file in (cursor, backup)} == {mode}


def test_new_file_is_private(run: Run, home: Path) -> None:
    run("connect", "--yes", "--agent", "gemini")
    assert (home / FILES["gemini"]).stat().st_mode & 0o777 == 0o600


def test_linked_file_stays_a_link(run: Run, home: Path) -> None:
    target = write(home / "dotfiles" / "mcp.json", "{}\n")
    link = home / FILES["cursor"]
    link.parent.mkdir()
    link.symlink_to(target)
    run("connect", "--yes")
    assert link.is_symlink()
    assert '"memoryhub"' in target.read_text("utf-8")


def test_file_that_cannot_be_parsed_stays(run: Run, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = write(home / FILES["cursor"], '{"mcpServers": ')
    write(home / FILES["gemini"], "{}")
    assert run("connect", "--yes") == 1
    assert "stays as it is: it is not valid JSON: line 1" in capsys.readouterr().err
    assert broken.read_text("utf-8") == '{"mcpServers": '
    assert '"memoryhub"' in (home / FILES["gemini"]).read_text("utf-8")


def test_file_in_another_encoding_stays(run: Run, cursor: Path) -> None:
    cursor.write_bytes(b'{"name": "\xff"}')
    assert run("connect", "--yes") == 1
    assert cursor.read_bytes() == b'{"name": "\xff"}'


def test_entry_of_the_user_stays(run: Run, cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = write(cursor, '{"mcpServers": {"memoryhub": {"url": "http://mine"}}}').read_text("utf-8")
    assert run("connect", "--yes") == 1
    assert "another entry “mcpServers.memoryhub”" in capsys.readouterr().err
    assert cursor.read_text("utf-8") == own


def test_hooks_of_another_hub_are_not_doubled(run: Run, home: Path) -> None:
    other = json.dumps(agent_hooks.settings_snippet("http://other:8000", None))
    settings = write(home / ".claude/settings.json", other)
    assert run("connect", "--yes") == 1
    assert settings.read_text("utf-8") == other


def test_enabled_plugin_connects_claude_code(
    run: Run, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home / ".claude/settings.json", '{"enabledPlugins": {"memoryhub@memoryhub": true}}')
    before = tree(home)
    assert run("connect", "--yes") == 0
    assert "the plugin memoryhub is enabled" in capsys.readouterr().out
    assert tree(home) == before


@pytest.mark.parametrize("plugin", [True, False])
def test_status_line_is_added_on_request_and_undone(run: Run, home: Path, plugin: bool) -> None:
    settings = {"enabledPlugins": {"memoryhub@memoryhub": plugin}}
    path = write(home / ".claude/settings.json", json.dumps(settings))
    before = tree(home)
    run("connect", "--yes", "--status-line")
    found = json.loads(path.read_text())
    assert found["statusLine"] == agent_hooks.status_line_setting(HUB.base)
    assert ("hooks" in found) is not plugin
    run("connect", "--undo", "--yes")
    assert tree(home) == before


def test_status_line_of_the_user_stays(run: Run, home: Path) -> None:
    own = {"type": "command", "command": "date"}
    path = write(home / ".claude/settings.json", json.dumps({"statusLine": own}))
    assert run("connect", "--yes", "--status-line") == 0
    found = json.loads(path.read_text())
    assert found["statusLine"] == own
    assert "hooks" in found


def test_other_toolset_replaces_the_entry(run: Run, cursor: Path) -> None:
    run("connect", "--yes")
    run("connect", "--yes", "--toolset", "mira")
    assert "/mcp/mira" in cursor.read_text("utf-8")
    assert "/mcp/letsgo" not in cursor.read_text("utf-8")


class TestUndo:
    def test_it_restores_every_file_exactly(self, run: Run, home: Path) -> None:
        write(home / FILES["codex"], "# mine\nmodel = 'o'")
        write(home / FILES["gemini"], '{ "theme": "dark" /* yes */ }')
        write(home / ".claude/settings.json", '{"hooks": {"Stop": []}}')
        for agent in connect.known_agents():
            agent.folder.mkdir(parents=True, exist_ok=True)
        before = tree(home)
        run("connect", "--yes")
        run("connect", "--yes", "--toolset", "pigo")
        assert run("connect", "--undo", "--yes") == 0
        assert tree(home) == before

    def test_it_leaves_what_the_user_has_added_since(self, run: Run, cursor: Path) -> None:
        run("connect", "--yes")
        changed = cursor.read_text("utf-8").replace('"other"', '"renamed"')
        cursor.write_text(changed, "utf-8")
        assert run("connect", "--undo", "--yes") == 0
        assert parse(cursor) == {"mcpServers": {"renamed": {"url": "http://other"}}}

    def test_it_leaves_an_entry_that_the_user_has_changed(
        self, run: Run, cursor: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("connect", "--yes")
        changed = cursor.read_text("utf-8").replace("/mcp/letsgo", "/mcp/pigo")
        cursor.write_text(changed, "utf-8")
        run("connect", "--undo", "--yes")
        assert "“mcpServers.memoryhub” has changed since and stays" in capsys.readouterr().out
        assert cursor.read_text("utf-8") == changed

    def test_lost_backup_does_not_matter(self, run: Run, cursor: Path) -> None:
        before = cursor.read_text("utf-8")
        run("connect", "--yes")
        cursor.with_name("mcp.json.memoryhub-backup").unlink()
        run("connect", "--undo", "--yes")
        assert parse(cursor) == json.loads(before)

    def test_entry_that_the_user_wrote_is_not_removed(self, run: Run, cursor: Path) -> None:
        write(cursor, snippet("cursor"))
        run("connect", "--yes")
        run("connect", "--undo", "--yes")
        assert cursor.read_text("utf-8") == snippet("cursor")

    def test_it_is_shown_and_confirmed(
        self, run: Run, cursor: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("connect", "--yes")
        connected = cursor.read_text("utf-8")
        answer(monkeypatch, "n")
        run("connect", "--undo")
        assert '-    "memoryhub": {' in capsys.readouterr().out
        assert cursor.read_text("utf-8") == connected
        answer(monkeypatch, "y")
        run("connect", "--undo")
        assert "memoryhub" not in cursor.read_text("utf-8")

    def test_one_agent_is_undone_alone(self, run: Run, home: Path, cursor: Path) -> None:
        write(home / FILES["gemini"], "{}")
        run("connect", "--yes")
        run("connect", "--undo", "--yes", "--agent", "gemini")
        assert (home / FILES["gemini"]).read_text("utf-8") == "{}"
        assert "memoryhub" in cursor.read_text("utf-8")

    def test_second_undo_finds_nothing(
        self, run: Run, cursor: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("connect", "--yes")
        run("connect", "--undo", "--yes")
        capsys.readouterr()
        assert run("connect", "--undo", "--yes") == 0
        assert "nothing to undo" in capsys.readouterr().out

    def test_deleted_file_is_forgotten(self, run: Run, cursor: Path) -> None:
        run("connect", "--yes")
        cursor.unlink()
        assert run("connect", "--undo", "--yes") == 0
        assert config_files.Record.load().paths() == []

    def test_unreadable_record_is_reported(
        self, run: Run, home: Path, cursor: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(home / ".local/state/memoryhub/connect.json", "[1]")
        assert run("connect", "--undo", "--yes") == 1
        assert "connect.json cannot be read" in capsys.readouterr().err


def test_file_that_changes_during_the_question_stays(
    run: Run, cursor: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, "y", lambda: cursor.write_text("{}", "utf-8"))
    assert run("connect") == 1
    assert "changed in the meantime" in capsys.readouterr().err
    assert cursor.read_text("utf-8") == "{}"


def test_token_is_asked_for_and_stored_in_the_keyring(
    run: Run,
    cursor: Path,
    keyring: Keyring,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt: "mh_typed")
    answer(monkeypatch, "y")
    assert run("connect") == 0
    printed = capsys.readouterr().out
    assert keyring == {("memoryhub", "http://127.0.0.1:8000"): "mh_typed"}
    assert 'export MEMORYHUB_TOKEN="$(keyring get memoryhub http://127.0.0.1:8000)"' in printed
    assert "mh_typed" not in printed


def test_typed_token_without_a_keyring_is_not_stored(
    run: Run, cursor: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MEMORYHUB_TOKEN")
    monkeypatch.setitem(sys.modules, "keyring", None)
    monkeypatch.setattr("getpass.getpass", lambda prompt: "mh_typed")
    answer(monkeypatch, "y")
    assert run("connect") == 0
    found = capsys.readouterr()
    assert "The token was not stored: the keyring is not available" in found.err
    assert "keyring get" not in found.out


def answer(monkeypatch: pytest.MonkeyPatch, text: str, before: Callable[[], object] = lambda: None) -> None:
    """Answer questions as a person at a terminal."""

    def reply(question: str) -> str:
        before()
        return text

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", reply)
