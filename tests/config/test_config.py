"""The configuration: sources of values, and messages about invalid ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memoryhub import config as conf
from memoryhub.config import Config, ConfigError, load_config


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def problems_of(environ: dict[str, str], home: Path | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(environ, home)
    return caught.value.problems


# Where a value comes from


def test_values_are_defaults_without_configuration(tmp_path):
    loaded = load_config({}, tmp_path)
    assert loaded.config == Config()
    assert set(loaded.sources.values()) == {"default"}
    assert set(loaded.sources) == set(Config.model_fields)
    assert loaded.warnings == ()


@pytest.mark.conformance(
    "guide-43",
    "guide-81",
    "guide-101",
    "guide-103",
    "guide-104",
    "guide-109",
    "guide-110",
    "guide-111",
    "guide-112",
    "guide-114",
    "guide-115",
    "store-30",
)
def test_the_documented_defaults_apply():
    config = Config()
    assert (config.max_memories, config.default_ttl_days, config.token_budget) == (1000, 90, 2000)
    assert (config.memorability_threshold, config.compression_min_age_days) == (0.30, 7)
    assert (config.max_inject_count, config.consolidation_decay_rate) == (5, 0.02)
    assert (config.match_weight, config.recency_weight) == (0.55, 0.20)
    assert (config.importance_weight, config.trust_weight, config.min_score) == (0.15, 0.10, 0.35)


def test_every_default_is_valid():
    Config.model_validate({name: spec.default for name, spec in Config.model_fields.items()})


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("MEMORYHUB_MAINTENANCE_AT", "25:00", "maintenance_at must be HH:MM or empty, not '25:00'"),
        ("MEMORYHUB_SESSION_END_COMPRESSION", "never", "must be auto or manual, not 'never'"),
        ("MEMORYHUB_MAINTENANCE_OPERATIONS", "evict;rm", "must be names separated by commas"),
    ],
)
def test_invalid_text_names_the_expected_form(variable, value, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        load_config({variable: value})


def test_empty_time_switches_daily_maintenance_off():
    assert load_config({"MEMORYHUB_MAINTENANCE_AT": ""}).config.maintenance_at == ""


@pytest.mark.conformance("guide-108")
def test_every_key_of_the_documented_table_is_read(tmp_path):
    path = write(
        tmp_path / "memoryhub.toml",
        "[tool.letsgo.memory]\nmax_memories = 10\ndefault_ttl_days = 9\nmemorability_threshold = 0.4\n"
        "compression_min_age_days = 8\nconsolidation_decay_rate = 0.05\n"
        "token_budget = 500\nmax_inject_count = 2\n",
    )
    loaded = load_config({}, tmp_path)
    config = loaded.config
    assert (config.max_memories, config.default_ttl_days, config.memorability_threshold) == (10, 9, 0.4)
    assert (config.compression_min_age_days, config.consolidation_decay_rate) == (8, 0.05)
    assert (config.token_budget, config.max_inject_count) == (500, 2)
    assert loaded.sources["token_budget"] == str(path)
    assert loaded.sources["min_score"] == "default"


def test_home_file_may_have_top_level_keys(tmp_path):
    write(tmp_path / "memoryhub.toml", "max_memories = 7\n")
    assert load_config({}, tmp_path).config.max_memories == 7


def test_top_level_keys_and_nested_table_are_combined(tmp_path):
    write(tmp_path / "memoryhub.toml", "max_memories = 7\n[tool.letsgo.memory]\ntoken_budget = 8\n")
    config = load_config({}, tmp_path).config
    assert (config.max_memories, config.token_budget) == (7, 8)


def test_pyproject_may_contain_other_tools(tmp_path):
    path = write(
        tmp_path / "pyproject.toml",
        '[project]\nname = "other"\n[tool.ruff]\nline-length = 3\n[tool.letsgo.memory]\nmax_memories = 6\n',
    )
    loaded = load_config({"MEMORYHUB_CONFIG": str(path)})
    assert loaded.config.max_memories == 6
    assert loaded.sources["max_memories"] == str(path)


def test_pyproject_without_our_table_changes_nothing(tmp_path):
    path = write(tmp_path / "pyproject.toml", '[project]\nname = "other"\n')
    assert load_config({"MEMORYHUB_CONFIG": str(path)}).config == Config()


def test_named_file_overrides_the_home_file(tmp_path):
    write(tmp_path / "memoryhub.toml", "max_memories = 1\ntoken_budget = 1\n")
    named = write(tmp_path / "other.toml", "max_memories = 2\n")
    config = load_config({"MEMORYHUB_CONFIG": str(named)}, tmp_path).config
    assert (config.max_memories, config.token_budget) == (2, 1)


def test_environment_overrides_files(tmp_path):
    write(tmp_path / "memoryhub.toml", "max_memories = 1\n")
    loaded = load_config({"MEMORYHUB_MAX_MEMORIES": "3"}, tmp_path)
    assert loaded.config.max_memories == 3
    assert loaded.sources["max_memories"] == "MEMORYHUB_MAX_MEMORIES"


def test_every_key_can_be_set_by_its_variable():
    variables = {name: f"MEMORYHUB_{name.upper()}" for name in Config.model_fields}
    loaded = load_config({variables[name]: str(spec.default) for name, spec in Config.model_fields.items()})
    assert loaded.config == Config()
    assert loaded.sources == variables


def test_configuration_is_immutable():
    with pytest.raises(ValidationError, match="frozen"):
        Config().max_memories = 3  # type: ignore[misc]


# What cannot be used


@pytest.mark.parametrize("text", ["lots", "", "1.5", "1e3", "0x10", "true"])
def test_non_integer_count_names_its_variable(text):
    [problem] = problems_of({"MEMORYHUB_MAX_MEMORIES": text})
    assert problem == f"MEMORYHUB_MAX_MEMORIES: max_memories must be a whole number, not {text!r}"


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "much", ""])
def test_non_finite_share_is_refused(text):
    [problem] = problems_of({"MEMORYHUB_MIN_SCORE": text})
    assert problem == f"MEMORYHUB_MIN_SCORE: min_score must be a number, not {text!r}"


@pytest.mark.parametrize("text", ["-0.1", "1.1", "1e9"])
def test_value_out_of_range_names_the_range(text):
    [problem] = problems_of({"MEMORYHUB_MIN_SCORE": text})
    assert problem == f"MEMORYHUB_MIN_SCORE: min_score must be between 0 and 1, not {text!r}"


def test_open_range_names_only_the_lower_end():
    [problem] = problems_of({"MEMORYHUB_SESSION_MINUTES": "-1"})
    assert "must be at least 0" in problem


@pytest.mark.parametrize("toml", ["true", "1.0", "[1]"])
def test_wrong_type_in_a_file_names_the_file(tmp_path, toml):
    path = write(tmp_path / "memoryhub.toml", f"max_memories = {toml}\n")
    [problem] = problems_of({}, tmp_path)
    assert problem.startswith(f"{path}: max_memories must be a whole number")


def test_integer_is_accepted_for_a_float(tmp_path):
    write(tmp_path / "memoryhub.toml", "recency_half_life_days = 14\n")
    assert load_config({}, tmp_path).config.recency_half_life_days == 14.0


def test_unknown_key_suggests_the_nearest_one(tmp_path):
    path = write(tmp_path / "memoryhub.toml", "max_memory = 5\n")
    assert problems_of({}, tmp_path) == [f"{path}: unknown key 'max_memory'; did you mean max_memories?"]


def test_very_different_key_gets_no_suggestion(tmp_path):
    path = write(tmp_path / "memoryhub.toml", "qqqq = 5\n")
    assert problems_of({}, tmp_path) == [f"{path}: unknown key 'qqqq'"]


def test_every_problem_is_named_at_once(tmp_path):
    write(tmp_path / "memoryhub.toml", "nonsense = 1\nmin_score = 7\n")
    environ = {"MEMORYHUB_MAX_MEMORIES": "x", "MEMORYHUB_CONFIG": str(tmp_path / "gone.toml")}
    found = problems_of(environ, tmp_path)
    assert len(found) == 4
    assert str(ConfigError(found)) == "\n".join(found)


def test_missing_named_file_is_a_problem(tmp_path):
    [problem] = problems_of({"MEMORYHUB_CONFIG": str(tmp_path / "gone.toml")})
    assert problem.startswith("MEMORYHUB_CONFIG: no file at ")


def test_invalid_file_name_is_a_problem():
    [problem] = problems_of({"MEMORYHUB_CONFIG": "x" * 5000})
    assert problem.startswith("MEMORYHUB_CONFIG: no file at ")


@pytest.mark.parametrize("raw", [b"max_memories = ", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_broken_file_is_one_problem(tmp_path, raw):
    path = tmp_path / "memoryhub.toml"
    path.write_bytes(raw)
    [problem] = problems_of({}, tmp_path)
    assert problem.startswith(f"{path}: not readable as TOML: ")
    assert "\n" not in problem


@pytest.mark.parametrize(
    "text",
    [
        "tool = 5\n",
        '[tool]\nletsgo = "x"\n',
        "[tool.letsgo]\nmemory = [1]\n",
        "[[tool.letsgo.memory]]\na = 1\n",
    ],
)
def test_our_table_must_be_a_table(tmp_path, text):
    path = write(tmp_path / "memoryhub.toml", text)
    [problem] = problems_of({}, tmp_path)
    assert problem.startswith(f"{path}: ")
    assert problem.endswith("must be a table")


# What must fit together


@pytest.mark.parametrize("whole", conf.WEIGHT_GROUPS, ids=lambda names: names[0])
def test_weights_must_add_up_to_one(whole):
    [problem] = problems_of({f"MEMORYHUB_{whole[0].upper()}": "0.99"})
    assert problem.startswith(", ".join(whole) + " must add up to 1, not ")


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_weights_in_hundredths_are_accepted(first, second, third):
    first, second, third = sorted((first, second, third))
    parts = [first, second - first, third - second, 100 - third]
    environ = {
        f"MEMORYHUB_{name.upper()}": str(part / 100)
        for name, part in zip(conf.WEIGHT_GROUPS[0], parts, strict=True)
    }
    assert load_config(environ).config.match_weight == parts[0] / 100


def test_age_limits_must_be_ascending():
    [problem] = problems_of({"MEMORYHUB_TASK_MINUTES": "1"})
    assert problem == "immediate_minutes, task_minutes, session_minutes must not descend, but are 5, 1, 120"


# What deserves a warning


def test_misspelt_variable_warns_with_the_nearest_one():
    [warning] = load_config({"MEMORYHUB_MAX_MEMORY": "5"}).warnings
    assert warning.startswith("environment: MEMORYHUB_MAX_MEMORY is not a setting of memoryhub")
    assert warning.endswith("did you mean MEMORYHUB_MAX_MEMORIES?")


def test_file_variable_of_a_tunable_causes_a_warning():
    [warning] = load_config({"MEMORYHUB_MAX_MEMORIES_FILE": "/some/file"}).warnings
    assert "MEMORYHUB_MAX_MEMORIES_FILE is not a setting" in warning


def test_operator_and_foreign_variables_cause_no_warning():
    environ = dict.fromkeys(conf.OPERATOR_VARIABLES - {"MEMORYHUB_CONFIG"}, "1")
    assert load_config({**environ, "PATH": "/bin", "LETSGO_HOME": "/x", "MEMORYHUBBUB": "1"}).warnings == ()


# Words for yes and no


@pytest.mark.parametrize("word", ["1", "true", "YES", " on "])
def test_words_for_true(word):
    assert conf.parse_flag(word) is True


@pytest.mark.parametrize("word", ["0", "False", "no", "OFF"])
def test_words_for_false(word):
    assert conf.parse_flag(word) is False


@pytest.mark.parametrize("word", ["", "2", "maybe", "tru"])
def test_other_words_are_refused(word):
    with pytest.raises(ValueError, match=f"^{word}$"):
        conf.parse_flag(word)


@given(st.sampled_from(list(Config.model_fields)), st.text(max_size=30))
def test_any_variable_gives_a_value_or_a_problem(name, text):
    variable = f"MEMORYHUB_{name.upper()}"
    try:
        said = [load_config({variable: text}).sources[name]]
    except ConfigError as error:
        said = error.problems
    assert said
    assert all(name in words.lower() for words in said)
