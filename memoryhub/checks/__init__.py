"""Create, change, delete and run memory checks. The only writer of them.

A run compares what a prompt brings with what its check expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal, Self, cast

from django.contrib.auth.models import User
from django.utils import timezone
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from memoryhub.access import policy
from memoryhub.access.policy import LEVELS, Actor, Clearance, Sensitivity
from memoryhub.accounts.clearance import user_clearance
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.text import fold, strip_private
from memoryhub.core.vocabulary import ProjectMode
from memoryhub.injection.candidates import Candidate
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.selection import Selection
from memoryhub.injection.services import candidates_for_prompt, select_for_new_session
from memoryhub.maintenance import operations, runs
from memoryhub.maintenance.operations.base import Operation, ProjectParams, Step
from memoryhub.memories.errors import Conflict, Forbidden, NotFound, StoreError
from memoryhub.memories.rows import fetch_by_uids
from memoryhub.memories.schemas import Name, Text, Word
from memoryhub.models import CheckedMemory, Memory, MemoryCheck, Project
from memoryhub.models.querysets import AccessQuerySet
from memoryhub.security.secrets import find_secrets

MAX_CHECKS = 200  # per project
MAX_RULES, MAX_PROMPT = 20, 4000
Phrase = Annotated[str, Field(max_length=200), AfterValidator(TypeAdapter(Word).validate_python)]
Words = Annotated[list[Phrase], Field(max_length=MAX_RULES)]
Ids = Annotated[list[Name], Field(max_length=MAX_RULES)]
_MEMORY_FIELDS = {"must_bring": CheckedMemory.MUST, "never_bring": CheckedMemory.NEVER}
EXPECTATIONS = (*_MEMORY_FIELDS, "must_words", "never_words", "never_projects", "never_level")


def _require_prompt(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty; write a prompt that an agent would get")
    return text


Prompt = Annotated[
    str,
    Field(max_length=MAX_PROMPT),
    AfterValidator(TypeAdapter(Text).validate_python),
    AfterValidator(strip_private),
    AfterValidator(_require_prompt),
]


class CheckDraft(BaseModel):
    """A prompt and what it must bring, and must never bring."""

    model_config = ConfigDict(extra="forbid")

    prompt: Prompt
    project: Name = Field("", description="The project of the prompt. Limits memories as in POST /inject.")
    level: Sensitivity = Field(Sensitivity.PUBLIC, description="Highest level that the prompt asks for.")
    must_bring: Ids = Field(default_factory=list, description="Ids of memories.")
    must_words: Words = Field(default_factory=list, description="Words that a returned memory must contain.")
    never_bring: Ids = Field(default_factory=list, description="Ids of memories.")
    never_words: Words = Field(default_factory=list, description="Words that no returned memory may contain.")
    never_projects: Words = Field(default_factory=list, description="Projects of memories.")
    never_level: Literal["", "private", "secret"] = Field("", description="This level and stricter ones.")
    enabled: bool = True

    @model_validator(mode="after")
    def _has_expectation(self) -> Self:
        if not any(getattr(self, name) for name in EXPECTATIONS):
            raise ValueError(f"expects nothing; give at least one of: {', '.join(EXPECTATIONS)}")
        return self


def visible_checks(clearance: Clearance) -> AccessQuerySet:
    """Return the checks that a viewer may see, newest first."""
    return MemoryCheck.objects.visible_to(clearance).prefetch_related("memories")


def get_check(uid: str, clearance: Clearance) -> MemoryCheck:
    check: MemoryCheck | None = visible_checks(clearance).filter(uid=uid).first()
    if check is None:
        raise NotFound("there is no such check")
    return check


def create_check(draft: CheckDraft, actor: Actor) -> MemoryCheck:
    """Store a check that is owned by the person behind the actor, or return their equal one.

    A form that is sent twice stores one check.
    """
    _require_account(actor)
    check = MemoryCheck(owner=actor.owner, created_at=timezone.now())
    with write_transaction():
        own = visible_checks(actor.clearance).filter(owner=actor.owner, project=draft.project)
        for equal in own.filter(prompt=draft.prompt):
            if to_draft(equal) == draft.model_dump():
                return cast(MemoryCheck, equal)
        if MemoryCheck.objects.filter(project=draft.project).count() >= MAX_CHECKS:
            raise Conflict(f"the project has {MAX_CHECKS} checks already; delete one first", "project")
        return _save(check, draft, actor, "check_create")


def import_check(
    uid: str, owner: str, draft: CheckDraft, actor: Actor, created_at: datetime, updated_at: datetime
) -> bool:
    """Restore a check of another store with its id and owner. False: it is here already.

    Its owner need not have an account yet, and its memories need not exist; until then, its runs fail.
    """
    if MemoryCheck.objects.filter(uid=uid).exists():
        return False
    check = MemoryCheck(uid=uid, owner=owner, created_at=created_at)
    saved = _save(check, draft, actor, "check_create", may_miss=True)
    MemoryCheck.objects.filter(pk=saved.pk).update(updated_at=updated_at)
    return True


def update_check(uid: str, draft: CheckDraft, actor: Actor) -> MemoryCheck:
    """Replace a check. Its owner becomes the one who changed it, whose clearance limits its runs."""
    with write_transaction():
        check = get_check(uid, actor.clearance)
        _require_account(actor)
        check.owner = actor.owner
        return _save(check, draft, actor, "check_update")


def delete_check(uid: str, actor: Actor) -> None:
    with write_transaction():
        check = get_check(uid, actor.clearance)
        _record("check_delete", check, actor)
        check.delete()


def to_draft(check: MemoryCheck) -> dict[str, Any]:
    """Return the values of a check by the names of :class:`CheckDraft`."""
    names = [name for name in CheckDraft.model_fields if name not in _MEMORY_FIELDS]
    return {name: getattr(check, name) for name in names} | {
        name: check.uids(rule) for name, rule in _MEMORY_FIELDS.items()
    }


def _save(
    check: MemoryCheck, draft: CheckDraft, actor: Actor, operation: str, *, may_miss: bool = False
) -> MemoryCheck:
    """Save a check with the values of a draft. ``may_miss``: its memories need not exist, or be live."""
    _refuse(draft, actor)
    memories: dict[str, dict[str, Memory]] = {}
    for name in _MEMORY_FIELDS:
        memories[name] = _find_memories(name, getattr(draft, name), actor, may_miss=may_miss)
    for name, value in draft.model_dump(exclude=set(_MEMORY_FIELDS), mode="json").items():
        setattr(check, name, value)
    check.sensitivity = draft.level.value
    for memory in (one for found in memories.values() for one in found.values()):
        check.sensitivity = policy.stricter_level(check.sensitivity, memory.sensitivity)
    check.updated_at, check.passed, check.result, check.checked_at = timezone.now(), None, {}, None
    check.save()
    check.memories.all().delete()
    CheckedMemory.objects.bulk_create(
        CheckedMemory(check_ref=check, memory=memories[name].get(uid), uid=uid, rule=rule)
        for name, rule in _MEMORY_FIELDS.items()
        for uid in dict.fromkeys(getattr(draft, name))
    )
    _record(operation, check, actor)
    saved: MemoryCheck = MemoryCheck.objects.prefetch_related("memories").get(pk=check.pk)
    return saved


def _require_account(actor: Actor) -> None:
    if not User.objects.filter(username=actor.owner, is_active=True).exists():
        raise StoreError("has no active account as its owner; use the token of a person", "owner")


def _refuse(draft: CheckDraft, actor: Actor) -> None:
    clearance = actor.clearance
    if not clearance.includes_project(draft.project):
        raise Forbidden("you have no access to this project; choose one of yours", "project")
    if not clearance.allows(draft.project, draft.level.value):
        raise Forbidden("you cannot see this level here; choose a lower one", "level")
    if closed := [name for name in draft.never_projects if not clearance.includes_project(name)]:
        raise Forbidden(f"you have no access to {closed[0]}; leave it out", "never_projects")
    for name in ("prompt", "must_words", "never_words", "never_projects"):
        value = getattr(draft, name)
        if find_secrets(value if isinstance(value, str) else "\n".join(value)):
            raise StoreError("contains what looks like a secret; remove it", name)


def _find_memories(
    field: str, uids: Iterable[str], actor: Actor, *, may_miss: bool = False
) -> dict[str, Memory]:
    visible = Memory.objects.visible_to(actor.clearance)
    wanted = list(dict.fromkeys(uids))
    found = {one.uid: one for one in fetch_by_uids(visible if may_miss else visible.live(), wanted)}
    if not may_miss and (missing := sorted(set(wanted) - found.keys())):
        raise StoreError(
            f"there is no memory {missing[0]}; copy the id from its page, or leave it out", field
        )
    return found


def _record(operation: str, check: MemoryCheck, actor: Actor) -> None:
    detail = {"memories": len(check.memories.all()), "enabled": check.enabled}
    change = journal.Change(operation, "check", check.uid, detail, check.project, check.sensitivity)
    journal.record(actor, [change])


CHECKS_ACTOR = policy.system_actor("checks")


class RunChecks(Operation[ProjectParams]):
    name = operations.MEMORY_CHECKS
    label = "Run memory checks"
    help = (
        "Runs the checks of what prompts must return and must never return. Failures are listed on the"
        " page of the checks and on Home. Memories do not change, so there is nothing to undo."
    )
    Params = ProjectParams

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        return self._checks(params, actor).count()

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        """Yield a step for each check. It is run here, before the transaction that stores its result."""
        after = (position or {}).get("after", 0)
        for check in self._checks(params, actor).filter(pk__gt=after).order_by("pk"):
            clearance = run_clearance(check)
            failures = [{"rule": OWNER_LEFT}] if clearance is None else find_failures(check, clearance, now)

            def commit(run_uid: str, check: MemoryCheck = check, found: Any = failures) -> tuple[()]:
                store_result(check, found, now)
                return ()

            yield Step((), {"after": check.pk}, 1, commit, chore=True)

    def _checks(self, params: ProjectParams, actor: Actor) -> AccessQuerySet:
        return params.in_project(visible_checks(actor.clearance).filter(enabled=True))


MEMORY_CHECKS = RunChecks()


def enqueue_checks() -> None:
    """Queue a run of all checks, unless one is waiting or there are none."""
    if MemoryCheck.objects.filter(enabled=True).exists():
        runs.enqueue(MEMORY_CHECKS, {}, CHECKS_ACTOR, may_wait=True)


OWNER_LEFT = "owner_left"
PROJECT_MODE = "project_mode"


def run_clearance(check: MemoryCheck) -> Clearance | None:
    """Return what a run of the check sees: what its owner may see now, up to its level, and no personal
    memories. None if the owner may not see its project or level any more.
    """
    user = User.objects.select_related("profile").filter(username=check.owner, is_active=True).first()
    if user is None:
        return None
    full = replace(user_clearance(user), owner="", every_token=False)
    if not full.allows(check.project, check.level):
        return None
    return full.limited_to(private=check.level != LEVELS[0], secret=check.level == LEVELS[-1])


def may_see_result(check: MemoryCheck, viewer: Clearance) -> bool:
    """Whether nothing of a run with the owner's clearance is hidden from the viewer."""
    clearance = run_clearance(check)
    return clearance is None or viewer.covers(clearance)


def run_check(check: MemoryCheck, viewer: Clearance) -> list[dict[str, Any]]:
    """Return the failures of a run that sees what both the owner and the viewer may see.

    The result is stored if that is all that the owner may see. Nothing is logged as an injection.
    """
    now, clearance = timezone.now(), run_clearance(check)
    if clearance is None:
        failures: list[dict[str, Any]] = [{"rule": OWNER_LEFT}]
    else:
        failures = find_failures(check, clearance.within(viewer), now)
    if clearance is None or viewer.covers(clearance):
        store_result(check, failures, now)
    return failures


def store_result(check: MemoryCheck, failures: list[dict[str, Any]], now: datetime) -> None:
    """Store the result, unless the check was changed since it was read."""
    check.passed, check.result, check.checked_at = not failures, {"failures": failures}, now
    with write_transaction():
        MemoryCheck.objects.filter(pk=check.pk, updated_at=check.updated_at).update(
            passed=check.passed, result=check.result, checked_at=now
        )


def find_failures(check: MemoryCheck, clearance: Clearance, now: datetime) -> list[dict[str, Any]]:
    """Return the expectations that do not hold, without texts of memories.

    Agents receive nothing in a project that is off or only observed. A pause does not count, because it
    is temporary.
    """
    project = Project.named(check.project)
    if not project.is_recorded:
        expects = bool(check.must_words or check.uids(CheckedMemory.MUST))
        return [{"rule": PROJECT_MODE, "mode": project.mode}] if expects else []
    request = InjectionRequest(check.prompt, project=check.project)
    found = candidates_for_prompt(request, clearance, now)
    chosen = select_for_new_session(found, request, now)
    shown = [one.candidate.memory for one in chosen.shown]
    texts = {one.uid: fold(f"{one.title} {one.content}") for one in shown}
    missing = [uid for uid in check.uids(CheckedMemory.MUST) if uid not in texts]
    failures = [_missing(uid, found.ranked, chosen, request) for uid in missing]
    for word in check.must_words:
        if not any(fold(word) in text for text in texts.values()):
            failures.append({"rule": "must_words", "word": word})
    never, rank = set(check.uids(CheckedMemory.NEVER)), policy.level_rank
    for memory in shown:
        if memory.uid in never:
            failures.append({"rule": "never_bring", "id": memory.uid})
        if memory.project and memory.project in check.never_projects:
            failures.append({"rule": "never_projects", "id": memory.uid, "project": memory.project})
        if check.never_level and rank(memory.sensitivity) >= rank(check.never_level):
            failures.append({"rule": "never_level", "id": memory.uid, "level": memory.sensitivity})
        for word in check.never_words:
            if fold(word) in texts[memory.uid]:
                failures.append({"rule": "never_words", "id": memory.uid, "word": word})
    return failures


def _missing(
    uid: str, ranked: list[Candidate], chosen: Selection, request: InjectionRequest
) -> dict[str, Any]:
    """Return why a memory did not come: its place among the candidates, its score, and the reason."""
    failure: dict[str, Any] = {"rule": "must_bring", "id": uid}
    for place, one in enumerate(ranked, 1):
        if one.memory.uid == uid:
            reasons = {withheld.memory.uid: withheld.reason for withheld in chosen.withheld}
            failure |= {"place": place, "score": one.score, "floor": request.floor, "limit": request.count}
            failure["reason"] = reasons.get(uid, "")
    return failure


def describe_failures(failures: Iterable[Mapping[str, Any]], viewer: Clearance) -> list[str]:
    """Return a sentence for each failure, with the titles of memories that the viewer may see."""
    listed = list(failures)
    uids = {one["id"] for one in listed if "id" in one}
    rows = Memory.objects.visible_to(viewer).filter(uid__in=uids)
    names = {
        uid: f"“{policy.format_display_name(title, uid, level)}”"
        for uid, title, level in rows.values_list("uid", "title", "sensitivity")
    }
    return [_describe(one, names.get(one.get("id", ""), "a memory that no longer exists")) for one in listed]


def _describe(one: Mapping[str, Any], name: str) -> str:
    rule = one["rule"]
    if rule == OWNER_LEFT:
        return "Its owner can no longer see this project or level. Save the check again to become its owner."
    if rule == PROJECT_MODE:
        mode = "off" if one["mode"] == ProjectMode.OFF else "only observed"
        return f"The project is {mode}, so agents receive no memories in it."
    if rule == "must_words":
        return f"Expected a memory with “{one['word']}”; no returned memory contains it."
    if rule == "must_bring":
        return f"Expected {name}; {_describe_missing(one)}."
    because = {
        "never_bring": "it must never be returned",
        "never_projects": f"no memory of the project {one.get('project')} may be returned",
        "never_level": f"no {one.get('level')} memory may be returned",
        "never_words": f"no memory with “{one.get('word')}” may be returned",
    }[rule]
    return f"{name[:1].upper()}{name[1:]} was returned, but {because}."


def _describe_missing(one: Mapping[str, Any]) -> str:
    if "place" not in one:
        return "it does not match the prompt well enough, or cannot be seen in this project"
    score = f"score {one['score']:.2f}"
    if one["score"] < one["floor"]:
        return f"its {score} is below the minimum of {one['floor']:.2f}"
    where = f"its rank is {one['place']} with {score}"
    if one["place"] > one["limit"]:
        return f"{where}, below the limit of {one['limit']}"
    return f"{where}, {one['reason'] or 'but others were preferred'}"
