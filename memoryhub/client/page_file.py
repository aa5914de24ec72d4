"""``memoryhub project-page``: a project's page as a marked block of ``AGENTS.md`` or ``CLAUDE.md``.

The first line of the block has a digest of each line that was written. With it, the command finds the lines
that a person has changed since, and sends them to the hub as corrections before it writes the block again.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

from memoryhub.api.schemas import PageEntryShape, PageShape
from memoryhub.client.calls import ApiError, Levels, MemoryhubError, PageCorrection
from memoryhub.client.clients import Client
from memoryhub.client.config_files import backup_path, read_text, write_text
from memoryhub.client.environment import (
    add_json_option,
    confirm,
    make_safe,
    open_client,
    print_diff,
    print_json,
)
from memoryhub.core.text import collapse_whitespace, shorten

MAX_FILE_BYTES = 5_000_000
MIN_SIMILARITY = 0.4  # of a reworded line; less is a removed line and a new one
_ID_CHARS, _DIGEST_CHARS = 8, 6
_BEGIN = re.compile(
    r"(?:^|(?<=^\ufeff))<!-- memoryhub:begin(?P<values>(?:[^\r\n]*[^\r\n ])?) *-->[ \t]*\r?$", re.M
)
_END = re.compile(r"^<!-- memoryhub:end -->[ \t]*\r?$", re.M)
_MARK = re.compile(r"<!--\s*memoryhub:(?:begin|end)")
_VALUES = re.compile(r'(?: project="(?P<project>[^"]*)")?(?: lines="(?P<lines>[\w: -]*)")?')
_ITEM = re.compile(r"[-*+] +(?P<text>.*)")


class PageFileError(MemoryhubError):
    """The file cannot be used as it is."""


@dataclass(frozen=True)
class Block:
    """The block of a file. ``start`` and ``end``: its position. ``lines``: sections and texts in it.

    ``written``: a digest of each line as it was written, by the beginning of its id.
    """

    start: int
    end: int
    lines: list[tuple[str, str]]
    written: dict[str, str]


@dataclass
class Changes:
    """What a person changed in the block. ``problems``: changes that cannot be sent, one line each."""

    corrections: list[tuple[PageCorrection, str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def diff(self) -> Iterator[str]:
        """Yield the lines before and after."""
        for correction, before, after in self.corrections:
            note = " (left out of the page)" if correction["action"] == "leave_out" else ""
            if before:
                yield f"- {before}{note}"
            if after:
                yield f"+ {after}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", help="project")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="write the page into a block of this file, as AGENTS.md"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the changes without applying them")
    parser.add_argument("--yes", action="store_true", help="apply the changes without asking")
    parser.add_argument("--private", action="store_true", help="include private lines")
    parser.add_argument("--secret", action="store_true", help="include private and secret lines")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    levels: Levels = {}
    if options.private or options.secret:
        levels = {"allow_private": True, "allow_secret": options.secret}
    with open_client(options.server) as client:
        page = client.project_page(options.project, **levels)
        if options.write:
            return _write(client, options, page, levels)
    if options.json:
        return print_json(page)
    print(make_safe(page.markdown), end="")
    if not page.markdown:
        print("The page is empty: no decision, summary or pinned memory is stored yet.", file=sys.stderr)
    return 0


def _write(client: Client, options: argparse.Namespace, page: PageShape, levels: Levels) -> int:
    """Send what a person changed in the block to the hub, then write the block again."""
    path: Path = options.write
    before = _read(path)
    block = find_block(before, options.project, page)
    if block:
        changes = find_changes(block, page)
        for problem in changes.problems:
            print(f"{path}: {make_safe(problem)}", file=sys.stderr)
        if changes.problems:
            print(f"{path}: nothing was changed.", file=sys.stderr)
            return 1
        if changes.corrections:
            print(f"Changed in {path} since it was written:")
            print("\n".join(make_safe(line) for line in changes.diff()))
            if not options.dry_run:
                if not confirm(f"Send {len(changes.corrections)} corrections to the hub?", options.yes):
                    print(f"{path}: nothing was changed.")
                    return 1
                _send(client, options.project, changes, levels)
                page = client.project_page(options.project, **levels)
    return _replace_block(options, path, before, replace_block(before, block, page))


def _send(client: Client, project: str, changes: Changes, levels: Levels) -> None:
    """Send the corrections. The next run sends those after a refused one."""
    for number, (correction, before, after) in enumerate(changes.corrections):
        request: PageCorrection = {**correction, **levels}
        try:
            client.correct_project_page(project, **request)
        except ApiError as refusal:
            line, total = shorten(make_safe(after or before), 80), len(changes.corrections)
            raise PageFileError(f"“{line}”: {refusal}. {number} of {total} corrections were sent.") from None


def _replace_block(options: argparse.Namespace, path: Path, before: str, after: str) -> int:
    if after == before:
        print(f"{path} needs no change.")
        return 0
    print_diff(before, after, path, context=1)
    if options.dry_run:
        return 0
    if not confirm(f"Change {path}?", options.yes):
        return 1
    if _read(path) != before:
        raise PageFileError(f"{path} was changed in the meantime. Run the command again.")
    if before:
        write_text(backup_path(path), before, like=path)
    write_text(path, after)
    print(f"{path} changed.")
    return 0


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise PageFileError(f"{path} is a folder. Name a file, such as AGENTS.md.")
        if path.exists() and path.stat().st_size > MAX_FILE_BYTES:
            raise PageFileError(f"{path} is larger than {MAX_FILE_BYTES // 1_000_000} MB.")
        return read_text(path) or ""
    except UnicodeDecodeError:
        raise PageFileError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    except OSError as error:
        raise PageFileError(f"cannot read {path}: {error.strerror}") from None


def find_block(text: str, project: str, page: PageShape) -> Block | None:
    """Return the block of a file, None if it has none. Raise PageFileError if its marks are broken."""
    begins, ends = list(_BEGIN.finditer(text)), list(_END.finditer(text))
    if not _MARK.search(text):
        return None
    if len(begins) != 1 or len(ends) != 1 or len(_MARK.findall(text)) != 2:
        raise PageFileError(
            "the file must have one line “<!-- memoryhub:begin -->” and one “<!-- memoryhub:end -->”. "
            "Remove what is left of the block, and run the command again."
        )
    begin, end = begins[0], ends[0]
    values = _VALUES.fullmatch(begin["values"])
    if begin.start() > end.start() or values is None:
        raise PageFileError("the first line of the block was changed. Remove the block and run this again.")
    if values["project"] and unquote(values["project"]) != project:
        raise PageFileError(f"the block is of the project {unquote(values['project'])!r}, not {project!r}.")
    pairs = (pair.split(":") for pair in (values["lines"] or "").split() if pair.count(":") == 1)
    lines = list(_parse_lines(text[begin.end() : end.start()], page))
    return Block(begin.start(), end.end(), lines, dict(pairs))


def _parse_lines(text: str, page: PageShape) -> Iterator[tuple[str, str]]:
    """Yield the section and text of each line. Indented lines and plain text continue the line before.

    A line without a word, such as a rule, ends it.
    """
    titles = {title.casefold(): key for key, title in page.section_titles.items()}
    section, current = "purpose", ""
    for line in text.splitlines():
        bare = line.strip() if any(map(str.isalnum, line)) else ""
        item = _ITEM.fullmatch(bare)
        is_continued = bool(bare and current and not item and not bare.startswith("#"))
        if is_continued:
            current = f"{current} {bare}"
            continue
        if current:
            yield section, collapse_whitespace(current)
            current = ""
        if bare.startswith("#"):
            title = bare.lstrip("# ")
            if title.casefold() not in titles:
                known = ", ".join(page.section_titles.values())
                raise PageFileError(f"“{title}” is not a section of the page. Use one of: {known}.")
            section = titles[title.casefold()]
        elif bare:
            current = item["text"] if item else bare
    if current:
        yield section, collapse_whitespace(current)


def find_changes(block: Block, page: PageShape) -> Changes:
    """Compare the lines of the block with those that were written, and with the page of the hub."""
    entries = {
        entry.id[:_ID_CHARS]: (section.key, entry) for section in page.sections for entry in section.entries
    }
    present = {digest(text) for _, text in block.lines}
    known = {*block.written.values(), *(digest(entry.line) for _, entry in entries.values())}
    missing = {
        uid: entries[uid]
        for uid, written in block.written.items()
        if written not in present and uid in entries and digest(entries[uid][1].line) not in present
    }
    changes = Changes()
    for section, text in block.lines:
        if digest(text) in known:
            continue
        uid = _most_similar(text, section, missing)
        if uid is None:
            changes.corrections.append(({"action": "add", "section": section, "text": text}, "", text))
        else:
            _, entry = missing.pop(uid)
            _add_reworded(changes, entry, block.written[uid], section, text)
    for uid, (_, entry) in missing.items():
        # Lines that changed in the hub since stay. So do lines of sessions, which disappear without this.
        if digest(entry.line) == block.written[uid] and entry.kind != "session":
            removal: PageCorrection = {"action": "leave_out", "kind": entry.kind, "id": entry.id}
            changes.corrections.append((removal, entry.line, ""))
    return changes


def _add_reworded(changes: Changes, entry: PageEntryShape, written: str, section: str, text: str) -> None:
    """Add the correction of a reworded line, or the reason why it cannot be reworded."""
    if digest(entry.line) != written:
        changes.problems.append(
            f"“{text}” was changed here, and in the hub to “{entry.line}”. "
            "Write the line as it is in the hub, or reword it there, and run the command again."
        )
    elif entry.kind == "session":
        changes.problems.append(f"“{entry.line}” comes from a session and cannot be reworded.")
    else:
        source: PageCorrection = {"kind": entry.kind, "id": entry.id, "section": section}
        changes.corrections.append(({**source, "action": "reword", "text": text}, entry.line, text))


def _most_similar(text: str, section: str, missing: Mapping[str, tuple[str, PageEntryShape]]) -> str | None:
    """Return the missing line that was most probably reworded to this text."""
    ratios = {
        uid: difflib.SequenceMatcher(None, entry.line, text).ratio()
        for uid, (key, entry) in missing.items()
        if key == section
    }
    best = max(ratios, key=ratios.__getitem__, default=None)
    return best if best is not None and ratios[best] >= MIN_SIMILARITY else None


def digest(line: str) -> str:
    """Return a short digest of a line, whatever its white space."""
    return hashlib.sha256(collapse_whitespace(line).encode()).hexdigest()[:_DIGEST_CHARS]


def render_block(page: PageShape, newline: str = "\n") -> str:
    """Return the block with its first and last line."""
    lines = [
        f"{entry.id[:_ID_CHARS]}:{digest(entry.line)}"
        for section in page.sections
        for entry in section.entries
    ]
    project = quote(page.project, safe="")
    begin = f'<!-- memoryhub:begin project="{project}" lines="{" ".join(lines)}" -->'
    text = f"{begin}\n{page.markdown}<!-- memoryhub:end -->"
    return text.replace("\n", newline)


def replace_block(text: str, block: Block | None, page: PageShape) -> str:
    """Return the file with the block in place of the old one, or at its end. The rest stays as it is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    rendered = render_block(page, newline)
    if block:
        # The match of the last mark includes a carriage return.
        end = block.end - 1 if text[block.end - 1 : block.end] == "\r" else block.end
        return text[: block.start] + rendered + text[end:]
    gap = "" if not text else newline if text.endswith(newline) else newline * 2
    return f"{text}{gap}{rendered}{newline}"
