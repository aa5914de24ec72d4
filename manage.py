#!/usr/bin/env python3
"""Run a command. On a new machine, install the requirements first (memoryhub/ops/bootstrap.py)."""

# An old Python must be able to parse this file up to the version check.
import sys

if sys.version_info < (3, 11):  # noqa: UP036
    found = "{0}.{1}".format(*sys.version_info)  # noqa: UP030
    sys.exit(
        "memoryhub needs Python 3.11 or newer, and this is Python " + found + ".\n"
        "Install a newer one and use it: python3.11 " + " ".join(sys.argv)
    )
if sys.platform == "win32":
    sys.exit("memoryhub runs on Linux and macOS; on Windows start it inside WSL.")

if __name__ == "__main__":
    from memoryhub.__main__ import main

    main(sys.argv)
