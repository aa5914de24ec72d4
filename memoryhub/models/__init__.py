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
