"""Load the configuration and record the source of each value.

The sources by precedence: the environment (``MEMORYHUB_<NAME>``), the TOML file in ``MEMORYHUB_CONFIG``,
``memoryhub.toml`` in ``LETSGO_HOME``, the default in ``tunables.py``. A TOML file has the keys at its top
level or in ``[tool.letsgo.memory]``; in ``pyproject.toml`` only that table counts.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any

from memoryhub.config.tunables import ASCENDING_FIELDS, WEIGHT_GROUPS, Config

ENV_PREFIX = "MEMORYHUB_"

# Read by settings.py. Listed here so that only unknown variables cause a warning.
OPERATOR_VARIABLES = frozenset(
    {
        "MEMORYHUB_ALLOWED_HOSTS",
        "MEMORYHUB_BEHIND_PROXY",
        "MEMORYHUB_CONFIG",
        "MEMORYHUB_DEBUG",
        "MEMORYHUB_EMBEDDINGS_KEY",
        "MEMORYHUB_EMBEDDINGS_KEY_FILE",
        "MEMORYHUB_HTTPS",
        "MEMORYHUB_LLM_KEY",
        "MEMORYHUB_LLM_KEY_FILE",
        "MEMORYHUB_OIDC_CLIENT_ID",
        "MEMORYHUB_OIDC_CLIENT_SECRET",
        "MEMORYHUB_OIDC_CLIENT_SECRET_FILE",
        "MEMORYHUB_OIDC_CREATE",
        "MEMORYHUB_OIDC_ISSUER",
        "MEMORYHUB_OIDC_NAME",
        "MEMORYHUB_SECRET_KEY",
        "MEMORYHUB_SECRET_KEY_FILE",
        "MEMORYHUB_TIME_ZONE",
        "MEMORYHUB_TOKEN",
        "MEMORYHUB_TOKEN_FILE",
    }
)
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


class ConfigError(ValueError):
    """The configuration is invalid. Each line of the message names a key, its source and the fix."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


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
    values: dict[str, Any] = {}
    sources = {f.name: "default" for f in fields(Config)}
    for path in _toml_files(environ, home, problems):
        for key, raw in _toml_table(path, problems).items():
            _set_value(key, raw, str(path), values, sources, problems)
    for name in sources:
        variable = ENV_PREFIX + name.upper()
        if variable in environ:
            _set_value(name, environ[variable], variable, values, sources, problems)
    config = Config(**values)
    problems += _check_relations(config)
    if problems:
        raise ConfigError(problems)
    return LoadedConfig(config, sources, tuple(_unknown_variables(environ)))


def _toml_files(environ: Mapping[str, str], home: Path | None, problems: list[str]) -> list[Path]:
    """Return the files to read, the one with the higher precedence last."""
    usual = home / "memoryhub.toml" if home else None
    found = [usual] if usual and os.path.isfile(usual) else []
    if named := environ.get("MEMORYHUB_CONFIG"):
        if os.path.isfile(named):
            found.append(Path(named))
        else:
            problems.append(f"MEMORYHUB_CONFIG: no file at {named}; name an existing TOML file or unset it")
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


def _set_value(
    key: str, raw: object, source: str, values: dict[str, Any], sources: dict[str, str], problems: list[str]
) -> None:
    spec = next((f for f in fields(Config) if f.name == key), None)
    if spec is None:
        problems.append(f"{source}: unknown key {key!r}{_did_you_mean(key, sources)}")
        return
    try:
        value = _PARSERS[str(spec.type)](raw)
    except (ValueError, TypeError):
        problems.append(f"{source}: {key} must be {_KINDS[str(spec.type)]}, not {raw!r}")
        return
    if wanted := _expected_form(spec, value):
        problems.append(f"{source}: {key} must be {wanted}, not {raw!r}")
        return
    values[key], sources[key] = value, source


def _expected_form(spec: Field[Any], value: Any) -> str:
    """Describe the expected value, or return an empty string if the value is valid."""
    if isinstance(value, str):
        return "" if re.fullmatch(spec.metadata["form"], value) else str(spec.metadata["shown"])
    low, high = spec.metadata["low"], spec.metadata["high"]
    return "" if low <= value <= high else _describe_range(low, high)


def _parse_int(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise TypeError
    return int(raw)


def _parse_float(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise TypeError
    value = float(raw)
    if not math.isfinite(value):
        raise ValueError
    return value


def _parse_bool(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    return parse_flag(str(raw))


def _parse_text(raw: object) -> str:
    if not isinstance(raw, str):
        raise TypeError
    return raw.strip()


def parse_flag(raw: str) -> bool:
    """Parse ``1/true/yes/on`` or ``0/false/no/off``, ignoring case. Raise ValueError for anything else."""
    word = raw.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(raw)
    return word in _TRUE


_PARSERS: dict[str, Callable[[object], Any]] = {
    "int": _parse_int,
    "float": _parse_float,
    "bool": _parse_bool,
    "str": _parse_text,
}
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}


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


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return warnings about unknown variables with our prefix, which may be misspelt."""
    known = {ENV_PREFIX + f.name.upper() for f in fields(Config)} | OPERATOR_VARIABLES
    return [
        f"environment: {name} is not a setting of memoryhub{_did_you_mean(name, known)}"
        for name in sorted(environ)
        if name.startswith(ENV_PREFIX) and name not in known
    ]


def _did_you_mean(word: str, known: Mapping[str, str] | set[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
