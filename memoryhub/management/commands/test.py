"""``manage.py test``: runs pytest with whatever arguments follow (``manage.py`` installs what it needs)."""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand

FAST = "--fast"
SLOW_MARKERS = "not browser and not served and not slow"
# Its plugin is slow to load and its only module is slow to collect.
WITHOUT_SCHEMATHESIS = ["-p", "no:schemathesis", "--ignore", "tests/api/test_schema.py"]
MAX_PROCESSES = 4  # each starts its own browser


class Command(BaseCommand):
    help = "Run the tests with pytest and its arguments; --fast leaves out browsers and served processes."
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Pass the arguments to pytest instead of parsing them: ``-k`` and ``-n`` are options of pytest."""
        import pytest

        os.chdir(settings.BASE_DIR)
        # Else each process compiles all test modules again, which takes half of the collection.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        # The whole suite uses all processors; a few tests are faster in one process. Neighbours stay
        # together, because they share servers and stores.
        processes = str(min(os.cpu_count() or 1, MAX_PROCESSES))
        in_parallel = ["-n", processes, "--dist", "worksteal"]
        arguments = [argument for argument in argv[2:] if argument != FAST]
        if FAST in argv:
            arguments += [*in_parallel, *WITHOUT_SCHEMATHESIS, "-m", SLOW_MARKERS]
        sys.exit(pytest.main(arguments or in_parallel))

    def handle(self, *args: object, **options: object) -> None:
        """Run all tests (for ``call_command``)."""
        self.run_from_argv(["manage.py", "test"])
