#!/usr/bin/env python3
"""Runs the hub's commands; on a bare machine makes its own environment first (memoryhub/ops/bootstrap.py)."""

# Nothing down to the check of the version may be newer than what an old Python can read.
import sys

if sys.version_info < (3, 11):  # noqa: UP036
    found = "{0}.{1}".format(*sys.version_info)  # noqa: UP030
    sys.exit(
        "memoryhub needs Python 3.11 or newer, and this is Python " + found + ".\n"
        "Install a newer one and name it: python3.11 " + " ".join(sys.argv)
    )
if sys.platform == "win32":
    sys.exit("memoryhub runs on Linux and macOS; on Windows start it inside WSL.")

if __name__ == "__main__":
    from memoryhub.ops import bootstrap

    bootstrap.main(sys.argv)
