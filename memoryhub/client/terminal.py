"""Output for people: tables, JSON, times, and text that cannot change what a terminal shows."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime

from pydantic import BaseModel

from memoryhub.client.errors import ConfigurationError
from memoryhub.core.text import shorten

# Control and direction characters. Stored text is not trusted.
_UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def make_safe(text: str) -> str:
    """Replace characters that could change what a terminal shows. Line breaks stay."""
    return _UNSAFE.sub("�", text.replace("\r\n", "\n").replace("\t", "    "))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns. In a terminal, the last column is cut at its edge."""
    lines = [[" ".join(make_safe(cell).split()) for cell in row] for row in (heads, *rows)]
    widths = [max(_width(line[column]) for line in lines) for column in range(len(heads))]
    used = [column for column, width in enumerate(widths) if any(line[column] for line in lines[1:])]
    left = shutil.get_terminal_size().columns - sum(widths[column] + 2 for column in used[:-1])
    for line in lines:
        cells = [line[column] for column in used]
        last = shorten(cells[-1], max(left, 20)) if sys.stdout.isatty() else cells[-1]
        padded = [
            cell + " " * (widths[column] - _width(cell))
            for column, cell in zip(used, cells[:-1], strict=False)
        ]
        print("  ".join([*padded, last]).rstrip())


def _width(text: str) -> int:
    """Return the number of columns: East Asian characters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def confirm(question: str, yes: bool) -> bool:
    """Ask the person for consent, unless they have given it with ``--yes``."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "This is not a terminal, so the command cannot ask. Use --yes to apply the changes, or --dry-run."
        )
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def print_json(results: BaseModel | Sequence[BaseModel]) -> int:
    """Print results as JSON, and return the exit status of success."""
    models = results if isinstance(results, Sequence) else [results]
    values = [model.model_dump(mode="json") for model in models]
    text = json.dumps(values if isinstance(results, Sequence) else values[0], indent=2, ensure_ascii=False)
    print(_UNSAFE.sub(lambda unsafe: f"\\u{ord(unsafe[0]):04x}", text))
    return 0


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def format_day(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d}"


def format_time(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M}"
