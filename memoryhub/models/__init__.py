"""The database models (docs/model.md)."""

from memoryhub.models.extraction import Extraction, ModelUse
from memoryhub.models.fact import Fact
from memoryhub.models.journal import JournalEntry
from memoryhub.models.memory import (
    Embedding,
    Entity,
    Evidence,
    FileLink,
    Label,
    Memory,
    MemoryText,
    MemoryTrigram,
    Revision,
)
from memoryhub.models.person import Identity, Membership, Profile, SavedSearch
from memoryhub.models.run import MaintenanceRun, RunChanges
from memoryhub.models.session import Event, Injection, Session
from memoryhub.models.token import AgentToken

__all__ = [
    "AgentToken",
    "Embedding",
    "Entity",
    "Event",
    "Evidence",
    "Extraction",
    "Fact",
    "FileLink",
    "Identity",
    "Injection",
    "JournalEntry",
    "Label",
    "MaintenanceRun",
    "Membership",
    "Memory",
    "MemoryText",
    "MemoryTrigram",
    "ModelUse",
    "Profile",
    "Revision",
    "RunChanges",
    "SavedSearch",
    "Session",
]
