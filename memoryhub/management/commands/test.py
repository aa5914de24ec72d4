"""``manage.py test``: runs pytest with whatever arguments follow (``manage.py`` installs what it needs)."""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand

# The marker expression of each option.
SELECTIONS = {"--fast": "not browser and not served and not slow", "--served": "served"}
DEFAULT_SELECTION = "not served"
# Its plugin is slow to load and its only module is slow to collect.
WITHOUT_SCHEMATHESIS = ["-p", "no:schemathesis", "--ignore", "tests/api/test_schema.py"]
MAX_PROCESSES = 4  # each starts its own browser


class Command(BaseCommand):
    help = "Run the tests with pytest: --served those of served processes, --fast the quick ones."
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Pass the arguments to pytest instead of parsing them: ``-k`` and ``-n`` are options of pytest."""
        import pytest

        os.chdir(settings.BASE_DIR)
        # Else each process compiles all test modules again, which takes half of the collection.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.exit(pytest.main(_pytest_arguments(argv[2:])))

    def handle(self, *args: object, **options: object) -> None:
        """Run all tests (for ``call_command``)."""
        self.run_from_argv(["manage.py", "test"])


def _pytest_arguments(given: list[str]) -> list[str]:
    """Return the arguments for pytest.

    A selection uses all processors, and one process more, because browser tests wait half of their time. A
    few tests are faster in one process. Neighbours stay together, because they share servers and stores.
    """
    options = [argument for argument in given if argument in SELECTIONS]
    arguments = [argument for argument in given if argument not in SELECTIONS]
    if arguments and not options:
        return arguments
    if "--fast" in options:
        arguments += WITHOUT_SCHEMATHESIS
    processes = str(min((os.cpu_count() or 1) + 1, MAX_PROCESSES))
    selection = SELECTIONS[options[-1]] if options else DEFAULT_SELECTION
    return [*arguments, "-n", processes, "--dist", "worksteal", "-m", selection]
