"""Input schemas: drafts of new memories and facts, and patches that change memories.

The pydantic models give validation, the OpenAPI description and the JSON Schema of the tools. The API, forms,
imports and toolsets all use them. Every text of a draft is checked for secrets before anything is written.
A refusal leaves a journal row ``secret_blocked`` with the actor, the kind and the field, never the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from memoryhub.access.policy import Sensitivity
from memoryhub.core.text import collapse_whitespace
from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.memories.errors import StoreError

MAX_CONTENT = 100_000
MAX_LIST = 1000
MAX_ALIASES = 20
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)


def _check_characters(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain a NUL character; remove it")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("contains an unpaired surrogate, which is not a character; remove it") from None
    return text


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must contain more than white space")
    return text


def _refuse_boolean(value: object) -> object:
    """Refuse true and false, which pydantic would store as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _check_moment(moment: datetime) -> datetime:
    """Return the moment in UTC. A moment without a time zone is in UTC; the year is 1900 at the earliest."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range; give a moment between 1900 and now") from None
    if not _EARLIEST <= moment <= datetime.now(UTC) + timedelta(days=1):
        raise ValueError("is out of range; give a moment between 1900 and now")
    return moment


def _remove_repeats(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def remove_repeats_ignoring_case(values: Iterable[str]) -> list[str]:
    """Return the values without those that differ from an earlier one only in case."""
    found: dict[str, str] = {}
    for value in values:
        found.setdefault(value.casefold(), value)
    return list(found.values())


def _blank_as_null(value: object) -> object:
    return value.strip() or None if isinstance(value, str) else value


def _null_as_empty(value: object) -> object:
    return "" if value is None else value


def _null_as_no_items(value: object) -> object:
    return [] if value is None else value


Text = Annotated[
    str, AfterValidator(_check_characters), AfterValidator(str.strip), BeforeValidator(_null_as_empty)
]
Word = Annotated[
    str, AfterValidator(_check_characters), AfterValidator(_check_not_blank), AfterValidator(str.strip)
]
# Place it after Field(ge=..., le=...), or the JSON schema loses the limits.
NotBoolean = BeforeValidator(_refuse_boolean)
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), NotBoolean]
Labels = Annotated[
    list[Annotated[Word, Field(max_length=100)]],
    Field(max_length=MAX_LIST),
    AfterValidator(_remove_repeats),
    BeforeValidator(_null_as_no_items),
]
Aliases = Annotated[
    list[Annotated[Word, AfterValidator(collapse_whitespace), Field(max_length=100)]],
    Field(max_length=MAX_ALIASES),
    AfterValidator(remove_repeats_ignoring_case),
    BeforeValidator(_null_as_no_items),
]
Paths = Annotated[
    list[Annotated[Word, Field(max_length=1000)]],
    Field(max_length=MAX_LIST),
    AfterValidator(_remove_repeats),
    BeforeValidator(_null_as_no_items),
]
Content = Annotated[
    str,
    Field(min_length=1, max_length=MAX_CONTENT),
    AfterValidator(_check_characters),
    AfterValidator(_check_not_blank),
]
Name = Annotated[Text, Field(max_length=200)]
OptionalId = Annotated[
    Annotated[str, AfterValidator(_check_characters), Field(max_length=64)] | None,
    BeforeValidator(_blank_as_null),
]
Moment = Annotated[datetime, AfterValidator(_check_moment)]
TtlDays = Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False), NotBoolean]


class EntityDraft(BaseModel):
    """A person, place or thing that a memory names."""

    model_config = ConfigDict(frozen=True)

    entity: Annotated[Word, Field(max_length=200)]
    entity_type: Annotated[Word, Field(max_length=50)] = "concept"


Entities = Annotated[
    list[EntityDraft],
    Field(max_length=MAX_LIST),
    AfterValidator(_remove_repeats),
    BeforeValidator(_null_as_no_items),
]


class _MemoryFields(BaseModel):
    """The fields of drafts and patches. Unknown fields are not an error; ``ignored`` names them."""

    model_config = ConfigDict(extra="allow")

    title: Annotated[Text, Field(max_length=500)] = Field("", description="Default: made from the content.")
    subtitle: Annotated[Text, Field(max_length=1000)] = Field("", description="Second line of the title.")
    abstract: Annotated[Text, Field(max_length=2000)] = Field(
        "", description="Summary in one line; default: the first 20 words of the content."
    )
    overview: Annotated[Text, Field(max_length=20_000)] = Field("", description="Summary in a paragraph.")
    category: Annotated[Word, Field(max_length=100)] = Field("general", description="Category, any word.")
    type: MemoryType = Field(MemoryType.CHANGE, description="Type of the memory.")
    concepts: Labels = Field(
        default_factory=list,
        description="Kinds of knowledge: how-it-works, why-it-exists, what-changed, problem-solution, "
        "gotcha, pattern, trade-off.",
    )
    tags: Labels = Field(default_factory=list, description="Words to find it by.")
    aliases: Aliases = Field(
        default_factory=list, description="Short names for what it is about, such as k8s for Kubernetes."
    )
    importance: Share = Field(0.5, description="Importance, 0 to 1.")
    trust: Share = Field(0.5, description="Trust in the source, 0 to 1.")
    confidence: Share = Field(0.5, description="Confidence in the content, 0 to 1.")
    sensitivity: Sensitivity = Field(
        Sensitivity.PUBLIC, description="Reads include private and secret only if requested and permitted."
    )
    scope: Scope = Field(
        Scope.PROJECT, description="Who sees it: only the owner, the project, or the whole team."
    )
    project: Name = Field("", description="Project it belongs to, such as the name of a repository.")
    session_id: Name = Field("", description="Session in which it was created.")
    key: Name = Field(
        "", description="Unique within project, scope and owner. Storing the same key updates the memory."
    )
    files_read: Paths = Field(default_factory=list, description="Paths of files that were read.")
    files_modified: Paths = Field(default_factory=list, description="Paths of files that were changed.")
    discovery_tokens: Annotated[int | None, Field(ge=0, le=2_000_000_000), NotBoolean] = Field(
        None, description="Number of tokens spent to find this out."
    )
    ttl_days: TtlDays | None = Field(
        default=None, description="Days until it expires; 0 or null: never; default: as configured."
    )
    pinned: bool = Field(
        False, description="Always include: it opens every session of its project and never expires."
    )
    entities: Entities = Field(default_factory=list, description="People, places and things in the content.")
    superseded_by: OptionalId = Field(
        None, description="The id of the memory that replaces this one; null: none."
    )

    @property
    def given(self) -> set[str]:
        """The names of known fields that the client set."""
        return self.model_fields_set & type(self).model_fields.keys()

    @property
    def ignored(self) -> list[str]:
        """The names of unknown fields that the client sent."""
        return sorted(self.model_extra or {})


class MemoryDraft(_MemoryFields):
    """A memory to store. A missing title or abstract is made from the content."""

    expires_by_default: ClassVar[bool] = True

    content: Content = Field(description="Full text of the memory.")
    created_at: Moment | None = Field(
        default=None, description="Time of creation, for imports; default: now."
    )


class PersistentDraft(MemoryDraft):
    """A memory that expires only if ``ttl_days`` is given, as Mira and pigo have it."""

    expires_by_default: ClassVar[bool] = False


class MemoryPatch(_MemoryFields):
    """The fields of a memory to change."""

    content: Content = Field("", description="Full text of the memory.")

    @model_validator(mode="after")
    def _sets_something(self) -> Self:
        if not self.given:
            known = ", ".join(sorted(MemoryPatch.model_fields))
            raise ValueError(f"sets no field; give at least one of: {known}")
        return self


def to_patch(values: Mapping[str, Any]) -> MemoryPatch:
    """Validate a patch. Raise :class:`StoreError` with the name of the first invalid field."""
    try:
        return MemoryPatch.model_validate(dict(values))
    except ValidationError as invalid:
        error = invalid.errors()[0]
        name = str(error["loc"][0]) if error["loc"] else ""
        message = error["msg"].removeprefix("Value error, ")
        raise StoreError(f"{name}: {message[:1].lower()}{message[1:]}" if name else message, name) from None


class FactDraft(BaseModel):
    """A subject, predicate and object to store."""

    model_config = ConfigDict(extra="allow")

    subject: Annotated[Word, Field(max_length=500)] = Field(description="Subject of the fact.")
    predicate: Annotated[Word, Field(max_length=200)] = Field(description="Predicate: a verb.")
    object: Annotated[Word, Field(max_length=10_000)] = Field(description="Object of the fact.")
    confidence: Share = Field(1.0, description="Confidence, 0 to 1.")
    project: Name = Field("", description="Project it belongs to, such as the name of a repository.")
    session_id: Name = Field("", description="Session in which it was created.")
    sensitivity: Sensitivity = Field(
        Sensitivity.PUBLIC, description="Reads include private and secret only if requested and permitted."
    )
    memory_id: Annotated[str | None, Field(max_length=64)] = Field(
        None, description="Id of the source memory. The fact is visible, and deleted, together with it."
    )
