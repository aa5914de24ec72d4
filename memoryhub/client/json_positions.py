"""Parse JSON with comments, with the position of each value in the text, so that it can be edited there."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryhub.client.errors import UnusableConfig

_BLANK = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"[\w.+-]+")


def parse_json(text: str) -> Any:
    """Return the value of a JSON document, in which comments and trailing commas are allowed."""
    return parse_nodes(text).value


@dataclass
class Node:
    """A value in the text. ``end`` is after its last character."""

    start: int
    end: int
    value: Any
    children: list[Child] = field(default_factory=list)


@dataclass
class Child:
    """A member of an object or an item of a list. ``comma``: the position of the comma after it."""

    key: str | int
    start: int
    node: Node
    comma: int | None = None


class _Parser:
    """Parses JSON with comments, with the position of each value."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def document(self) -> Node:
        self._skip_blank()
        node = self._value()
        self._skip_blank()
        if self.at < len(self.text):
            raise self._error("the end of the file")
        if not isinstance(node.value, dict):
            raise UnusableConfig("it is not a JSON object")
        return node

    def _value(self) -> Node:
        start, letter = self.at, self.text[self.at : self.at + 1]
        if letter in ("{", "["):
            return self._container(letter == "{")
        match = (_STRING if letter == '"' else _SCALAR).match(self.text, start)
        if not match:
            raise self._error("a value")
        try:
            value = json.loads(match[0])
        except ValueError:
            raise self._error("a value") from None
        self.at = match.end()
        return Node(start, self.at, value)

    def _container(self, is_object: bool) -> Node:
        node = Node(self.at, 0, {} if is_object else [])
        close = "}" if is_object else "]"
        self._step()
        while self.text[self.at : self.at + 1] != close:
            if node.children and node.children[-1].comma is None:
                raise self._error(f"a comma or {close}")
            child = self._child(node, is_object)
            node.children.append(child)
            self._skip_blank()
            if self.text[self.at : self.at + 1] == ",":
                child.comma = self.at
                self._step()
        self.at += 1
        node.end = self.at
        return node

    def _child(self, parent: Node, is_object: bool) -> Child:
        start, key = self.at, len(parent.children)
        if not is_object:
            node = self._value()
            parent.value.append(node.value)
            return Child(key, start, node)
        name = self._value().value if self.text[self.at] == '"' else None
        self._skip_blank()
        if name is None:
            raise self._error("a key in quotes")
        if name in parent.value:
            raise self._error("a key that does not repeat another one")
        if self.text[self.at : self.at + 1] != ":":
            raise self._error("a colon")
        self._step()
        node = self._value()
        parent.value[name] = node.value
        return Child(name, start, node)

    def _step(self) -> None:
        self.at += 1
        self._skip_blank()

    def _skip_blank(self) -> None:
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _error(self, expected: str) -> UnusableConfig:
        line = self.text.count("\n", 0, self.at) + 1
        return UnusableConfig(f"it is not valid JSON: line {line} should have {expected}")


def parse_nodes(text: str) -> Node:
    """Return the outermost value of a document, an object, with the values in it."""
    try:
        return _Parser(text).document()
    except (RecursionError, IndexError):
        raise UnusableConfig("it is not valid JSON") from None


def find_node(root: Node, path: Sequence[str]) -> Node | None:
    """Return the value under a path of keys; None if there is none."""
    for name in path:
        child = next((child for child in root.children if child.key == name), None)
        if child is None:
            return None
        root = child.node
    return root
