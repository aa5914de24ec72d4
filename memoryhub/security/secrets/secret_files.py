"""Files that contain secrets, recognised by their names. Nothing from them becomes a memory. No Django."""

from __future__ import annotations

import re
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, Words, load_rule_file

_ARGUMENT = re.compile(r"[^\s'\"`=<>|;&()]{3,300}")


class SecretFileRules(PatternFile):
    file: Regex
    folder: Regex
    harmless: Regex
    hints: Words


_RULES = load_rule_file(Path(__file__).with_suffix(".toml"), SecretFileRules)


def is_secret_file(path: str) -> bool:
    """Return True if files with this path usually contain secrets."""
    return bool((_RULES.file.search(path) or _RULES.folder.search(path)) and not _RULES.harmless.search(path))


def names_secret_file(command: str) -> bool:
    """Return True if a shell command names such a file."""
    lowered = command.lower()
    if not any(hint in lowered for hint in _RULES.hints):
        return False
    return any(is_secret_file(argument) for argument in _ARGUMENT.findall(command))
