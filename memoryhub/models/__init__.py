"""The tables: one model of memory for four documented systems (docs/model.md)."""

from memoryhub.models.fact import Fact
from memoryhub.models.journal import JournalEntry
from memoryhub.models.memory import (
    Embedding,
    Entity,
    FileLink,
    Label,
    Memory,
    MemoryText,
    MemoryTrigram,
    Revision,
)
from memoryhub.models.run import MaintenanceRun, RunChanges
from memoryhub.models.session import Event, Injection, Session
from memoryhub.models.token import AgentToken

__all__ = [
    "AgentToken",
    "Embedding",
    "Entity",
    "Event",
    "Fact",
    "FileLink",
    "Injection",
    "JournalEntry",
    "Label",
    "MaintenanceRun",
    "Memory",
    "MemoryText",
    "MemoryTrigram",
    "Revision",
    "RunChanges",
    "Session",
]
