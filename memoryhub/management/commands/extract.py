"""``manage.py extract TRANSCRIPT``: from a conversation in a file to memories, in the foreground."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memoryhub.access.policy import LEVELS, Actor, Clearance
from memoryhub.core.vocabulary import SCOPES, Scope
from memoryhub.extraction import queue, rules, services
from memoryhub.extraction.comparison import Destination
from memoryhub.extraction.conversation import InvalidTranscript, Turn, parse_turns, read_transcript
from memoryhub.extraction.services import ExtractionResult
from memoryhub.management.operator import operator, plural, short_name, shown
from memoryhub.memories import StoreError
from memoryhub.ops.checks import INSTALLATION
from memoryhub.security.secrets import CheckTooCostly

INTERRUPTED = 130


class Command(BaseCommand):
    help = (
        "Read a conversation (JSON messages, a transcript of Claude Code, or text with User: and Assistant:) "
        "and store memories extracted from it. Known ones are skipped or merged."
    )
    requires_system_checks = [INSTALLATION]

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
        turns = self._turns(options["transcript"])
        place = Destination(
            short_name(options["project"], "--project"),
            short_name(options["session_id"], "--session-id"),
            options["scope"],
            options["sensitivity"],
        )
        if options["dry_run"]:
            self._tell(self._planned(turns), options["json"])
            return
        clearance = Clearance(frozenset(LEVELS), short_name(options["owner"], "--owner"))
        actor = operator(clearance, options["actor"])
        self._tell(self._read(turns, place, actor, options["rules"]), options["json"])

    def _turns(self, path: Path) -> list[Turn]:
        try:
            return parse_turns(read_transcript(path))
        except (InvalidTranscript, CheckTooCostly) as problem:
            raise CommandError(f"{path}: {problem}") from None
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from None

    def _planned(self, turns: Sequence[Turn]) -> ExtractionResult:
        found = rules.extract(turns)
        results = [
            {
                "outcome": "found",
                "category": one.category,
                "abstract": one.abstract or one.content,
                "why": one.why,
            }
            for one in found
        ]
        return ExtractionResult(results=list(results))

    def _read(
        self, turns: Sequence[Turn], place: Destination, actor: Actor, only_rules: bool
    ) -> ExtractionResult:
        try:
            place = queue.resolve_destination(place, actor)
            return (services.extract_by_rules if only_rules else services.extract_by_model)(
                turns, place, actor
            )
        except StoreError as refusal:
            raise CommandError(str(refusal)) from None
        except KeyboardInterrupt:
            raise CommandError("interrupted; stored memories stay", returncode=INTERRUPTED) from None

    def _tell(self, done: ExtractionResult, as_json: bool) -> None:
        if as_json:
            shape = {"extractor": done.extractor, "results": done.results, "notes": done.notes}
            self.stdout.write(json.dumps(shape, ensure_ascii=False, indent=1))
            return
        for one in done.results:
            words = one.get("abstract") or one.get("detail", "")
            self.stdout.write(f"{one['outcome']:9} {one['category']:12} {shown(words, 160)}")
        for note in done.notes:
            self.stderr.write(note)
        counted = Counter(one["outcome"] for one in done.results)
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in counted.items())
        found = plural(len(done.results), "candidate")
        self.stdout.write(f"{found}{f': {outcomes}' if outcomes else ''} (read by the {done.extractor})")
