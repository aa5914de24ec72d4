"""The summary of pip-audit in the CI."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tools.audit_requirements import NOT_CHECKED, summarise_report

SOUND = {"name": "django", "version": "5.2.8", "vulns": []}
UNKNOWN = {"name": "pydantic", "skip_reason": "Dependency not found on PyPI and could not be audited"}
HURT = {"name": "httpx2", "version": "2.1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.2"]}]}


def summary(*packages: dict[str, Any]) -> list[str]:
    return summarise_report(json.dumps({"dependencies": packages, "fixes": []}))


def test_vulnerability_is_named_with_its_fix() -> None:
    assert summary(SOUND, HURT) == ["VULNERABLE: httpx2 2.1: PYSEC-1, fixed in 2.2"]


def test_requirements_without_a_vulnerability_are_counted() -> None:
    assert summary(SOUND) == ["1 packages, no known vulnerability"]


@pytest.mark.parametrize("report", ["", "no JSON", "[]", json.dumps({"dependencies": [UNKNOWN]})])
def test_missing_database_is_not_taken_for_a_clean_result(report: str) -> None:
    assert summarise_report(report) == [NOT_CHECKED]


def test_packages_that_were_not_checked_are_named() -> None:
    assert summary(SOUND, UNKNOWN) == ["NOT CHECKED: pydantic"]
