"""Import and export formats, one module each."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

from memoryhub.core.database import read_snapshot
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats.agentmemory import AgentMemory
from memoryhub.transfer.formats.basic_memory import BasicMemory
from memoryhub.transfer.formats.chatgpt import ChatGpt
from memoryhub.transfer.formats.claude_export import Claude
from memoryhub.transfer.formats.claude_mem import ClaudeMem
from memoryhub.transfer.formats.engram import Engram
from memoryhub.transfer.formats.hindsight import Hindsight
from memoryhub.transfer.formats.hub import HubFormat
from memoryhub.transfer.formats.knowledge_graph import KnowledgeGraph
from memoryhub.transfer.formats.letsgo import LetsGo
from memoryhub.transfer.formats.markdown import MarkdownFormat
from memoryhub.transfer.formats.mcp_memory_service import McpMemoryService
from memoryhub.transfer.formats.mem0 import Mem0
from memoryhub.transfer.formats.memory_mcp import MemoryMcp
from memoryhub.transfer.formats.mira import Mira
from memoryhub.transfer.formats.openmemory import OpenMemory
from memoryhub.transfer.formats.pigo import Pigo
from memoryhub.transfer.records import Format


@runtime_checkable
class Writer(Protocol):
    """A format that can be exported too. ``lossy`` is a sentence on what it cannot represent."""

    name: str
    label: str
    extension: str
    content_type: str
    lossy: str

    def write(self, selection: ExportSelection) -> Iterator[bytes]:
        """Yield the export in chunks of any size."""
        ...


# In the order of detection, the strictest first.
_FORMATS: tuple[Format, ...] = (
    ClaudeMem(),
    McpMemoryService(),
    MemoryMcp(),
    Mem0(),
    Engram(),
    AgentMemory(),
    Hindsight(),
    Mira(),
    LetsGo(),
    Claude(),
    ChatGpt(),
    OpenMemory(),
    BasicMemory(),
    Pigo(),
    KnowledgeGraph(),
    HubFormat(),
    MarkdownFormat(),
)
FORMATS: dict[str, Format] = {one.name: one for one in _FORMATS}
WRITERS: dict[str, Writer] = {one.name: one for one in FORMATS.values() if isinstance(one, Writer)}
OWN_FORMAT = "memoryhub"
MAX_RESPONSE_SECONDS = 3600.0  # of an export that a client reads


def write_export(
    writer: Writer, selection: ExportSelection, max_seconds: float = math.inf
) -> Generator[bytes]:
    """Yield an export, all of it from one state of the store.

    The database keeps this state meanwhile. So raise TimeoutError if the reader takes longer than
    ``max_seconds``.
    """
    until = time.monotonic() + max_seconds
    with read_snapshot():
        for chunk in writer.write(selection):
            yield chunk
            if time.monotonic() > until:
                raise TimeoutError(f"the export was not read within {max_seconds:.0f} seconds")


def detect_format(path: Path) -> Format:
    """Return the format that recognises the file, or else the hub's own, which reports the problem."""
    return next((one for one in FORMATS.values() if one.recognises(path)), FORMATS[OWN_FORMAT])
