"""``manage.py doctor``: check this installation and print how to fix problems."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memoryhub.core.text import format_count
from memoryhub.management import shown
from memoryhub.ops.doctor import Check, Report, Status, content, examine, installation, store

CHECKS: tuple[Check, ...] = (
    installation.versions,
    installation.configuration,
    installation.home,
    installation.modes,
    installation.owner,
    installation.temporary_files,
    installation.spool,
    installation.file_system,
    installation.disk_space,
    installation.secret_key,
    content.provider,
    store.database,
    store.write_ahead_log,
    store.writing,
    store.integrity,
    store.migrations,
    store.present,
    store.indexes,
    store.triggers,
    store.text_index,
    store.erased_memories,
    content.vectors,
    store.journal_chain,
    store.lost_rows,
    store.journal_mirror,
    content.levels,
    content.cap,
    content.ignored_files,
    content.expiry,
    content.clock,
    content.administrator,
    content.tokens,
    content.second_factors,
    content.provider_links,
    content.server_processes,
    content.maintenance_runs,
    content.daily_maintenance,
    installation.hosts,
    installation.email,
    installation.static_files,
    installation.system_checks,
)


class Command(BaseCommand):
    help = (
        "Check this installation, and print how to fix problems. "
        "Exit code 1 if a check failed, 0 if there are only warnings."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--fix",
            action="store_true",
            help="fix what is safe to fix: file modes, indexes, triggers and the end of the mirror; remove"
            " temporary files and the bytes of erased memories",
        )
        parser.add_argument("--quick", action="store_true", help="skip checks that read the whole store")
        parser.add_argument("--json", action="store_true", help="print the findings as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        reports = []
        for report in examine(CHECKS, quick=options["quick"], fix=options["fix"]):
            reports.append(report)
            if not options["json"]:
                self._print(report)
        tally = Counter(finding.status for report in reports for finding in report.findings)
        if options["json"]:
            shape = {
                "ok": not tally[Status.FAIL],
                "checks": [{**asdict(r), "findings": _to_json(r), "status": r.status} for r in reports],
            }
            self.stdout.write(json.dumps(shape, ensure_ascii=False, indent=2))
        if tally[Status.FAIL]:
            failures = format_count(tally[Status.FAIL], "failure")
            raise CommandError(f"{failures}, {format_count(tally[Status.WARN], 'warning')}")
        if not options["json"]:
            warnings = format_count(tally[Status.WARN], "warning")
            self.stdout.write(f"No failure, {warnings}." if tally[Status.WARN] else "No problems found.")

    def _print(self, report: Report) -> None:
        styles: dict[Status, Callable[[str], str]] = {
            Status.OK: self.style.SUCCESS,
            Status.WARN: self.style.WARNING,
            Status.FAIL: self.style.ERROR,
            Status.SKIP: str,
        }
        for done in report.fixed:
            self.stdout.write(f"FIXED {report.name}: {done}")
        for finding in report.findings:
            mark = styles[finding.status](f"{finding.status.upper():<5}")
            self.stdout.write(f"{mark} {report.name}: {shown(finding.text, 1000)}")
            if finding.hint:
                self.stdout.write(f"      → {finding.hint}")


def _to_json(report: Report) -> list[dict[str, str]]:
    """Serialize findings. ``mend`` repeats ``hint`` under its former name."""
    return [{**asdict(finding), "mend": finding.hint} for finding in report.findings]
