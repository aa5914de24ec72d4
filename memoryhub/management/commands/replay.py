"""``manage.py replay FILE``: replay a recorded session of Claude Code."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError

from memoryhub.access.policy import Clearance
from memoryhub.core.text import format_count
from memoryhub.management import INTERRUPTED, StoreCommand, operator, short_name, shown
from memoryhub.ops.replay import (
    InvalidTranscript,
    PlayedHook,
    Player,
    RequestRefused,
    Transcript,
    connect_in_process,
    read_transcript,
)

MAX_SPEED = 100_000
TOKEN_NAME = "replay"  # noqa: S105  a name
_ORDER = ("kept", "skipped", "accepted", "known", "failed")


class Command(StoreCommand):
    help = (
        "Replay a recorded session of Claude Code through the hook endpoint, and show what was kept. "
        "Events that were replayed before are skipped."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="a transcript, as in fixtures/sessions")
        parser.add_argument(
            "--speed",
            type=float,
            default=0,
            metavar="N",
            help="0: as fast as possible (default); 1: in real time; 60: sixty times as fast",
        )
        parser.add_argument("--project", default="", help="project name (default: the recorded folder)")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 <= options["speed"] <= MAX_SPEED:
            raise CommandError(f"--speed must be 0 to {MAX_SPEED}")
        self.prints_hooks = options["verbosity"] > (0 if self.stdout.isatty() else 1)
        transcript = self._read(options["file"])
        project = short_name(options["project"], "--project")
        try:
            with connect_in_process(operator(Clearance.up_to("secret")), TOKEN_NAME) as hub:
                player = Player(hub, transcript, project, options["speed"], outcomes=self.prints_hooks)
                failed = self._play(player)
                self._print_memories(player)
        except RequestRefused as error:
            raise CommandError(f"{hub.target}: {error}") from None
        except DatabaseError as error:
            raise CommandError(f"stopped: {error}. See manage.py doctor.") from None
        if failed or transcript.broken:
            raise CommandError(self._describe_failures(failed, len(transcript.broken)))

    def _read(self, path: Path) -> Transcript:
        try:
            transcript = read_transcript(path)
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from None
        except InvalidTranscript as error:
            raise CommandError(str(error)) from None
        for number, reason in transcript.broken:
            self.stderr.write(f"line {number}: {reason}", self.style.NOTICE)
        return transcript

    def _play(self, player: Player) -> int:
        """Play all hooks, and return how many were refused."""
        counted: Counter[str] = Counter()
        try:
            for played in player.play():
                counted[played.outcome] += 1
                self._print_hook(played)
        except KeyboardInterrupt:
            raise CommandError(
                "interrupted; run the same command again to continue",
                returncode=INTERRUPTED,
            ) from None
        counts = [f"{counted[name]:,} {name}" for name in _ORDER if counted[name]]
        hooks = format_count(counted.total(), "hook")
        self.stdout.write(f"Replayed {hooks} into {player.hub.target}: {', '.join(counts)}")
        return counted["failed"]

    def _print_hook(self, played: PlayedHook) -> None:
        """Print a line for a hook, if lines are wanted or the hook failed."""
        recorded = played.recorded
        minutes, seconds = divmod(int(recorded.offset), 60)
        why = f"  {shown(played.why, 100)}" if played.why else ""
        context = f"  {played.context:,} characters of context" if played.context else ""
        name = recorded.tool or recorded.name
        line = f"{minutes:>4}:{seconds:02}  {shown(name, 20):<20} {played.outcome:<8}{why}{context}"
        if played.outcome == "failed":
            self.stderr.write(f"line {recorded.number}: {line.strip()}", self.style.NOTICE)
        elif self.prints_hooks:
            self.stdout.write(self.style.SUCCESS(line) if played.outcome == "kept" else line)

    def _print_memories(self, player: Player) -> None:
        memories = player.memories()
        self.stdout.write(
            f"\n{format_count(len(memories), 'memory')} of {format_count(len(player.sessions), 'session')}:"
        )
        for one in memories:
            title = shown(one["title"], 90)
            self.stdout.write(f"  {one['type']:<16} {one['importance']:.2f}  {one['id']}  {title}")

    @staticmethod
    def _describe_failures(failed: int, broken: int) -> str:
        parts = [f"{format_count(failed, 'hook')} refused"] * bool(failed)
        parts += [f"{format_count(broken, 'line')} without a hook"] * bool(broken)
        return f"the replay is incomplete: {', '.join(parts)}"
