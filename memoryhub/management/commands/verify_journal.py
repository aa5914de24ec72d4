"""``verify_journal``: has anyone changed the past?"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memoryhub import journal, mirror_audit
from memoryhub.checks import INSTALLATION
from memoryhub.management.operator import plural


class Command(BaseCommand):
    help = (
        "Check the journal: its chain of hashes, row by row, and its mirror, line by line. "
        "Exit code 1 when something was changed, removed or inserted; 0 when at most the mirror is behind."
    )
    requires_system_checks = [INSTALLATION]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        chain, mirror = journal.verify_chain(), mirror_audit.audit()
        ok = chain.ok and mirror.ok
        if options["json"]:
            shape = {**asdict(chain), "ok": ok, "chain_ok": chain.ok, "mirror_ok": mirror.ok}
            shape["mirror"] = {**asdict(mirror), "path": str(mirror.path), "findings": mirror.findings()}
            self.stdout.write(json.dumps(shape))
        else:
            self._tell(chain, mirror)
        if not ok:
            raise CommandError("the journal is not as it was written")

    def _tell(self, chain: journal.Verification, mirror: mirror_audit.Audit) -> None:
        rows = plural(chain.rows, "row")
        if chain.ok:
            self.stdout.write(self.style.SUCCESS(f"Chain: whole, {rows}"))
        else:
            self.stdout.write(self.style.ERROR(f"Chain: broken at row {chain.first_bad_seq}, of {rows}"))
        self.stdout.write(f"Mirror: {mirror.path}")
        if mirror.in_step:
            self.stdout.write(self.style.SUCCESS(f"Mirror: in step, {plural(mirror.lines, 'line')}"))
        elif not mirror.exists:
            self.stdout.write(self.style.WARNING("Mirror: not there"))
        style = self.style.WARNING if mirror.ok else self.style.ERROR
        for finding in mirror.findings() if mirror.exists else []:
            self.stdout.write(style(f"Mirror: {finding}"))
        if mirror.ok and not mirror.in_step:
            self.stdout.write("Mirror: the next change mends it, or doctor --fix")
