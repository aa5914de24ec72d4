"""Run memory checks: compare what a prompt brings with what its check expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub.access import policy
from memoryhub.access.policy import LEVELS, Clearance, level_rank
from memoryhub.accounts.clearance import user_clearance
from memoryhub.core.database import write_transaction
from memoryhub.core.text import fold
from memoryhub.injection.candidates import Candidate
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.selection import Selection
from memoryhub.injection.services import candidates_for_prompt, select_for_new_session
from memoryhub.models import CheckedMemory, Memory, MemoryCheck

OWNER_LEFT = "owner_left"


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
    """Return the expectations that do not hold, without texts of memories."""
    request = InjectionRequest(check.prompt, project=check.project)
    found = candidates_for_prompt(request, clearance, now)
    chosen = select_for_new_session(found, request, now)
    shown = [one.candidate.memory for one in chosen.shown]
    texts = {one.uid: fold(f"{one.title} {one.content}") for one in shown}
    failures = [
        _missing(uid, found.ranked, chosen, request)
        for uid in check.uids(CheckedMemory.MUST)
        if uid not in texts
    ]
    for word in check.must_words:
        if not any(fold(word) in text for text in texts.values()):
            failures.append({"rule": "must_words", "word": word})
    never = set(check.uids(CheckedMemory.NEVER))
    for memory in shown:
        if memory.uid in never:
            failures.append({"rule": "never_bring", "id": memory.uid})
        if memory.project and memory.project in check.never_projects:
            failures.append({"rule": "never_projects", "id": memory.uid, "project": memory.project})
        if check.never_level and level_rank(memory.sensitivity) >= level_rank(check.never_level):
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
