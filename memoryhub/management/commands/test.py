"""``manage.py test``: runs pytest with whatever arguments follow (``manage.py`` installs what it needs)."""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand

MAX_PROCESSES = 4  # each starts its own browser


class Command(BaseCommand):
    help = "Run the tests with pytest and its arguments: manage.py test tests/web -k trash"
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Pass the arguments to pytest instead of parsing them: ``-k`` and ``-n`` are options of pytest."""
        import pytest

        os.chdir(settings.BASE_DIR)
        # The whole suite uses all processors; a few tests are faster in one process. Neighbours stay
        # together, because they share servers and stores.
        processes = str(min(os.cpu_count() or 1, MAX_PROCESSES))
        sys.exit(pytest.main(argv[2:] or ["-n", processes, "--dist", "worksteal"]))

    def handle(self, *args: object, **options: object) -> None:
        """Run all tests (for ``call_command``)."""
        self.run_from_argv(["manage.py", "test"])
