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
from memoryhub.models.journal import ClockState, JournalEntry
from memoryhub.models.memory import (
    AbsenceSpan,
    CheckedMemory,
    CodeReference,
    Embedding,
    Entity,
    Evidence,
    Fact,
    FileLink,
    Label,
    Memory,
    MemoryCheck,
    MemoryText,
    MemoryTrigram,
    Revision,
)
from memoryhub.models.project import EventCount, Project, ProjectIdentity, ProjectMove
from memoryhub.models.run import (
    Extraction,
    Lease,
    MaintenanceRun,
    ModelUse,
    RunChanges,
    ServerProcess,
    UploadPart,
)
from memoryhub.models.session import Event, Injection, Session
