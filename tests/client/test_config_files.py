"""Edits of configuration files change nothing but the entries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.client.calls import UnusableConfig
from memoryhub.client.config_files import (
    Entry,
    add_json,
    add_toml,
    parse_json,
    remove_json,
    remove_toml,
    to_entries,
)

SERVER = Entry(("mcpServers", "memoryhub"), {"url": "http://hub/mcp"})
HOOK = Entry(("hooks", "Stop"), {"hooks": [{"type": "command"}]}, is_item=True)
INPUT = Entry(("inputs",), {"id": "memoryhub-token"}, is_item=True)
TOML = '[mcp_servers.memoryhub]\nurl = "http://hub/mcp"'

COMMENTED = """\
// of the team
{
    "theme": "dark", // as before
    "mcpServers": {
        /* the other one */
        "other": {"command": "x"} // the last
    },
}
"""


def test_comments_and_formatting_stay() -> None:
    after, _ = add_json(COMMENTED, [SERVER])
    expected = COMMENTED.replace(
        '"other": {"command": "x"} // the last\n',
        '"other": {"command": "x"}, // the last\n'
        '        "memoryhub": {\n            "url": "http://hub/mcp"\n        }\n',
    )
    assert after == expected


@pytest.mark.parametrize(
    "text",
    [
        COMMENTED,
        "{\n}\n",
        '{"a": 1, "b": [1, 2]}',
        '{\n\t"a": 1\n}',
        '{\r\n  "a": 1\r\n}\r\n',
        '\ufeff{\n  "mcpServers": {\n  }\n}\n',
        '{\n  "mcpServers": {\n    // none yet\n  },\n  "hooks": {"Stop": []}\n}\n',
        '{\n  "hooks": {\n    "Stop": [\n      {"hooks": []}\n    ]\n  }\n}\n',
        '{\n  "inputs": [{"id": "x"}],\n  "a": "{//no comment"\n}',
    ],
)
def test_removal_restores_the_content(text: str) -> None:
    after, added = add_json(text, [SERVER, HOOK, INPUT])
    before, kept = remove_json(after, added)
    assert parse_json(before) == parse_json(text)
    assert (kept, before.count("//"), before.count("\r")) == ([], text.count("//"), text.count("\r"))


@pytest.mark.parametrize("text", [COMMENTED, '{\n\t"a": 1\n}', '{\r\n  "a": 1\r\n}\r\n'])
def test_removal_restores_the_text(text: str) -> None:
    after, added = add_json(text, [SERVER, HOOK])
    assert remove_json(after, added)[0] == text


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_DOCUMENTS = st.dictionaries(st.text(max_size=5) | st.just("theme"), _VALUES, max_size=4)
_SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "mcpServers": st.dictionaries(st.text(max_size=4), _VALUES, max_size=2),
        "hooks": st.fixed_dictionaries({}, optional={"Stop": st.lists(_VALUES, max_size=2)}),
        "inputs": st.lists(_VALUES, max_size=2),
    },
)


@given(_DOCUMENTS, _SECTIONS, st.sampled_from([None, 2, 4, "\t"]))
def test_adding_and_removing_keeps_every_document(
    document: dict[str, Any], sections: dict[str, Any], indent: Any
) -> None:
    text = json.dumps({**document, **sections}, indent=indent)
    after, added = add_json(text, [SERVER, HOOK, INPUT])
    assert parse_json(remove_json(after, added)[0]) == parse_json(text)
    assert add_json(after, [SERVER, HOOK, INPUT]) == (after, [])


@pytest.mark.parametrize("text", ["", "  \n", "\ufeff"])
def test_empty_file_becomes_a_document(text: str) -> None:
    assert json.loads(add_json(text, [SERVER])[0]) == {"mcpServers": {"memoryhub": SERVER.value}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1', "line 1 should have a comma or }"),
        ('{\n"a": 1 "b": 2}', "line 2 should have a comma"),
        ('{"a": 1, "a": 2}', "a key that does not repeat another one"),
        ('{"a": }', "a value"),
        ("{a: 1}", "a key in quotes"),
        ('{"a": 1} x', "the end of the file"),
        ('{"a": "\n"}', "a value"),
        ("[]", "not a JSON object"),
        ("[" * 100_000, "not valid JSON"),
        ('{"mcpServers": 1}', "“mcpServers” is not an object"),
        ('{"mcpServers": {"memoryhub": {"url": "other"}}}', "another entry “mcpServers.memoryhub”"),
    ],
)
def test_file_that_cannot_be_changed_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnusableConfig, match=message):
        add_json(text, [SERVER])


def test_input_of_the_same_id_is_refused() -> None:
    with pytest.raises(UnusableConfig, match="another entry “inputs: memoryhub-token”"):
        add_json('{"inputs": [{"id": "memoryhub-token", "type": "x"}]}', [INPUT])


def test_changed_entry_stays() -> None:
    after, added = add_json("{}", [SERVER])
    changed = after.replace("http://hub", "http://other")
    text, kept = remove_json(changed, added)
    assert (text, [entry.path for entry in kept]) == (changed, [SERVER.path])


def test_section_that_was_there_stays() -> None:
    after, added = add_json('{"mcpServers": {}}', [SERVER])
    assert parse_json(remove_json(after, added)[0]) == {"mcpServers": {}}


def test_snippet_is_split_into_entries() -> None:
    snippet = {
        "inputs": [INPUT.value],
        "hooks": {"Stop": [HOOK.value]},
        "mcpServers": {"memoryhub": SERVER.value},
    }
    assert list(to_entries(snippet)) == [INPUT, HOOK, SERVER]


@pytest.mark.parametrize("text", ["", "# mine\nmodel = 'o'", '[mcp_servers.other]\ncommand = "x"\n'])
def test_toml_table_is_added_at_the_end_and_removed(text: str) -> None:
    after, added = add_toml(text, TOML)
    assert after.startswith(text)
    assert remove_toml(after, added) == text
    assert add_toml(after, TOML) == (after, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = ", "not valid TOML"),
        ("mcp_servers = 1", "is not a table"),
        ("mcp_servers = {other = {command = 'x'}}", "not valid TOML"),
        ('[mcp_servers.memoryhub]\nurl = "http://other"', "another entry “mcp_servers.memoryhub”"),
    ],
)
def test_toml_file_that_cannot_be_changed_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnusableConfig, match=message):
        add_toml(text, TOML)


def test_changed_toml_table_stays() -> None:
    after, added = add_toml("", TOML)
    with pytest.raises(UnusableConfig, match="remove it by hand"):
        remove_toml(after.replace("hub/", "other/"), added)


def test_removed_toml_table_is_no_problem() -> None:
    _, added = add_toml("", TOML)
    assert remove_toml("model = 'o'\n", added) == "model = 'o'\n"


def test_toml_settings_after_the_table_stay() -> None:
    after, added = add_toml("a = 1\n", TOML)
    assert remove_toml(f'{after}\n[tools]\nx = "y"\n', added) == 'a = 1\n\n[tools]\nx = "y"\n'
