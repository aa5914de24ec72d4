"""Run a developer tool: ``python -m tools NAME [ARGUMENTS]``. The installed package does not contain them."""

from __future__ import annotations

import os
import pkgutil
import sys
from importlib import import_module

import django

from tools import commands
from tools.screenshots import temporary_store

NAMES = sorted(module.name for module in pkgutil.iter_modules(commands.__path__))


def main(argv: list[str]) -> None:
    """Run the named tool, or list the tools."""
    if len(argv) < 2 or argv[1] not in NAMES:
        sys.exit(f"usage: python -m tools NAME\nNAME is one of: {', '.join(NAMES)}")
    if argv[1] in ("screenshots", "evaluate_freshness"):  # they fill a temporary store
        temporary_store.enter(os.environ)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    django.setup()
    import_module(f"tools.commands.{argv[1]}").Command().run_from_argv(["tools", *argv[1:]])


if __name__ == "__main__":
    main(sys.argv)
