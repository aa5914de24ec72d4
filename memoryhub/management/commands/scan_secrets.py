"""``manage.py scan_secrets``: report, quarantine, release or redact credentials in stored texts."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import CommandError

from memoryhub.core.text import format_count
from memoryhub.management import StoreCommand, operator, shown
from memoryhub.memories import stored_secrets
from memoryhub.memories.stored_secrets import NOT_CHECKED, CleanupResult, SecretFinding


class Command(StoreCommand):
    help = (
        "Find credentials in memories, revisions, facts, sessions, events, the injection log, "
        "extractions and runs. Prints kind, id, field and line, never the value. Without an option, nothing "
        "is changed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        action = parser.add_mutually_exclusive_group()
        action.add_argument(
            "--quarantine",
            action="store_true",
            help="hide the rows from everyone except people who can repair unknown levels",
        )
        action.add_argument(
            "--redact",
            action="store_true",
            help="permanently replace the credentials by [secret removed], also in indexes and vectors",
        )
        action.add_argument(
            "--release",
            nargs="+",
            metavar="ID",
            default=[],
            help="restore the level of quarantined rows with these ids, which are not credentials",
        )
        parser.add_argument(
            "--id", action="append", default=[], help="change only the row with this id (repeatable)"
        )
        parser.add_argument("--json", action="store_true", help="one JSON object for each finding")
        parser.add_argument("--fail", action="store_true", help="exit with code 1 if credentials remain")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["release"]:
            self._release(options["release"])
            return
        findings = [
            one for one in stored_secrets.scan_store() if not options["id"] or one.shown in options["id"]
        ]
        for finding in findings:
            self.stdout.write(stored_secrets.to_json(finding) if options["json"] else _line(finding))
        unchecked = [one for one in findings if one.kind == NOT_CHECKED]
        findings = [one for one in findings if one.kind != NOT_CHECKED]
        actor = operator()
        cleaned: CleanupResult | None = None
        if options["quarantine"]:
            cleaned = stored_secrets.quarantine_findings(findings, actor)
        elif options["redact"]:
            cleaned = stored_secrets.redact_findings(findings, actor)
        if not options["json"]:
            if unchecked:
                self.stdout.write(
                    f"{format_count(len(unchecked), 'text')} not checked. Look at them by hand."
                )
            self._print(findings, cleaned, "Quarantined" if options["quarantine"] else "Redacted")
        remaining = cleaned.left if cleaned else [one for one in findings if not one.quarantined]
        if options["fail"] and remaining:
            raise CommandError(f"{format_count(len(remaining), 'credential')} in the store")
        if options["fail"] and unchecked:
            raise CommandError(f"{format_count(len(unchecked), 'text')} in the store could not be checked")

    def _release(self, uids: list[str]) -> None:
        released = stored_secrets.release_rows(uids, operator())
        for uid, counts in released.items():
            for name, count in counts.items():
                self.stdout.write(f"Released {format_count(count, f'{name} row')} of {shown(uid)}")
        if idle := [shown(uid) for uid, counts in released.items() if not counts]:
            raise CommandError(f"nothing is quarantined under {', '.join(idle)}; scan_secrets prints the ids")

    def _print(self, findings: list[SecretFinding], cleaned: CleanupResult | None, verb: str) -> None:
        if not findings:
            self.stdout.write("No credential found.")
            return
        kinds = Counter(finding.kind for finding in findings)
        self.stdout.write(f"{format_count(len(findings), 'credential')}:")
        for kind, count in kinds.most_common():
            self.stdout.write(f"  {count:>6,}  {kind}")
        if cleaned is None:
            self.stdout.write("Nothing was changed: --quarantine hides them, --redact removes them.")
            self.stdout.write("Someone may have read these credentials: replace them.")
            return
        for name, count in cleaned.changed.items():
            self.stdout.write(f"{verb} {format_count(count, f'{name} row')}")
        for finding in cleaned.left:
            if finding.place.sealed:
                why = "is part of the journal's chain and cannot be changed"
            elif verb == "Redacted":
                why = "contains another text that is too costly to check; change it by hand"
            else:
                why = "has no level to hide it by; --redact removes it"
            self.stdout.write(f"Left: {_line(finding)}: a {finding.place.name} {why}")


def _line(finding: SecretFinding) -> str:
    line = f"{finding.place.name} {shown(finding.shown)}  {finding.field} line {finding.line}: {finding.kind}"
    return f"{line} (quarantined)" if finding.quarantined else line
