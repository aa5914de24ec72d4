"""Markdown with YAML front matter: parse untrusted files, and write them the same way every time. No Django.

Scalars are read as texts, so that ``no`` or ``2026`` stays what a person wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from memoryhub.core.text import normalize_newlines

MAX_FRONT_MATTER = 64 * 1024  # characters
_BLOCK = re.compile(r"\A---[ \t]*\n(?P<yaml>.*?)(?:^|\n)---[ \t]*(?:\n|\Z)", re.S | re.M)
_LINE_BREAK = re.compile(r"[\n\r\x85\u2028\u2029]")
_FENCE = re.compile(r"\A---[ \t]*\n")


class InvalidFrontMatter(ValueError):
    """The front matter cannot be used. ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        self.line, self.message = line, message
        super().__init__(f"line {line}: {message}")


class _Loader(yaml.BaseLoader):
    """Reads scalars as texts. Refuses repeated keys, and aliases, which can expand to any size."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(problem="has an anchor or alias", problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name in seen:
                raise yaml.MarkedYAMLError(problem="repeats a field", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Writes every line break of a text as an escape, and never an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, '"' if _LINE_BREAK.search(text) else None)


_Dumper.add_representer(str, _represent_text)


def parse_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields and the text below; no fields without front matter.

    Raise :class:`InvalidFrontMatter`.
    """
    text = normalize_newlines(text.removeprefix("\ufeff"))
    if not _FENCE.match(text):
        return {}, text
    block = _BLOCK.match(text)
    if block is None:
        raise InvalidFrontMatter(1, "the front matter has no end; close it with a line ---")
    raw = block["yaml"]
    if len(raw) > MAX_FRONT_MATTER:
        raise InvalidFrontMatter(1, f"the front matter is longer than {MAX_FRONT_MATTER:,} characters")
    try:
        found = yaml.load(raw, Loader=_Loader)  # noqa: S506 a subclass of the loader that only makes texts
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise InvalidFrontMatter(line, f"the front matter {_explain(error)}") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        raise InvalidFrontMatter(2, "the front matter is not YAML") from None
    if found in (None, ""):
        found = {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise InvalidFrontMatter(2, "the front matter is not a list of fields, such as title: Deploy")
    return found, text[block.end() :]


def _explain(error: yaml.MarkedYAMLError) -> str:
    """Return the problem without quoting the file."""
    problem = error.problem or ""
    return problem if problem.startswith(("has ", "repeats ")) else "is not YAML here"


def field_line(text: str, name: str) -> int:
    """Return the line of a field of the front matter, counted from 1; 1 if it is not found."""
    lines = text.splitlines()[: MAX_FRONT_MATTER // 2]
    return next(
        (n for n, line in enumerate(lines, 1) if re.match(rf"['\"]?{re.escape(name)}['\"]?\s*:", line)), 1
    )


def format_front_matter(fields: Mapping[str, Any], body: str) -> str:
    """Return a file with these fields in order and the body. The same input always gives the same text."""
    head = yaml.dump(
        dict(fields),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=float("inf"),
    )
    return f"---\n{head}---\n\n{body.strip(chr(10))}\n"
