"""The built-in provider: wordllama, a table with a vector for each token; its weights ship in its wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memoryhub.core.text import words
from memoryhub.embeddings.base import (
    EmbeddingError,
    Vectors,
    disable_tokenizer_threads,
    normalize_rows,
    replace_surrogates,
)

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

MODEL = "l2_supercat"
_CHUNK_CHARS = 65_536  # texts of one step; their tokens' vectors then take about 16 MB
# A word as it is written: letters and digits with the marks that stand on them.
_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")


class StaticEmbedder:
    """A text is the sum of its tokens' vectors: about 0.1 ms for a short memory."""

    in_process = True

    def __init__(self, table: Vectors, tokenizer: Tokenizer, name: str) -> None:
        self._table, self._tokenizer = table, tokenizer
        self.dimensions = int(table.shape[1])
        self.name = f"{name}/{self.dimensions}"

    @classmethod
    def load(cls) -> StaticEmbedder:
        """From the wheel's own files; EmbeddingError when they are not there or cannot be read."""
        disable_tokenizer_threads()
        try:
            import wordllama

            # Named as cache, or the package looks for its tokenizer elsewhere and then in the network.
            folder = Path(wordllama.__file__).parent
            found: Any = wordllama.WordLlama.load(MODEL, cache_dir=folder, disable_download=True)
        except (ImportError, OSError, ValueError) as error:
            raise EmbeddingError(
                f"wordllama cannot be loaded ({type(error).__name__}); install the package again, or set"
                " embeddings to another provider"
            ) from error
        found.tokenizer.no_padding()
        return cls(found.embedding, found.tokenizer, f"wordllama/{MODEL}")

    def documents(self, texts: Sequence[str]) -> Vectors:
        rows = [self._rows(step) for step in _text_chunks(texts)]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

    def query(self, text: str, weights: Mapping[str, float] | None = None) -> Vectors:
        if not weights or not text.strip():
            return self._one(text)
        clean = replace_surrogates(text)
        encoding = self._encode([clean])[0]
        shares = _token_weights(clean, encoding.offsets, weights)
        found = normalize_rows(shares @ self._table[self._ids(encoding.ids)])
        # Nothing that counts: the question as it stands is better than none.
        return found if found.any() else self._one(text)

    def _one(self, text: str) -> Vectors:
        row: Vectors = self.documents([text])[0]
        return row

    def _rows(self, texts: Sequence[str]) -> Vectors:
        """Text by text: the few vectors of one stay in the processor's cache, those of all would not."""
        clean = [replace_surrogates(text) if text.strip() else "" for text in texts]
        found = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        # Fast: without the places of tokens in the text, which nobody asks for here.
        for row, encoding in zip(
            found, self._tokenizer.encode_batch_fast(clean, add_special_tokens=False), strict=True
        ):
            if encoding.ids:
                np.add.reduce(self._table[self._ids(encoding.ids)], axis=0, out=row)
        return normalize_rows(found)

    def _encode(self, texts: list[str]) -> list[Encoding]:
        found: list[Encoding] = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return found

    def _ids(self, ids: Sequence[int]) -> NDArray[np.intp]:
        """Rows of the table; the tokenizer may know tokens beyond it."""
        return np.minimum(np.asarray(ids, dtype=np.intp), len(self._table) - 1)


def _text_chunks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in runs of about ``_CHARS_AT_ONCE`` characters, so that memory stays bounded."""
    start = chars = 0
    for at, text in enumerate(texts):
        if chars and chars + len(text) > _CHUNK_CHARS:
            yield texts[start:at]
            start, chars = at, 0
        chars += len(text) + 1
    if start < len(texts):
        yield texts[start:]


def _token_weights(text: str, offsets: Sequence[tuple[int, int]], weights: Mapping[str, float]) -> Vectors:
    """The weight of each token: that of the word it is a part of.

    What is no part of a word counts nothing: on LoCoMo's turns that is worth 1 to 4 points of recall@10.
    """
    by_char = np.full(len(text) + 1, np.nan, dtype=np.float32)
    for word in _WORD.finditer(text):
        named = [weights.get(part, 1.0) for part in words(word.group())]
        by_char[word.start() : word.end()] = max(named, default=1.0)
    spans = (by_char[start:end] for start, end in offsets)
    return np.array([_max_weight(span) for span in spans], dtype=np.float32)


def _max_weight(span: Vectors) -> float:
    known = span[~np.isnan(span)]
    return float(known.max()) if len(known) else 0.0
