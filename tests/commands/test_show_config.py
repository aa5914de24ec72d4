"""``show_config``: every setting, its value, and who said so; no secret."""

from __future__ import annotations

import json

import pytest
from django.conf import settings as django_settings

from memoryhub.config import Config, Operator, load_config, operator_variables, variable_of
from memoryhub.management.commands.show_config import as_json


@pytest.fixture
def loaded(settings, tmp_path):
    """A configuration with one value from a file, one from the environment, and a misspelt variable."""
    path = tmp_path / "memoryhub.toml"
    path.write_text("max_memories = 5\n")
    environ = {"MEMORYHUB_MIN_SCORE": "0.2", "MEMORYHUB_MAX_MEMORY": "7"}
    settings.MEMORYHUB_LOADED = load_config(environ, tmp_path)
    return path


def test_every_value_is_shown_with_its_source(run, loaded):
    out = run("show_config").out
    assert f"max_memories = 5  [{loaded}]" in out
    assert "min_score = 0.2  [MEMORYHUB_MIN_SCORE]" in out
    assert "default_ttl_days = 90  [default]" in out
    assert "except those of Mira, pigo and /extract; 0: never (0 to 36,500)" in out


def test_a_misspelt_variable_is_pointed_out(run, loaded):
    assert "MEMORYHUB_MAX_MEMORY is not a setting" in run("show_config").out


def test_only_changed_settings_are_shown_on_request(run, loaded):
    out = run("show_config", "--changed").out
    assert "max_memories = 5" in out
    assert "default_ttl_days" not in out


def test_the_configuration_is_available_as_json(run, loaded):
    shape = json.loads(run("show_config", "--json").out)
    tunables = {one["name"]: one for one in shape["tunables"]}
    assert set(tunables) == set(Config.model_fields)
    assert tunables["max_memories"] == {
        "name": "max_memories",
        "value": 5,
        "default": 1000,
        "source": str(loaded),
        "doc": "maximum number of live memories of one owner in a project; 0: no limit",
        "range": "0 to 1,000,000,000",
        "variable": "MEMORYHUB_MAX_MEMORIES",
    }
    assert {one["name"] for one in shape["operator"]} == set(map(variable_of, Operator.model_fields.values()))
    assert len(shape["warnings"]) == 1


def test_a_flag_is_written_as_toml_has_it(run, settings):
    settings.DEBUG = True
    assert "MEMORYHUB_DEBUG = true" in run("show_config").out


@pytest.mark.parametrize("shape", [[], ["--json"], ["--changed"]])
def test_no_secret_is_shown(run, settings, monkeypatch, shape):
    settings.SECRET_KEY = "swordfish-" * 6
    settings.DATABASE_URL = "sqlite://user:swordfish@host/store.db"
    monkeypatch.setenv("MEMORYHUB_SECRET_KEY", settings.SECRET_KEY)
    monkeypatch.setenv("DATABASE_URL", settings.DATABASE_URL)
    assert "swordfish" not in run("show_config", *shape).out


def test_a_secret_is_shown_as_its_length_and_source(run, settings, monkeypatch):
    settings.SECRET_KEY = "x" * 60
    monkeypatch.setenv("MEMORYHUB_SECRET_KEY_FILE", "/run/secrets/key")
    assert "MEMORYHUB_SECRET_KEY = set, 60 characters  [MEMORYHUB_SECRET_KEY_FILE]" in run("show_config").out


def test_every_variable_of_the_operator_is_described():
    assert all(spec.description for spec in Operator.model_fields.values())
    assert operator_variables() >= {"LETSGO_HOME", "LETSGO_MEMORY_DB", "LETSGO_MEMORY_LOG", "DATABASE_URL"}
    assert operator_variables() >= {"MEMORYHUB_TOKEN_FILE", "DATABASE_URL_FILE"}


def test_each_operator_setting_shows_what_is_in_force(settings):
    settings.ALLOWED_HOSTS = ["one.example", "two.example"]
    shown = {one["name"]: one["value"] for one in as_json()["operator"]}
    assert shown["MEMORYHUB_ALLOWED_HOSTS"] == "one.example,two.example"
    assert shown["LETSGO_HOME"] == str(django_settings.HOME)
    assert shown["MEMORYHUB_HTTPS"] == "false"


def test_a_range_without_a_maximum_is_described(run):
    assert "age at which the session scale ends, in minutes (0 or more)" in run("show_config").out
