"""Checks, findings, and going through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from django.core.checks import CheckMessage
from django.db import DatabaseError

RESTORE = "Put a backup back: manage.py restore_backup FILE."
_BUSY = "Something else keeps the store busy; run doctor again."


def is_busy(error: DatabaseError) -> bool:
    return any(word in str(error) for word in ("locked", "busy"))


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class Finding:
    """What a check saw, on a line, and on another how to mend it."""

    status: Status
    text: str
    mend: str = ""


def ok(text: str) -> Finding:
    return Finding(Status.OK, text)


def warn(text: str, mend: str) -> Finding:
    return Finding(Status.WARN, text, mend)


def fail(text: str, mend: str) -> Finding:
    return Finding(Status.FAIL, text, mend)


def of_messages(messages: Iterable[CheckMessage]) -> Iterator[Finding]:
    """The findings of a system check."""
    for message in messages:
        if message.level >= 30 and not message.is_silenced():  # from WARNING on
            status = Status.FAIL if message.is_serious() else Status.WARN
            yield Finding(status, str(message.msg), str(message.hint or ""))


Run = Callable[[], Iterable[Finding]]
Fix = Callable[[], Iterable[str]]


@dataclass(frozen=True)
class Check:
    """``needs`` names the check that must not have failed; ``slow`` ones read the whole store.

    ``fix`` mends what is safe to mend and says what it did.
    """

    name: str
    run: Run
    needs: str = ""
    slow: bool = False
    fix: Fix | None = None

    def findings(self) -> list[Finding]:
        """What it sees now. An unreadable file or store is a finding too."""
        try:
            return list(self.run())
        except DatabaseError as error:
            return [fail(f"the store cannot be read: {error}", _BUSY if is_busy(error) else RESTORE)]
        except OSError as error:
            return [
                fail(f"{error.filename or 'the system'}: {error.strerror or error}", "Mend the access to it.")
            ]


def check(
    name: str, *, needs: str = "", slow: bool = False, fix: Fix | None = None
) -> Callable[[Run], Check]:
    """Make a check of a function."""
    return lambda run: Check(name, run, needs, slow, fix)


@dataclass(frozen=True)
class Report:
    """A check's findings, and what was done to mend what it found."""

    name: str
    findings: list[Finding]
    fixed: list[str]

    @property
    def status(self) -> Status:
        """The worst."""
        worst = (Status.FAIL, Status.WARN, Status.SKIP, Status.OK)
        return next((s for s in worst if any(f.status is s for f in self.findings)), Status.OK)


def examine(checks: Iterable[Check], *, quick: bool = False, fix: bool = False) -> Iterator[Report]:
    """Go through the checks in order. ``quick`` leaves out those that read the whole store."""
    failed: set[str] = set()
    for one in checks:
        if one.needs in failed:
            failed.add(one.name)
            yield Report(one.name, [Finding(Status.SKIP, f"not looked at, because of: {one.needs}")], [])
            continue
        if one.slow and quick:
            yield Report(one.name, [Finding(Status.SKIP, "not looked at (--quick)")], [])
            continue
        report = Report(one.name, one.findings(), [])
        if fix and one.fix and report.status in (Status.WARN, Status.FAIL):
            done = list(one.fix())
            report = Report(one.name, one.findings(), done)
        if report.status is Status.FAIL:
            failed.add(one.name)
        yield report
