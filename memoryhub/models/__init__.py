"""The database models (docs/model.md)."""

from memoryhub.models.account import (
    AgentToken,
    Digest,
    Membership,
    OAuthClient,
    OAuthCode,
    OAuthRefresh,
    Profile,
    SavedSearch,
)
from memoryhub.models.check import CheckedMemory, MemoryCheck
from memoryhub.models.fact import Fact
from memoryhub.models.journal import ClockState, JournalEntry
from memoryhub.models.memory import (
    AbsenceSpan,
    CodeReference,
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
from memoryhub.models.node import Lease, ServerProcess
from memoryhub.models.project import EventCount, Project, ProjectIdentity, ProjectMove
from memoryhub.models.run import Extraction, MaintenanceRun, ModelUse, RunChanges, UploadPart
from memoryhub.models.session import Event, Injection, Session

__all__ = [
    "AbsenceSpan",
    "AgentToken",
    "CheckedMemory",
    "ClockState",
    "CodeReference",
    "Digest",
    "Embedding",
    "Entity",
    "Event",
    "EventCount",
    "Evidence",
    "Extraction",
    "Fact",
    "FileLink",
    "Injection",
    "JournalEntry",
    "Label",
    "Lease",
    "MaintenanceRun",
    "Membership",
    "Memory",
    "MemoryCheck",
    "MemoryText",
    "MemoryTrigram",
    "ModelUse",
    "OAuthClient",
    "OAuthCode",
    "OAuthRefresh",
    "Profile",
    "Project",
    "ProjectIdentity",
    "ProjectMove",
    "Revision",
    "RunChanges",
    "SavedSearch",
    "ServerProcess",
    "Session",
    "UploadPart",
]
