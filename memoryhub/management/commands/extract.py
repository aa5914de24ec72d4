"""``manage.py extract TRANSCRIPT``: extract memories from a conversation in a file."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from memoryhub.access.policy import LEVELS, Actor, Clearance
from memoryhub.core.text import format_count
from memoryhub.core.vocabulary import SCOPES, Scope
from memoryhub.extraction import rules, services
from memoryhub.extraction.comparison import Destination
from memoryhub.extraction.conversation import InvalidTranscript, Turn, parse_turns, read_transcript
from memoryhub.extraction.services import ExtractionResult
from memoryhub.management import INTERRUPTED, StoreCommand, operator, short_name, shown
from memoryhub.memories import StoreError
from memoryhub.security.secrets import CheckTooCostly


class Command(StoreCommand):
    help = (
        "Read a conversation (JSON messages, a transcript of Claude Code, or text with User: and Assistant:) "
        "and store memories extracted from it. Known ones are skipped or merged."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("transcript", metavar="TRANSCRIPT", type=Path, help="the file")
        parser.add_argument("--project", default="", help="the project of the memories")
        parser.add_argument("--session-id", default="", help="the session of the memories")
        parser.add_argument(
            "--sensitivity",
            choices=LEVELS,
            default=LEVELS[0],
            help="the level of the memories (default: public)",
        )
        parser.add_argument(
            "--scope",
            choices=SCOPES,
            default=Scope.PROJECT.value,
            help="who sees the memories: personal, project or team (default: project)",
        )
        parser.add_argument("--owner", default="", help="owner of personal memories")
        parser.add_argument("--actor", help="your name in the journal (default: command:<your login>)")
        parser.add_argument("--rules", action="store_true", help="do not ask the language model")
        parser.add_argument("--dry-run", action="store_true", help="print what the rules find, store nothing")
        parser.add_argument("--json", action="store_true", help="print the outcomes as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        turns = self._read_turns(options["transcript"])
        destination = Destination(
            short_name(options["project"], "--project"),
            short_name(options["session_id"], "--session-id"),
            options["scope"],
            options["sensitivity"],
        )
        if options["dry_run"]:
            self._print_results(self._preview(turns), options["json"])
            return
        clearance = Clearance(frozenset(LEVELS), short_name(options["owner"], "--owner"))
        actor = operator(clearance, options["actor"])
        self._print_results(self._extract(turns, destination, actor, options["rules"]), options["json"])

    def _read_turns(self, path: Path) -> list[Turn]:
        try:
            return parse_turns(read_transcript(path))
        except (InvalidTranscript, CheckTooCostly) as error:
            raise CommandError(f"{path}: {error}") from None
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from None

    def _preview(self, turns: Sequence[Turn]) -> ExtractionResult:
        results: list[dict[str, Any]] = [
            {
                "outcome": "found",
                "category": candidate.category,
                "abstract": candidate.abstract or candidate.content,
                "why": candidate.why,
            }
            for candidate in rules.extract(turns)
        ]
        return ExtractionResult(results=results)

    def _extract(
        self, turns: Sequence[Turn], destination: Destination, actor: Actor, only_rules: bool
    ) -> ExtractionResult:
        extract = services.extract_by_rules if only_rules else services.extract_by_model
        try:
            return extract(turns, services.resolve_destination(destination, actor), actor)
        except StoreError as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            raise CommandError("interrupted; stored memories stay", returncode=INTERRUPTED) from None

    def _print_results(self, done: ExtractionResult, as_json: bool) -> None:
        if as_json:
            shape = {"extractor": done.extractor, "results": done.results, "notes": done.notes}
            self.stdout.write(json.dumps(shape, ensure_ascii=False, indent=1))
            return
        for result in done.results:
            text = result.get("abstract") or result.get("detail", "")
            self.stdout.write(f"{result['outcome']:9} {result['category']:12} {shown(text, 160)}")
        for note in done.notes:
            self.stderr.write(note)
        counted = Counter(result["outcome"] for result in done.results)
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in counted.items())
        candidates = format_count(len(done.results), "candidate")
        self.stdout.write(f"{candidates}{f': {outcomes}' if outcomes else ''} (read by the {done.extractor})")
