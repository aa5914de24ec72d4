"""``doctor``: find defects of an installation and say how to fix them.

Each check is a small function that yields findings; a check whose findings are safe to repair has a fix.
A check can depend on another: without a store, its content cannot be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from django.core.checks import CheckMessage
from django.db import DatabaseError

from memoryhub.core.database_errors import is_database_busy
from memoryhub.ops.backup import BackupError

RESTORE = "Restore a backup: manage.py restore_backup FILE."
REBUILD = (
    "doctor --fix rebuilds indexes. If rows are lost, restore a backup (manage.py restore_backup FILE), or"
    " copy what is left (manage.py salvage FILE)."
)
_BUSY = "Another process keeps the store busy; run doctor again."


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class Finding:
    """A result of a check, and a hint how to fix it. Each is one line."""

    status: Status
    text: str
    hint: str = ""


def ok(text: str) -> Finding:
    return Finding(Status.OK, text)


def warn(text: str, hint: str) -> Finding:
    return Finding(Status.WARN, text, hint)


def fail(text: str, hint: str) -> Finding:
    return Finding(Status.FAIL, text, hint)


def to_findings(messages: Iterable[CheckMessage]) -> Iterator[Finding]:
    """Convert the messages of a system check to findings."""
    for message in messages:
        if message.level >= 30 and not message.is_silenced():  # from WARNING on
            status = Status.FAIL if message.is_serious() else Status.WARN
            yield Finding(status, str(message.msg), str(message.hint or ""))


Run = Callable[[], Iterable[Finding]]
Fix = Callable[[], Iterable[str]]


@dataclass(frozen=True)
class Check:
    """A named check. It is skipped if the check ``needs`` failed; ``slow`` checks read the whole store.

    ``fix`` repairs what is safe to repair and describes what it did. ``fine``: the text of the finding if
    the check yields none.
    """

    name: str
    run: Run
    needs: str = ""
    slow: bool = False
    fix: Fix | None = None
    fine: str = ""

    def findings(self) -> list[Finding]:
        """Run the check. An unreadable file or store is a finding too."""
        try:
            return list(self.run()) or ([ok(self.fine)] if self.fine else [])
        except DatabaseError as error:
            return [fail(f"the store cannot be read: {error}", _BUSY if is_database_busy(error) else REBUILD)]
        except OSError as error:
            return [
                fail(f"{error.filename or 'the system'}: {error.strerror or error}", "Make it accessible.")
            ]


def check(
    name: str, *, needs: str = "", slow: bool = False, fix: Fix | None = None, fine: str = ""
) -> Callable[[Run], Check]:
    """Turn a function into a check."""
    return lambda run: Check(name, run, needs, slow, fix, fine)


@dataclass(frozen=True)
class Report:
    """The findings of a check, and the fixes that were applied."""

    name: str
    findings: list[Finding]
    fixed: list[str]

    @property
    def status(self) -> Status:
        """Return the worst status of the findings."""
        worst = (Status.FAIL, Status.WARN, Status.SKIP, Status.OK)
        return next((s for s in worst if any(f.status is s for f in self.findings)), Status.OK)


def _fix(check: Check, fix: Fix) -> Report:
    """Apply a fix and check again. A fix that fails is a finding too."""
    done: list[str] = []
    failed: list[Finding] = []
    try:
        done += fix()
    except (DatabaseError, OSError, BackupError) as error:
        failed.append(fail(f"could not be fixed: {error}", "See the other findings."))
    return Report(check.name, [*check.findings(), *failed], done)


def examine(checks: Iterable[Check], *, quick: bool = False, fix: bool = False) -> Iterator[Report]:
    """Run the checks in order. ``quick`` leaves out those that read the whole store."""
    failed: set[str] = set()
    for check in checks:
        if check.needs in failed:
            failed.add(check.name)
            yield Report(check.name, [Finding(Status.SKIP, f"skipped because of: {check.needs}")], [])
            continue
        if check.slow and quick:
            yield Report(check.name, [Finding(Status.SKIP, "skipped (--quick)")], [])
            continue
        report = Report(check.name, check.findings(), [])
        if fix and check.fix and report.status in (Status.WARN, Status.FAIL):
            report = _fix(check, check.fix)
        if report.status is Status.FAIL:
            failed.add(check.name)
        yield report
