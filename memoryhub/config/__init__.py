"""Load the configuration and record the source of each value. Pure, because ``settings.py`` loads it.

The sources by precedence: the environment (``MEMORYHUB_<NAME>``), the TOML file in ``MEMORYHUB_CONFIG``,
``memoryhub.toml`` in ``LETSGO_HOME``, the default in ``tunables.py``. A TOML file has the keys at its top
level or in ``[tool.letsgo.memory]``; in ``pyproject.toml`` only that table counts.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memoryhub.config.environment import ConfigError, operator_variables
from memoryhub.config.tunables import (
    ASCENDING_FIELDS,
    WEIGHT_GROUPS,
    Config,
    expected_form,
    limits,
    parse_flag,
)

ENV_PREFIX = "MEMORYHUB_"

OPERATOR_VARIABLES = frozenset(operator_variables())


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration with the source of each value, and warnings."""

    config: Config
    sources: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def load_config(environ: Mapping[str, str] | None = None, home: Path | None = None) -> LoadedConfig:
    """Load the configuration. Raise :class:`ConfigError` with all problems."""
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    layers = [(str(path), _toml_table(path, problems)) for path in _toml_files(environ, home, problems)]
    variables = {ENV_PREFIX + name.upper(): name for name in Config.model_fields}
    layers += [(name, {key: environ[name]}) for name, key in variables.items() if name in environ]
    values: dict[str, Any] = {}
    sources = dict.fromkeys(Config.model_fields, "default")
    for source, table in layers:
        invalid = _find_invalid(table, source)
        problems += invalid.values()
        valid = {key: raw for key, raw in table.items() if key not in invalid}
        values |= valid
        sources |= dict.fromkeys(valid, source)
    config = Config(**values)
    problems += _check_relations(config)
    if problems:
        raise ConfigError(problems)
    return LoadedConfig(config, sources, tuple(_unknown_variables(environ, variables)))


def _toml_files(environ: Mapping[str, str], home: Path | None, problems: list[str]) -> list[Path]:
    """Return the files to read, the one with the higher precedence last."""
    usual = home / "memoryhub.toml" if home else None
    found = [usual] if usual and os.path.isfile(usual) else []
    if named := environ.get("MEMORYHUB_CONFIG"):
        if os.path.isfile(named):
            found.append(Path(named))
        else:
            problems.append(
                f"MEMORYHUB_CONFIG: no file at {named}; set it to an existing TOML file, or unset it"
            )
    return found


def _toml_table(path: Path, problems: list[str]) -> Mapping[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        problems.append(f"{path}: not readable as TOML: {error}")
        return {}
    nested: Any = data
    for name in ("tool", "letsgo", "memory"):
        nested = nested.get(name, {})
        if not isinstance(nested, dict):
            problems.append(f"{path}: {name!r} of [tool.letsgo.memory] must be a table")
            return {}
    top = {} if path.name == "pyproject.toml" else {k: v for k, v in data.items() if k != "tool"}
    return {**top, **nested}


def _find_invalid(table: Mapping[str, Any], source: str) -> dict[str, str]:
    """Return the problems in the values of one source by key."""
    try:
        Config.model_validate(table)
    except ValidationError as error:
        kinds = {str(one["loc"][0]): one["type"] for one in error.errors(include_url=False)}
        return {key: f"{source}: {_describe(key, kind, table[key])}" for key, kind in kinds.items()}
    return {}


def _describe(key: str, kind: str, raw: object) -> str:
    """Describe an invalid value. ``kind``: pydantic's name for the error."""
    if kind == "extra_forbidden":
        return f"unknown key {key!r}{_did_you_mean(key, Config.model_fields)}"
    spec = Config.model_fields[key]
    if kind in ("greater_than_equal", "less_than_equal"):
        wanted = _describe_range(*limits(spec))
    elif kind == "string_pattern_mismatch":
        wanted = expected_form(spec)
    else:
        wanted = _KINDS[spec.annotation]
    return f"{key} must be {wanted}, not {raw!r}"


_KINDS: dict[object, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _describe_range(low: float, high: float) -> str:
    return f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"


def _check_relations(config: Config) -> list[str]:
    problems = []
    for whole in WEIGHT_GROUPS:
        total = sum(getattr(config, name) for name in whole)
        if abs(total - 1) > 1e-6:
            problems.append(f"{', '.join(whole)} must add up to 1, not {total:g}")
    ages = [getattr(config, name) for name in ASCENDING_FIELDS]
    if ages != sorted(ages):
        problems.append(
            f"{', '.join(ASCENDING_FIELDS)} must not descend, but are {', '.join(f'{a:g}' for a in ages)}"
        )
    return problems


def _unknown_variables(environ: Mapping[str, str], tunables: Iterable[str]) -> list[str]:
    """Return warnings about unknown variables with our prefix, which may be misspelt."""
    known = {*tunables, *OPERATOR_VARIABLES}
    return [
        f"environment: {name} is not a setting of memoryhub{_did_you_mean(name, known)}"
        for name in sorted(environ)
        if name.startswith(ENV_PREFIX) and name not in known
    ]


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
