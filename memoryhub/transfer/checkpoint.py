"""Checkpoints of interrupted imports: one small file per import in ``LETSGO_HOME/imports``."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from memoryhub.models import JournalEntry
from memoryhub.transfer.files import open_source
from memoryhub.transfer.reader import ImportMark

_HEAD_BYTES = 65_536


def imports_folder() -> Path:
    """Return the folder for imports, readable by its owner only."""
    path = Path(settings.HOME) / "imports"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


@dataclass(frozen=True)
class Checkpoint:
    """All items up to ``mark`` are stored; the mark also identifies the file.

    The last journal row at that time identifies the store: another store, or one restored from a backup, does
    not contain these items.
    """

    mark: ImportMark
    journal_seq: int
    journal_hash: str

    @property
    def number(self) -> int:
        """Number of lines or items before the checkpoint."""
        return int(self.mark["number"])

    def is_of_this_store(self) -> bool:
        return JournalEntry.objects.filter(seq=self.journal_seq, hash=self.journal_hash).exists()


def checkpoint_path(name: str) -> Path:
    """Return the checkpoint path for a file, which is identified by its first bytes."""
    with open(name, "rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"\x1f\x8b"):  # a packed file has the same checkpoint as its content
        with open_source(name) as source:
            head = source.stream.read(_HEAD_BYTES)
    return imports_folder() / f"{hashlib.sha256(head).hexdigest()[:32]}.json"


def load_checkpoint(path: Path) -> Checkpoint | None:
    """Return the checkpoint of an earlier run, or None if there is no readable one."""
    try:
        found = Checkpoint(**json.loads(path.read_text("utf-8")))
        return found if isinstance(found.mark, dict) and "number" in found.mark else None
    except (FileNotFoundError, ValueError, TypeError):
        return None


def save_checkpoint(path: Path, mark: ImportMark) -> None:
    """Save that everything before the mark is stored. The write is atomic."""
    seq, digest = JournalEntry.objects.order_by("-seq").values_list("seq", "hash").first() or (0, "")
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.write_text(json.dumps(asdict(Checkpoint(mark, seq, digest))), "utf-8")
    draft.replace(path)


def delete_checkpoint(path: Path) -> None:
    path.unlink(missing_ok=True)
