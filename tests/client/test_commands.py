"""The commands that talk to a hub, except ``connect``."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable

import pytest

from memoryhub.client import Client, commands, environment
from memoryhub.client.calls import ConfigurationError
from memoryhub.models import AgentToken

Run = Callable[..., int]
Printed = Callable[[], str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    return lambda: capsys.readouterr().out


class TestRemember:
    def test_memory_is_stored_with_its_fields(self, run: Run, client: Client, printed: Printed) -> None:
        words = ("--project", "web", "--tag", "a", "--tag", "b", "--type", "decision", "--ttl", "never")
        assert run("remember", "We", "deploy", "on Tuesdays", *words) == 0
        [memory] = client.memories(project="web")
        assert printed() == f"created: {memory.id}\n"
        assert (memory.preview, memory.tags, memory.type) == ("We deploy on Tuesdays", ["a", "b"], "decision")
        assert memory.expires_at is None

    def test_memory_is_pinned(self, run: Run, client: Client) -> None:
        assert run("remember", "We deploy on Tuesdays", "--pin") == 0
        assert run("remember", "Lunch is at noon") == 0
        assert [memory.preview for memory in client.memories(pinned=True)] == ["We deploy on Tuesdays"]

    @pytest.mark.parametrize("text", [[], ["-"]])
    def test_text_comes_from_standard_input(
        self, run: Run, client: Client, text: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
        assert run("remember", *text) == 0
        assert [memory.preview for memory in client.memories()] == ["from a pipe"]

    def test_result_is_printed_as_json(self, run: Run, printed: Printed) -> None:
        run("remember", "text", "--json")
        assert json.loads(printed())["memory"]["content"] == "text"

    def test_refused_field_is_named(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("remember", "text", "--importance", "2") == 1
        assert "importance: " in capsys.readouterr().err

    def test_unknown_type_is_a_usage_error(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            run("remember", "text", "--type", "secret")
        assert ended.value.code == 2
        assert "memoryhub remember: error" in capsys.readouterr().err

    def test_invalid_days_are_explained(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            run("remember", "text", "--ttl", "soon")
        assert "must be a number of days, or never" in capsys.readouterr().err

    def test_error_says_each_thing_once(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        run("remember", "password = hunter2hunter2x")
        error = capsys.readouterr().err
        assert error.count("store again") <= 1


class TestSearch:
    def test_results_are_a_table(self, run: Run, client: Client, printed: Printed) -> None:
        stored = client.remember("We <b>deploy</b> on Tuesdays", project="web").memory
        assert run("search", "deploy", "Tuesdays") == 0
        heads, row = printed().splitlines()
        assert heads.split() == ["score", "type", "project", "updated", "id", "memory"]
        assert stored.id in row
        assert row.endswith("  We <b>deploy</b> on Tuesdays")

    def test_title_precedes_the_text_that_matches(self, run: Run, client: Client, printed: Printed) -> None:
        client.remember("We deploy on Tuesdays", title="Calendar")
        run("search", "deploy")
        assert printed().endswith("  Calendar: We deploy on Tuesdays\n")

    def test_the_end_of_the_list_is_explained(
        self, run: Run, client: Client, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for word in ("one", "two", "three"):
            client.remember(f"deploy {word}")
        run("search", "deploy", "--limit", "2")
        assert "2 of 3 results, best first. Raise --limit to see more." in capsys.readouterr().err
        run("search", "deploy")
        explained = capsys.readouterr().err
        assert "3 of 3 results, best first. Scores below 0.35 are left out" in explained
        run("search", "deploy", "--min-score", "0.99")
        printed = capsys.readouterr()
        assert printed.out == "No memory matches.\n"
        assert printed.err == "Scores below 0.99 are left out; a lower --min-score may find more.\n"

    def test_filters_and_limit_apply(self, run: Run, client: Client, printed: Printed) -> None:
        client.remember("deploy one", project="web", tags=["ops"])
        client.remember("deploy two", project="api", tags=["ops"])
        run("search", "deploy", "--project", "web", "--tag", "ops", "--limit", "1")
        assert "deploy one" in (found := printed())
        assert "deploy two" not in found

    def test_private_memory_needs_the_option(self, run: Run, client: Client, printed: Printed) -> None:
        client.remember("deploy in private", sensitivity="private")
        run("search", "deploy")
        assert printed() == "No memory matches.\n"
        run("search", "deploy", "--private")
        assert "deploy in private" in printed()

    def test_result_is_printed_as_json(self, run: Run, client: Client, printed: Printed) -> None:
        client.remember("deploy")
        run("search", "deploy", "--json")
        assert json.loads(printed())["results"][0]["memory"]["content"] == "deploy"

    def test_corrected_query_is_shown(self, run: Run, client: Client, printed: Printed) -> None:
        client.remember("The deployment runs on Tuesdays", title="deployment")
        run("search", "deploymnet")
        assert "These match “deployment”" in printed()


class TestRecall:
    def test_best_memories_are_shown_whole(self, run: Run, client: Client, printed: Printed) -> None:
        client.remember("We deploy on Tuesdays.\n\nThe vendor is in the office then.")
        assert run("recall", "deploy") == 0
        title, content = printed().splitlines()[:2]
        assert title.startswith("We deploy on Tuesdays.  [change, ")
        assert content == "The vendor is in the office then."

    def test_memory_of_one_line_is_shown_once(self, run: Run, client: Client, printed: Printed) -> None:
        client.remember("We deploy on Tuesdays")
        run("recall", "deploy")
        assert [line.partition("  [")[0] for line in printed().splitlines()] == ["We deploy on Tuesdays", ""]

    def test_other_matches_are_listed(self, run: Run, client: Client, printed: Printed) -> None:
        client.remember_many([{"content": f"deploy {n} " + "words " * 300} for n in range(3)])
        run("recall", "deploy", "--max-tokens", "1000")
        assert "also matching" in printed()

    def test_no_match_is_reported(self, run: Run, printed: Printed) -> None:
        run("recall", "anything")
        assert printed() == "No memory matches.\n"

    def test_result_is_printed_as_json(self, run: Run, client: Client, printed: Printed) -> None:
        client.remember("deploy")
        run("recall", "deploy", "--json")
        assert json.loads(printed())["total_count"] == 1


class TestSessions:
    def test_sessions_are_a_table(self, run: Run, client: Client, printed: Printed) -> None:
        client.report_event("prompt:submit", "s1", {"prompt": "when?"}, project="web")
        assert run("sessions") == 0
        heads, row = printed().splitlines()
        assert heads.split()[:3] == ["session", "project", "agent"]
        assert row.split()[:3] == ["s1", "web", "bot"]

    def test_session_shows_what_happened(self, run: Run, client: Client, printed: Printed) -> None:
        client.report_event("prompt:submit", "s1", {"prompt": "when do we deploy?"})
        client.remember("We deploy on Tuesdays", session_id="s1")
        run("sessions", "s1")
        found = printed()
        assert "prompt:submit when do we deploy?" in found
        assert "change: We deploy on Tuesdays" in found

    def test_empty_hub_offers_the_next_step(self, run: Run, printed: Printed) -> None:
        run("sessions")
        assert "memoryhub connect" in printed()

    @pytest.mark.parametrize("words", [[], ["s1"]])
    def test_result_is_printed_as_json(
        self, run: Run, client: Client, printed: Printed, words: list[str]
    ) -> None:
        client.report_event("session:start", "s1")
        run("sessions", *words, "--json")
        assert "s1" in json.dumps(json.loads(printed()))

    def test_unknown_session_is_an_error(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("sessions", "nothing") == 1
        assert "404 not_found" in capsys.readouterr().err


class TestArguments:
    @pytest.mark.parametrize("words", [["remember", "a\udcff"], ["search", "a\udcff"], ["remember", " "]])
    def test_text_that_the_hub_refuses_is_an_error(
        self, run: Run, capsys: pytest.CaptureFixture[str], words: list[str]
    ) -> None:
        assert run(*words) == 1
        assert re.match("memoryhub: (422 invalid|400 not_json): ", capsys.readouterr().err)

    @pytest.mark.parametrize("words", [["--project", "\udcff"], ["\udcff"]])
    def test_argument_of_broken_bytes_matches_nothing(
        self, run: Run, words: list[str], printed: Printed
    ) -> None:
        run("sessions", *words)
        assert printed() in ("", "No sessions yet. memoryhub connect sets up the agents of this machine.\n")

    @pytest.mark.parametrize(
        "words",
        [
            ["sessions", "--limit", "-1"],
            ["search", "x", "--limit", "0"],
            ["recall", "x", "--max-tokens", "many"],
        ],
    )
    def test_number_out_of_range_is_a_usage_error(self, run: Run, words: list[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            run(*words)
        assert ended.value.code == 2


class TestTerminal:
    HOSTILE = "\x1b[2Jclear\x07 \u202etxt.exe \x9b31m"

    @pytest.mark.parametrize(
        "command", [["search", "clear"], ["recall", "clear"], ["search", "clear", "--json"]]
    )
    def test_stored_text_cannot_control_the_terminal(
        self, run: Run, client: Client, printed: Printed, command: list[str]
    ) -> None:
        client.remember(self.HOSTILE, project="\x1b]0;x\x07web")
        run(*command)
        found = printed()
        assert "clear" in found
        assert not [letter for letter in "\x1b\x07\u202e\x9b" if letter in found]

    def test_wide_letters_keep_the_columns(self, printed: Printed) -> None:
        environment.print_table(("a", "b"), [("記憶", "x"), ("m", "y")])
        assert printed() == "a     b\n記憶  x\nm     y\n"

    def test_last_column_ends_at_the_edge(self, printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", "40")
        environment.print_table(("a", "b"), [("1", "words " * 30)])
        assert [len(line) <= 40 for line in printed().splitlines()] == [True, True]

    def test_empty_column_is_left_out(self, printed: Printed) -> None:
        environment.print_table(("a", "b", "c"), [("1", "", "3")])
        assert printed() == "a  c\n1  3\n"


class TestConnection:
    def test_hub_that_is_down_is_named(self, home: object, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.run(["memoryhub", "search", "x", "--server", "http://127.0.0.1:9"]) == 1
        error = capsys.readouterr().err
        assert "cannot reach http://127.0.0.1:9" in error
        assert "--server or MEMORYHUB_URL" in error

    def test_unencrypted_address_of_a_network_is_a_warning(
        self, run: Run, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("sessions", "--server", "http://hub.example.org")
        assert "receives the token unencrypted" in capsys.readouterr().err

    def test_token_in_the_environment_wins(
        self, keyring: dict[tuple[str, str], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keyring["memoryhub", "http://hub"] = "mh_keyring"
        assert environment.find_token("http://hub") == "mh_keyring"
        monkeypatch.setenv("MEMORYHUB_TOKEN", "mh_env")
        assert environment.find_token("http://hub") == "mh_env"

    def test_token_comes_from_a_file(
        self, home: object, monkeypatch: pytest.MonkeyPatch, tmp_path: object
    ) -> None:
        path = f"{tmp_path}/token"
        with open(path, "w") as file:
            file.write("mh_file\n")
        monkeypatch.delenv("MEMORYHUB_TOKEN")
        monkeypatch.setenv("MEMORYHUB_TOKEN_FILE", path)
        assert environment.find_token("http://hub") == "mh_file"

    def test_stored_token_is_found(self, keyring: dict[tuple[str, str], str]) -> None:
        assert environment.store_token("http://hub", "mh_new") == ""
        assert environment.find_token("http://hub") == "mh_new"

    def test_token_of_another_hub_is_not_used(self, keyring: dict[tuple[str, str], str]) -> None:
        environment.store_token("http://hub", "mh_new")
        with pytest.raises(ConfigurationError, match="No token for http://other"):
            environment.find_token("http://other")

    def test_missing_keyring_is_named(self, home: object, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MEMORYHUB_TOKEN")
        monkeypatch.setitem(sys.modules, "keyring", None)
        with pytest.raises(ConfigurationError, match=r"pip install keyring"):
            environment.find_token("http://hub")

    def test_unusable_keyring_is_reported(
        self, keyring: dict[tuple[str, str], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*arguments: str) -> None:
            raise KeyError("no backend")

        monkeypatch.setattr(sys.modules["keyring"], "get_password", fail)
        monkeypatch.setattr(sys.modules["keyring"], "set_password", fail)
        with pytest.raises(ConfigurationError, match="cannot be used: 'no backend'"):
            environment.find_token("http://hub")
        assert "no backend" in environment.store_token("http://hub", "mh_new")


class TestMode:
    def test_mode_is_set_and_shown(self, run: Run, printed: Printed) -> None:
        AgentToken.objects.update(rights=["read", "write", "maintain"])
        assert run("mode", "shop", "approve") == 0
        assert run("mode", "shop") == 0
        assert printed() == "shop: approve\n" * 2

    def test_mode_requires_the_right_to_maintain(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("mode", "shop", "off") == 1
        assert "lacks the right 'maintain'" in capsys.readouterr().err

    def test_unknown_mode_is_a_usage_error(self, run: Run) -> None:
        with pytest.raises(SystemExit):
            run("mode", "shop", "loud")

    def test_pause_ends_with_resume(self, run: Run, client: Client, printed: Printed) -> None:
        run("pause", "shop", "--hours", "2")
        assert "shop: automatic, paused until " in printed()
        assert client.project("shop").paused_until
        run("resume", "shop")
        assert printed() == "shop: automatic\n"
        assert client.project("shop").paused_until is None

    def test_project_is_renamed_merged_split_and_restored(
        self, run: Run, client: Client, printed: Printed
    ) -> None:
        AgentToken.objects.update(rights=["read", "write", "maintain"], clearance="secret")
        for name in ("shop", "other"):
            client.remember(f"about {name}", project=name, tags=[name])
        for command in (["shop", "--rename", "store"], ["other", "--merge", "store"]):
            assert run("project", *command) == 0
            assert printed().startswith("store: done; undo: memoryhub project store --undo ")
        assert run("project", "store") == 0
        assert "name:other" in printed()
        assert run("project", "store", "--split", "part", "--tag", "other") == 0
        undo = printed().split()[-1]
        assert [memory.preview for memory in client.memories(project="part")] == ["about other"]
        assert run("project", "part", "--undo", undo) == 0
        assert list(client.memories(project="part")) == []
        assert run("project", "store", "--merge", "none") == 1

    def test_project_without_a_repository_is_described(
        self, run: Run, client: Client, printed: Printed
    ) -> None:
        client.remember("about shop", project="shop")
        assert run("project", "shop") == 0
        assert printed() == "shop: no repository or folder is known\n"

    def test_invalid_pause_is_explained(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("pause", "shop", "--hours", "9999") == 1
        assert "pause_hours: " in capsys.readouterr().err
