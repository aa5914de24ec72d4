"""The operator's variables: paths, secrets and flags, and the message about an invalid one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from memoryhub import config
from memoryhub.config import ConfigError, Operator

ROOT = Path(__file__).resolve().parents[2]


def load(**environ: str) -> Operator:
    """Read the operator's variables from this environment alone."""
    with patch.dict(os.environ, {"HOME": str(Path.home()), **environ}, clear=True):
        return config.load_operator()


@pytest.mark.conformance("guide-116")
def test_home_is_the_documented_folder_by_default(tmp_path):
    assert load().home == Path.home() / ".letsgo"
    assert load(LETSGO_HOME="").home == Path.home() / ".letsgo"
    assert load(LETSGO_HOME=str(tmp_path)).home == tmp_path


@pytest.mark.conformance("guide-117", "guide-118")
def test_store_and_mirror_are_in_the_home_folder_by_default(tmp_path):
    operator = load(LETSGO_HOME=str(tmp_path))
    assert operator.memory_db == tmp_path / "memory.db"
    assert operator.memory_log == tmp_path / "logs/memory-journal.jsonl"


def test_tilde_is_the_users_home():
    assert load(LETSGO_MEMORY_DB="~/store.db").memory_db == Path.home() / "store.db"


def test_relative_path_becomes_absolute():
    assert load(LETSGO_HOME="store").home == Path.cwd() / "store"


def test_invalid_flag_names_its_variable():
    with pytest.raises(ConfigError, match="MEMORYHUB_DEBUG must be true or false, not 'maybe'"):
        load(MEMORYHUB_DEBUG="maybe")


def test_every_invalid_variable_is_named_at_once():
    with pytest.raises(ConfigError) as caught:
        load(MEMORYHUB_DEBUG="maybe", MEMORYHUB_TIME_ZONE="Mars/Phobos", LETSGO_HOME="~no-such-user/x")
    assert len(caught.value.problems) == 3


def test_empty_flag_is_the_default():
    assert load(MEMORYHUB_HTTPS="").https is False


def test_list_is_split_at_commas_and_trimmed():
    assert load(MEMORYHUB_ALLOWED_HOSTS=" one.example ,, two.example").allowed_hosts == [
        "one.example",
        "two.example",
    ]
    assert load().allowed_hosts == ["localhost", "127.0.0.1", "[::1]"]


def test_secret_variable_is_read_from_its_file(tmp_path):
    (tmp_path / "key").write_text("from the file\n")
    path = str(tmp_path / "key")
    assert load(MEMORYHUB_LLM_KEY_FILE=path).llm_key == "from the file"
    assert load(MEMORYHUB_LLM_KEY_FILE=path, MEMORYHUB_LLM_KEY="given").llm_key == "given"


def test_secret_comes_from_variable_or_file(tmp_path):
    (tmp_path / "key").write_text("from the file\n")
    environ = {"KEY_FILE": str(tmp_path / "key")}
    assert config.read_secret("KEY", environ) == "from the file"
    assert config.read_secret("KEY", {**environ, "KEY": "from the variable"}) == "from the variable"
    assert config.read_secret("KEY", {}) == ""


def test_unreadable_secret_file_names_its_variable(tmp_path):
    with pytest.raises(ConfigError, match=r"^KEY_FILE: cannot read "):
        config.read_secret("KEY", {"KEY_FILE": str(tmp_path / "gone")})


def test_stored_secret_is_created_once_for_its_owner_only(tmp_path):
    path = tmp_path / "home" / "secret-key"
    first = config.load_or_create_secret(path)
    assert len(first) > 50
    assert config.load_or_create_secret(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_time_zone_is_utc_by_default():
    assert load().time_zone == "UTC"
    assert load(MEMORYHUB_TIME_ZONE="Europe/Berlin").time_zone == "Europe/Berlin"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("MEMORYHUB_MAX_MEMORIES", "lots", "max_memories must be a whole number"),
        ("MEMORYHUB_DEBUG", "maybe", "MEMORYHUB_DEBUG must be true or false"),
        ("MEMORYHUB_TIME_ZONE", "Mars/Phobos", "MEMORYHUB_TIME_ZONE: there is no time zone"),
        ("MEMORYHUB_CONFIG", "/no/such/file", "MEMORYHUB_CONFIG: no file at"),
        ("MEMORYHUB_SECRET_KEY_FILE", "/no/such/file", "MEMORYHUB_SECRET_KEY_FILE: cannot read"),
        ("DATABASE_URL", "garbage", "DATABASE_URL: write postgres://"),
        ("DATABASE_URL", "sqlite://:memory:", "DATABASE_URL: write postgres://"),
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


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", ("", 25, "", "", False, False)),
        ("smtp+tls://hub:p%40ss@mail.example.org", ("mail.example.org", 587, "hub", "p@ss", True, False)),
        ("smtp+ssl://mail.example.org", ("mail.example.org", 465, "", "", False, True)),
        ("smtp://relay.lan:2525", ("relay.lan", 2525, "", "", False, False)),
        ("smtp://hub:pass@localhost", ("localhost", 25, "hub", "pass", False, False)),
    ],
)
def test_mail_server_is_read_from_its_url(url, expected):
    assert load(MEMORYHUB_EMAIL_URL=url).mail_server() == expected


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"MEMORYHUB_EMAIL_URL": "https://mail.example.org"}, "must be an address such as smtp"),
        ({"MEMORYHUB_EMAIL_URL": "smtp+tls://"}, "must be an address such as smtp"),
        ({"MEMORYHUB_EMAIL_URL": "smtp+tls://mail:many"}, "the port must be a number"),
        ({"MEMORYHUB_EMAIL_URL": "smtp://hub:swordfish@mail.example.org"}, "password unencrypted"),
        ({"MEMORYHUB_EMAIL_FROM": "the hub"}, "must be an e-mail address"),
    ],
)
def test_invalid_mail_settings_are_named_without_the_password(variables, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load(**variables)
    assert "swordfish" not in str(caught.value)
