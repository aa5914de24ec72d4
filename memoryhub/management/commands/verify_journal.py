"""``verify_journal``: check that the journal and its mirror are intact."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.text import format_count
from memoryhub.management import StoreCommand, operator


class Command(StoreCommand):
    help = (
        "Check the journal: its chain of hashes, row by row, and its mirror, line by line. "
        "Exit code 1 if something was changed, removed or inserted; 0 if the mirror is only behind."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
        parser.add_argument(
            "--acknowledge-loss",
            action="store_true",
            help="stop reporting journal rows that are lost; this is journaled",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        acknowledged = None
        if options["acknowledge_loss"]:
            with write_transaction():
                acknowledged = journal.acknowledge_loss(operator())
        chain, mirror, loss = journal.verify_chain(), journal.compare_mirror(), journal.pending()
        ok = chain.ok and mirror.ok and loss is None
        if options["json"]:
            shape = {**asdict(chain), "ok": ok, "chain_ok": chain.ok, "mirror_ok": mirror.ok}
            shape["mirror"] = {**asdict(mirror), "path": str(mirror.path), "findings": mirror.findings()}
            shape["loss"] = asdict(loss) if loss else None
            shape["acknowledged"] = asdict(acknowledged) if acknowledged else None
            self.stdout.write(json.dumps(shape))
        else:
            self._report_loss(loss, acknowledged, wanted=options["acknowledge_loss"])
            self._report(chain, mirror)
        if not ok:
            raise CommandError("the journal is not intact")

    def _report_loss(
        self, loss: journal.Loss | None, acknowledged: journal.Loss | None, *, wanted: bool
    ) -> None:
        if acknowledged:
            self.stdout.write(self.style.WARNING(f"Acknowledged: {acknowledged.summary()}"))
        elif wanted:
            self.stdout.write("Nothing to acknowledge: no rows are recorded as lost")
        if loss:
            self.stdout.write(self.style.ERROR(f"Loss: {loss.summary()}"))
            self.stdout.write("Loss: find out why, then run verify_journal --acknowledge-loss")

    def _report(self, chain: journal.Verification, mirror: journal.MirrorReport) -> None:
        rows = format_count(chain.rows, "row")
        if chain.ok:
            self.stdout.write(self.style.SUCCESS(f"Chain: intact, {rows}"))
        else:
            self.stdout.write(self.style.ERROR(f"Chain: broken at row {chain.first_bad_seq}, of {rows}"))
        self.stdout.write(f"Mirror: {mirror.path}")
        if mirror.in_step:
            self.stdout.write(self.style.SUCCESS(f"Mirror: up to date, {format_count(mirror.lines, 'line')}"))
        elif not mirror.exists:
            self.stdout.write(self.style.WARNING("Mirror: missing"))
        style = self.style.WARNING if mirror.ok else self.style.ERROR
        for finding in mirror.findings() if mirror.exists else []:
            self.stdout.write(style(f"Mirror: {finding}"))
        if mirror.ok and not mirror.in_step:
            self.stdout.write("Mirror: the next change repairs it, or doctor --fix")
