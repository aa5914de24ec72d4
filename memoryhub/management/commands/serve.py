"""``manage.py serve``: the production server."""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from memoryhub.core.network import is_loopback
from memoryhub.management import StoreCommand, require_migrated
from memoryhub.ops import serving

logger = logging.getLogger(__name__)


class Command(StoreCommand):
    help = "Serve the hub with granian. Migrate first: manage.py migrate"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
        parser.add_argument(
            "--workers",
            type=int,
            default=serving.WORKERS,
            help=f"processes (default: one for each processor, at most 4; here {serving.WORKERS})",
        )
        parser.add_argument(
            "--threads",
            type=int,
            default=serving.THREADS,
            help=f"threads of each process (default: {serving.THREADS})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("workers", "threads"):
            if options[name] < 1:
                raise CommandError(f"--{name} must be at least 1, not {options[name]}")
        try:
            serving.require_limits()
            serving.require_free(options["host"], options["port"], serving.SECONDS_TO_FREE_PORT)
        except serving.CannotServe as error:
            raise CommandError(str(error)) from None
        require_migrated()
        try:
            for sentence in serving.prepare_store():
                self._report(sentence)
        except serving.CannotServe as error:
            raise CommandError(str(error)) from None
        if not is_loopback(options["host"]) and set(settings.ALLOWED_HOSTS) <= set(settings.LOOPBACK_HOSTS):
            self._report(
                "Requests to other names than localhost will be refused: set MEMORYHUB_ALLOWED_HOSTS to the"
                " names under which the hub is reached."
            )
        serving.serve(
            options["host"], options["port"], workers=options["workers"], threads=options["threads"]
        )

    def _report(self, sentence: str) -> None:
        """Write to the log if each of its lines must be JSON, otherwise to the terminal."""
        if settings.LOG_FORMAT == "json":
            logger.warning(sentence)
        else:
            self.stderr.write(sentence)
