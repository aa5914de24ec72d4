"""The formats that can be read and written, each in a module of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memoryhub.transfer.records import Item, ReadOptions, UnreadableFile

if TYPE_CHECKING:
    from memoryhub.transfer.export import ExportSelection

__all__ = ["FORMATS", "WRITERS", "Format", "UnreadableFile", "Writer", "detect_format"]


class Format(Protocol):
    """A kind of file that memories come in. Without state of its own; no Django but through what it imports.

    ``name``: for commands and the API (``pigo``). ``label``: for people. ``extensions``: of its files, in the
    order of a file chooser (``.jsonl``). ``hint``: a sentence on where that file is found.
    """

    name: str
    label: str
    hint: str

    @property
    def extensions(self) -> tuple[str, ...]: ...

    def recognises(self, path: Path) -> bool:
        """Whether the content (never the name alone) looks like this; cheap, and never an exception."""
        ...

    def count(self, path: Path) -> int | None:
        """About how many items :meth:`read` will give, for a progress bar; None when costly to tell."""
        ...

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        """The items in an order that is the same each time, a few in memory at once.

        :class:`UnreadableFile` when the file as a whole cannot be read, or from here on: its message begins
        with what is wrong and ends with the mend. What is wrong with one thing is a ``Bad``.
        """
        ...


@runtime_checkable
class Writer(Protocol):
    """A format that exports can be written in too. ``lossy``: a sentence on what it cannot carry."""

    name: str
    label: str
    extension: str
    content_type: str
    lossy: str

    def write(self, selection: ExportSelection) -> Iterator[bytes]:
        """What may go out, streaming: chunks of any size."""
        ...


def _all_formats() -> tuple[Format, ...]:
    """In the order in which they are asked whether they recognise a file: the strictest first."""
    from memoryhub.transfer.formats.claude_mem import ClaudeMem
    from memoryhub.transfer.formats.hub import HubFormat
    from memoryhub.transfer.formats.knowledge_graph import KnowledgeGraph
    from memoryhub.transfer.formats.letsgo import LetsGo
    from memoryhub.transfer.formats.markdown import MarkdownFormat
    from memoryhub.transfer.formats.memory_mcp import MemoryMcp
    from memoryhub.transfer.formats.openmemory import OpenMemory
    from memoryhub.transfer.formats.pigo import Pigo

    return (
        ClaudeMem(),
        MemoryMcp(),
        LetsGo(),
        OpenMemory(),
        Pigo(),
        KnowledgeGraph(),
        HubFormat(),
        MarkdownFormat(),
    )


FORMATS: dict[str, Format] = {one.name: one for one in _all_formats()}
WRITERS: dict[str, Writer] = {one.name: one for one in FORMATS.values() if isinstance(one, Writer)}
OWN_FORMAT = "memoryhub"


def detect_format(path: Path) -> Format:
    """The first format that knows this file by its content, or the hub's own, which says what is wrong."""
    return next((one for one in FORMATS.values() if one.recognises(path)), FORMATS[OWN_FORMAT])
