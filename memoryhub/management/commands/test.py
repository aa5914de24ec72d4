"""``manage.py test``: runs pytest with whatever arguments follow (``manage.py`` installs what it needs)."""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand

MOST_PROCESSES = 4  # each drives a browser of its own


class Command(BaseCommand):
    help = "Run the tests with pytest; every argument goes to it: manage.py test tests/web -k trash"
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Pytest reads the arguments, not Django: ``-k``, ``-n`` and the like are pytest's own."""
        import pytest

        os.chdir(settings.BASE_DIR)
        # All of the tests share the processors; a few are quicker in one process. Neighbours stay together,
        # for they share servers and stores, until a process that is done takes over from another.
        processes = str(min(os.cpu_count() or 1, MOST_PROCESSES))
        sys.exit(pytest.main(argv[2:] or ["-n", processes, "--dist", "worksteal"]))

    def handle(self, *args: object, **options: object) -> None:
        """For ``call_command``: run all the tests."""
        self.run_from_argv(["manage.py", "test"])
