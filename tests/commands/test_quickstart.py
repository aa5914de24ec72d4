"""The first command of a new user, in a copy of the sources and an empty home."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sqlite3
import urllib.request
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from memoryhub.ops import demo
from tests.commands import hub as hubs
from tests.commands.hub import Hub


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return hubs.copy(tmp_path)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hub, str]:
    """A hub whose demo was prepared, and what that printed. Not to be changed."""
    hub = hubs.copy(tmp_path_factory.mktemp("prepared"))
    done = hub.run("quickstart", "--prepare-only")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return hub, done.stdout


@pytest.fixture(scope="module")
def prepared_without_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hub, str]:
    """A hub whose real store was prepared, and what that printed. Not to be changed."""
    hub = hubs.copy(tmp_path_factory.mktemp("prepared-without-demo"))
    done = hub.run("quickstart", "--no-demo", "--prepare-only")
    assert done.returncode == 0, done.stderr
    return hub, done.stdout


def line(output: str, name: str) -> str:
    """What stands behind a name in the output."""
    [found] = re.findall(rf"^  {name} +(.+)$", output, re.MULTILINE)
    return str(found)


def secret(output: str, name: str) -> str:
    shown, _, note = line(output, name).partition("   ")
    assert note == "(shown only now)"
    return shown


def test_the_first_start_prints_password_and_token(prepared):
    _, output = prepared
    assert line(output, "Administrator") == "admin, new"
    assert len(secret(output, "Password")) == 16
    assert secret(output, "Agent token").startswith("mh_")
    assert re.fullmatch(r"\d+ memories, \d+ facts, \d+ sessions", line(output, "Loaded"))


def test_the_demo_is_next_to_manage_py_and_the_home_stays_empty(prepared):
    hub, output = prepared
    assert line(output, "Demo store") == str(hub.folder / ".demo")
    assert {path.name for path in (hub.folder / ".demo").iterdir()} >= {"memory.db", "logs", demo.MARKER}
    assert list(hub.home.iterdir()) == []


def test_a_second_start_keeps_the_data_and_reports_it(prepared):
    hub, first = prepared
    second = hub.run("quickstart", "--prepare-only").stdout
    assert line(second, "Contains") == line(first, "Loaded")
    assert line(second, "Administrator").startswith(
        "admin; new password: LETSGO_HOME=.demo python3 manage.py"
    )
    kept = line(second, "Agent token")
    token = secret(first, "Agent token")
    assert token[:10] in kept
    assert token not in kept
    assert "create_token NAME" in kept
    assert "Password" not in second


def test_the_commands_it_names_work(prepared, tmp_path):
    hub, _ = prepared
    shutil.copytree(hub.folder / ".demo", tmp_path / "demo")
    made = hub.run("create_token", "another", LETSGO_HOME=str(tmp_path / "demo"))
    assert made.stdout.startswith("mh_")


def test_it_ignores_where_the_real_store_is(hub, tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    done = hub.run(
        "quickstart",
        "--prepare-only",
        LETSGO_HOME=str(real),
        LETSGO_MEMORY_DB=str(real / "memory.db"),
        LETSGO_MEMORY_LOG=str(real / "journal.jsonl"),
        DATABASE_URL=f"sqlite:///{real}/memory.db",
        MEMORYHUB_MAX_MEMORIES="3",
    )
    assert done.returncode == 0, done.stderr
    assert list(real.iterdir()) == []
    assert int(line(done.stdout, "Loaded").split()[0]) > 150


def test_a_real_store_in_the_demo_folder_is_not_changed(hub):
    home = {"LETSGO_HOME": ".demo"}
    hub.run("quickstart", "--no-demo", "--prepare-only", **home)
    hub.run("create_token", "mine", **home)
    refused = hub.run("quickstart", "--prepare-only")
    assert refused.returncode == 1
    assert "contains a real store" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_no_demo_prepares_the_real_store(prepared_without_demo):
    hub, output = prepared_without_demo
    assert line(output, "Store") == str(hub.home / ".letsgo")
    assert line(output, "Contains") == "nothing yet; to import a file: python3 manage.py import_memories FILE"
    assert line(output, "Administrator") == "admin, new"
    assert not (hub.folder / ".demo").exists()
    again = hub.run("quickstart", "--no-demo", "--prepare-only").stdout
    assert line(again, "Administrator") == "admin; new password: python3 manage.py changepassword admin"


def test_no_demo_finds_the_store_by_its_environment(hub, tmp_path):
    done = hub.run("quickstart", "--no-demo", "--prepare-only", LETSGO_HOME=str(tmp_path / "mine"))
    assert line(done.stdout, "Store") == str(tmp_path / "mine")
    assert list(hub.home.iterdir()) == []


def test_the_token_of_a_real_store_reads_what_is_public_only(prepared_without_demo):
    hub, _ = prepared_without_demo
    with sqlite3.connect(hub.home / ".letsgo/memory.db") as database:
        [row] = database.execute("SELECT clearance, rights, owner FROM memoryhub_agenttoken")
    database.close()
    assert (row[0], json.loads(row[1]), row[2]) == ("public", ["read", "write"], "admin")


def test_another_user_named_admin_does_not_become_administrator(prepared_without_demo, tmp_path):
    prepared, _ = prepared_without_demo
    hub = replace(prepared, home=tmp_path / "home")
    shutil.copytree(prepared.home, hub.home)
    with sqlite3.connect(hub.home / ".letsgo/memory.db") as database:
        database.execute("UPDATE auth_user SET is_superuser = 0")
    database.close()
    done = hub.run("quickstart", "--no-demo", "--prepare-only")
    assert "createsuperuser" in line(done.stdout, "Administrator")


def test_a_port_that_is_taken_is_named_before_anything_is_made(hub):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = hub.run("quickstart", "--port", str(port))
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr
    assert f"--port {port + 1}" in done.stderr
    assert not (hub.folder / ".demo/memory.db").exists()


def test_an_abbreviated_option_is_refused(hub):
    """manage.py looks for --no-demo before Django reads the options."""
    done = hub.run("quickstart", "--no-d", "--prepare-only")
    assert done.returncode == 2
    assert "unrecognized arguments: --no-d" in done.stderr


def test_it_serves_until_ctrl_c_and_starts_again(hub):
    port = hubs.free_port()
    with hub.serving(port, "quickstart", "--port", str(port)) as process:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=120) as page:
            assert 'type="password"' in page.read().decode(), "a stranger is asked to sign in"
        output, errors = hubs.press_ctrl_c(process)
    assert process.returncode == 0
    assert errors == ""
    assert "WARNING" not in output
    assert line(output, "Open") == f"http://localhost:{port}"
    token, first = secret(output, "Agent token"), output
    with hub.serving(port, "quickstart", "--port", str(port)) as process:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/v1/stats", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert json.load(answer)["total"] > 100
        output, errors = hubs.press_ctrl_c(process)
    assert (line(output, "Contains"), errors) == (line(first, "Loaded"), "")


def test_no_one_can_sign_in_as_the_team_of_the_demo(prepared):
    hub, _ = prepared
    with closing(sqlite3.connect(hub.folder / ".demo/memory.db")) as store:
        people = dict(store.execute("SELECT username, password FROM auth_user WHERE username <> 'admin'"))
        tokens = {name for (name,) in store.execute("SELECT name FROM memoryhub_agenttoken")}
    assert len(people) == len(demo.TEAM)
    assert all(password.startswith("!") for password in people.values())
    assert tokens == {*demo.AGENTS, "quickstart"}
