"""``/checks``: what prompts must bring, and must never bring."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel

from memoryhub import checks
from memoryhub.access.policy import Clearance
from memoryhub.api.schemas import documented
from memoryhub.checks import CheckDraft
from memoryhub.core.dates import format_iso
from memoryhub.http.authentication import READ, WRITE, AccessParams, ApiRequest
from memoryhub.http.problems import json_response
from memoryhub.memories.filters import TextFilter
from memoryhub.models import MemoryCheck

router = Router(tags=["Memory checks"])
MAX_LISTED = 1000


class CheckQuery(AccessParams):
    project: TextFilter = None


class CheckShape(CheckDraft):
    """``passed`` and ``failures`` of the last run; null without one, or if it saw more than the token may."""

    id: str
    owner: str
    passed: bool | None
    failures: list[str] | None
    checked_at: str | None


class CheckList(BaseModel):
    items: list[CheckShape]


class CheckResult(BaseModel):
    """The result of a run that saw what both the owner of the check and this token may see."""

    passed: bool
    failures: list[str]


class DeletedCheck(BaseModel):
    deleted: bool


@router.get("/checks", summary="List memory checks", auth=READ, response=documented(CheckList))
def list_checks(request: ApiRequest, params: Query[CheckQuery]) -> HttpResponse:
    """Returns the memory checks, newest first, with the result of the last run."""
    clearance = params.clearance(request.auth)
    found = checks.visible_checks(clearance)
    if params.project is not None:
        found = found.filter(project=params.project)
    return json_response({"items": [_serialize(one, clearance) for one in found[:MAX_LISTED]]})


@router.post(
    "/checks",
    summary="Create a memory check",
    auth=WRITE,
    response=documented(CheckShape, status=201, errors=(403, 409)),
)
def create_check(request: ApiRequest, draft: CheckDraft) -> HttpResponse:
    """Stores a check. It runs daily and after maintenance, with the clearance of the owner of the token."""
    check = checks.create_check(draft, request.auth.actor)
    return json_response(_serialize(check, request.auth.actor.clearance), status=201)


@router.get(
    "/checks/{check_id}",
    summary="Get a memory check",
    auth=READ,
    response=documented(CheckShape, errors=(404,)),
)
def get_check(request: ApiRequest, check_id: str, params: Query[AccessParams]) -> HttpResponse:
    """Returns a check with the result of its last run."""
    clearance = params.clearance(request.auth)
    return json_response(_serialize(checks.get_check(check_id, clearance), clearance))


@router.put(
    "/checks/{check_id}",
    summary="Replace a memory check",
    auth=WRITE,
    response=documented(CheckShape, errors=(403, 404, 409)),
)
def replace_check(request: ApiRequest, check_id: str, draft: CheckDraft) -> HttpResponse:
    """Replaces a check. The owner of the token becomes its owner."""
    check = checks.update_check(check_id, draft, request.auth.actor)
    return json_response(_serialize(check, request.auth.actor.clearance))


@router.delete(
    "/checks/{check_id}",
    summary="Delete a memory check",
    auth=WRITE,
    response=documented(DeletedCheck, errors=(404,)),
)
def delete_check(request: ApiRequest, check_id: str) -> HttpResponse:
    """Deletes a check."""
    checks.delete_check(check_id, request.auth.actor)
    return json_response({"deleted": True})


@router.post(
    "/checks/{check_id}/run",
    summary="Run a memory check",
    auth=READ,
    response=documented(CheckResult, errors=(404,)),
)
def run_check(request: ApiRequest, check_id: str, params: Query[AccessParams]) -> HttpResponse:
    """Runs a check now. It is not logged as an injection and counts as no access."""
    clearance = params.clearance(request.auth)
    failures = checks.run_check(checks.get_check(check_id, clearance), clearance)
    reasons = checks.describe_failures(failures, clearance)
    return json_response({"passed": not failures, "failures": reasons})


def _serialize(check: MemoryCheck, clearance: Clearance) -> dict[str, Any]:
    is_open = check.passed is not None and checks.may_see_result(check, clearance)
    failures = check.result.get("failures", []) if is_open else None
    draft = checks.to_draft(check)
    draft["never_projects"] = [one for one in draft["never_projects"] if clearance.includes_project(one)]
    return {
        "id": check.uid,
        **draft,
        "owner": check.owner,
        "passed": check.passed if is_open else None,
        "failures": None if failures is None else checks.describe_failures(failures, clearance),
        "checked_at": format_iso(check.checked_at) if is_open and check.checked_at else None,
    }
