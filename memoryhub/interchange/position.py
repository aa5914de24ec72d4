"""Where an interrupted import goes on: a small file for each import under way, in ``LETSGO_HOME/imports``."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from memoryhub.interchange.files import reading
from memoryhub.interchange.jsonl import Lines
from memoryhub.models import JournalEntry

_HEAD_BYTES = 65_536


@dataclass(frozen=True)
class Position:
    """The lines up to ``number`` are stored.

    ``digest`` tells whether the file is still the same up to ``offset``; the journal's last row of then,
    whether the store is (another one, or one restored from a backup, has not seen these lines).
    """

    number: int
    offset: int
    digest: str
    journal_seq: int
    journal_hash: str

    def is_of_this_store(self) -> bool:
        return JournalEntry.objects.filter(seq=self.journal_seq, hash=self.journal_hash).exists()


def file_for(name: str) -> Path:
    """Where the position of an import is kept: found by how its file begins, wherever that lies now."""
    with reading(name) as source:
        head = hashlib.sha256(source.stream.read(_HEAD_BYTES)).hexdigest()
    return Path(settings.HOME) / "imports" / f"{head[:32]}.json"


def load(path: Path) -> Position | None:
    """The position that an earlier run left, if it left one that can be read."""
    try:
        return Position(**json.loads(path.read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def save(path: Path, lines: Lines) -> None:
    """Remember that everything before the line in hand is stored. Written whole or not at all."""
    seq, digest = JournalEntry.objects.order_by("-seq").values_list("seq", "hash").first() or (0, "")
    position = Position(lines.number, lines.offset, lines.digest, seq, digest)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.write_text(json.dumps(asdict(position)), "utf-8")
    draft.replace(path)


def clear(path: Path) -> None:
    path.unlink(missing_ok=True)
