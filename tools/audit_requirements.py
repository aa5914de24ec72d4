"""Print what pip-audit found: ``python -m tools.audit_requirements REPORT``, a file of ``--format json``.

The exit code is always 0: a new advisory must be seen, and must not stop the work on something else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NOT_CHECKED = "NOT CHECKED: the advisory database cannot be reached"


def summarise_report(report: str) -> list[str]:
    """Return the lines to print. An empty report means that pip-audit could not run."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return [NOT_CHECKED]
    checked = [package for package in packages if "skip_reason" not in package]
    skipped = sorted(package["name"] for package in packages if "skip_reason" in package)
    if not checked:
        return [NOT_CHECKED]
    lines = [line for package in checked for line in _vulnerability_lines(package)]
    if skipped:
        lines.append(f"NOT CHECKED: {', '.join(skipped)}")
    return lines or [f"{len(checked)} packages, no known vulnerability"]


def _vulnerability_lines(package: dict[str, Any]) -> list[str]:
    return [
        f"VULNERABLE: {package['name']} {package['version']}: {one['id']}, "
        f"fixed in {', '.join(one.get('fix_versions') or ['no release'])}"
        for one in package.get("vulns", [])
    ]


if __name__ == "__main__":
    print("\n".join(summarise_report(Path(sys.argv[1]).read_text("utf-8"))))
