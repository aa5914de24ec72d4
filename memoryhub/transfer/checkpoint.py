"""Where an interrupted import goes on: small files for each import under way, in ``LETSGO_HOME/imports``."""

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
    """For its owner alone."""
    path = Path(settings.HOME) / "imports"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


@dataclass(frozen=True)
class Checkpoint:
    """The items up to ``mark`` are stored, which tells whether the file is still the same.

    The journal's last row of then tells whether the store is: another one, or one restored from a backup, has
    not seen these items.
    """

    mark: ImportMark
    journal_seq: int
    journal_hash: str

    @property
    def number(self) -> int:
        """How many lines or items lie before it."""
        return int(self.mark["number"])

    def is_of_this_store(self) -> bool:
        return JournalEntry.objects.filter(seq=self.journal_seq, hash=self.journal_hash).exists()


def checkpoint_path(name: str) -> Path:
    """Where the position of an import is kept: found by how its file begins, wherever that lies now."""
    with open(name, "rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"\x1f\x8b"):  # the same file unpacked is the same
        with open_source(name) as source:
            head = source.stream.read(_HEAD_BYTES)
    return imports_folder() / f"{hashlib.sha256(head).hexdigest()[:32]}.json"


def load_checkpoint(path: Path) -> Checkpoint | None:
    """The position that an earlier run left, if it left one that can be read."""
    try:
        found = Checkpoint(**json.loads(path.read_text("utf-8")))
        return found if isinstance(found.mark, dict) and "number" in found.mark else None
    except (FileNotFoundError, ValueError, TypeError):
        return None


def save_checkpoint(path: Path, mark: ImportMark) -> None:
    """Remember that everything before the mark is stored. Written whole or not at all."""
    seq, digest = JournalEntry.objects.order_by("-seq").values_list("seq", "hash").first() or (0, "")
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.write_text(json.dumps(asdict(Checkpoint(mark, seq, digest))), "utf-8")
    draft.replace(path)


def delete_checkpoint(path: Path) -> None:
    path.unlink(missing_ok=True)
