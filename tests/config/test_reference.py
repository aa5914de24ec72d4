"""The operator's variables: paths, secrets and flags, and the message about an invalid one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memoryhub.config import ConfigError, environment

ROOT = Path(__file__).resolve().parents[2]


def test_home_is_the_documented_folder_by_default(tmp_path):
    assert environment.read_home({}) == Path.home() / ".letsgo"
    assert environment.read_home({"LETSGO_HOME": ""}) == Path.home() / ".letsgo"
    assert environment.read_home({"LETSGO_HOME": str(tmp_path)}) == tmp_path


def test_tilde_is_the_users_home():
    assert environment.read_path("X", "unused", {"X": "~/store.db"}) == Path.home() / "store.db"


def test_invalid_flag_names_its_variable():
    with pytest.raises(ConfigError, match="MEMORYHUB_DEBUG must be true or false, not 'maybe'"):
        environment.read_flag("MEMORYHUB_DEBUG", environ={"MEMORYHUB_DEBUG": "maybe"})


def test_empty_flag_is_the_default():
    assert environment.read_flag("X", default=True, environ={"X": ""}) is True


def test_list_is_split_at_commas_and_trimmed():
    assert environment.read_list("X", "a", {"X": " one.example ,, two.example"}) == [
        "one.example",
        "two.example",
    ]
    assert environment.read_list("X", "a,b", {}) == ["a", "b"]


def test_secret_comes_from_variable_or_file(tmp_path):
    (tmp_path / "key").write_text("from the file\n")
    environ = {"KEY_FILE": str(tmp_path / "key")}
    assert environment.read_secret("KEY", environ) == "from the file"
    assert environment.read_secret("KEY", {**environ, "KEY": "from the variable"}) == "from the variable"
    assert environment.read_secret("KEY", {}) == ""


def test_unreadable_secret_file_names_its_variable(tmp_path):
    with pytest.raises(ConfigError, match=r"^KEY_FILE: cannot read "):
        environment.read_secret("KEY", {"KEY_FILE": str(tmp_path / "gone")})


def test_stored_secret_is_created_once_for_its_owner_only(tmp_path):
    path = tmp_path / "home" / "secret-key"
    first = environment.load_or_create_secret(path)
    assert len(first) > 50
    assert environment.load_or_create_secret(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_time_zone_is_utc_by_default():
    assert environment.read_time_zone("X", {}) == "UTC"
    assert environment.read_time_zone("X", {"X": "Europe/Berlin"}) == "Europe/Berlin"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("MEMORYHUB_MAX_MEMORIES", "lots", "max_memories must be a whole number"),
        ("MEMORYHUB_DEBUG", "maybe", "MEMORYHUB_DEBUG must be true or false"),
        ("MEMORYHUB_TIME_ZONE", "Mars/Phobos", "MEMORYHUB_TIME_ZONE: there is no time zone"),
        ("MEMORYHUB_CONFIG", "/no/such/file", "MEMORYHUB_CONFIG: no file at"),
        ("MEMORYHUB_SECRET_KEY_FILE", "/no/such/file", "MEMORYHUB_SECRET_KEY_FILE: cannot read"),
        ("DATABASE_URL", "garbage", "DATABASE_URL: only sqlite"),
        ("DATABASE_URL", "sqlite://:memory:", "DATABASE_URL: only sqlite"),
        ("LETSGO_HOME", "{file}", "cannot store a secret key in"),
        ("LETSGO_HOME", "~no-such-user/x", "LETSGO_HOME: cannot resolve"),
        ("LETSGO_MEMORY_DB", "{file}/x.db", "LETSGO_MEMORY_DB: cannot make the folder"),
    ],
)
def test_invalid_variable_stops_commands_with_a_message(tmp_path, variable, value, said):
    (tmp_path / "file").write_text("")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MEMORYHUB_", "LETSGO_", "DJANGO_"))}
    environ = {**clean, "LETSGO_HOME": str(tmp_path / "home"), variable: value.format(file=tmp_path / "file")}
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "show_config"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
