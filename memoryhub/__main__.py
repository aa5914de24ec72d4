"""Run the command ``memoryhub`` as ``python -m memoryhub``."""

import sys

from memoryhub.client import command_line

if __name__ == "__main__":
    command_line.main(["memoryhub", *sys.argv[1:]])
