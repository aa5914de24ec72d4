#!/usr/bin/env python3
"""Runs the hub's commands. Makes its own virtual environment first where Django is missing (see bootstrap)."""

import os
import sys

from memoryhub import bootstrap


def main() -> None:
    bootstrap.ensure_environment(sys.argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"memoryhub cannot start:\n{error}")


if __name__ == "__main__":
    main()
