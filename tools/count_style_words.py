"""Count the words of ``style_words.txt`` in the package and its tests: ``python -m tools.count_style_words``.

Words in names count, too: ``test_it_is_told`` contains "told". Prints each file that contains some, then the
total. Exits with 1 when the total exceeds ``MAX_OCCURRENCES``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_OCCURRENCES = 60
FOLDERS = ("memoryhub", "tests")


def read_pattern() -> re.Pattern[str]:
    """Return one pattern for all words of the list, ignoring case."""
    lines = (ROOT / "tools" / "style_words.txt").read_text("utf-8").splitlines()
    words = [line for line in lines if line and not line.startswith("#")]
    return re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)


def count_words(pattern: re.Pattern[str]) -> dict[str, int]:
    """Return the number of occurrences in each Python file that has some."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = {str(path.relative_to(ROOT)): path.read_text("utf-8").replace("_", " ") for path in files}
    counts = {file: len(pattern.findall(text)) for file, text in texts.items()}
    return {file: count for file, count in counts.items() if count}


def main() -> int:
    """Print the counts and return the exit code."""
    counts = count_words(read_pattern())
    for file, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:5} {file}")
    total = sum(counts.values())
    print(f"{total:5} in all, at most {MAX_OCCURRENCES}")
    return 0 if total <= MAX_OCCURRENCES else 1


if __name__ == "__main__":
    sys.exit(main())
