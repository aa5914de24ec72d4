"""Composition of training texts from the parts in ``fixtures/governor/training/*.toml``. No Django."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tools.prompt_injection.evaluation import LabelledText

_SLOT = re.compile(r"\{(\w+)\}")
_SEED = 15
_FULL_STOPS = ("", ".", ".", "!")


def compose_texts(paths: list[Path]) -> list[LabelledText]:
    """Return the texts of the files of parts. The same files give the same texts."""
    return [text for path in paths for text in _Composer(tomllib.loads(path.read_text("utf-8"))).compose()]


class _Composer:
    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts
        self.slots: dict[str, list[str]] = {**parts["slots"], **parts.get("more_slots", {})}
        self.random = Random(_SEED)
        self.full_stop = "।" if parts["language"] == "hi" else "."

    def compose(self) -> Iterator[LabelledText]:
        for group in self.parts["texts"]:
            for _ in range(group["count"]):
                text = self._finish(self._fill(self.random.choice(group["patterns"])))
                yield self._label(text, group["label"], group["kind"])
        documents = self.parts["documents"]
        for number in range(documents["task_count"]):
            yield self._label(self._document_with_order(number), "injection", "task in data")
        for _ in range(documents["plain_count"]):
            lines = self._document_lines()
            if self.random.random() < 0.3:
                lines.insert(self.random.randrange(len(lines) + 1), self._finish(self._fill("{chore}")))
            yield self._label(self._join(lines), "ordinary", "document")

    def _label(self, text: str, label: str, kind: str) -> LabelledText:
        weight = self.parts.get("injection_weight", 1.0) if label == "injection" else 1.0
        return LabelledText(text, label, kind, self.parts["language"], "dev", weight)

    def _document_with_order(self, number: int) -> str:
        lines = self._document_lines()
        order = self._finish(self._fill("{order}"))
        place = (0, len(lines), len(lines), self.random.randrange(len(lines) + 1))[number % 4]
        lines.insert(place, order)
        return self._join(lines)

    def _document_lines(self) -> list[str]:
        lines: list[str] = self.random.choice(self.parts["documents"]["texts"]).split("\n")
        return lines

    def _join(self, lines: list[str]) -> str:
        return self.random.choice(("\n", "\n", "\n\n", " ")).join(lines)

    def _fill(self, pattern: str) -> str:
        while _SLOT.search(pattern):
            pattern = _SLOT.sub(lambda slot: self.random.choice(self.slots[slot[1]]), pattern)
        return pattern

    def _finish(self, text: str) -> str:
        """Write the text as a sentence, most of the time."""
        if self.random.random() < 0.85:
            text = text[:1].upper() + text[1:]
        if text[-1].isalnum() or text[-1] == '"':
            text += self.random.choice(_FULL_STOPS).replace(".", self.full_stop)
        return re.sub(r"([.!?।] )(\w)", lambda match: match[1] + match[2].upper(), text)
