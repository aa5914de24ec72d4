"""Built-in provider: wordllama, a table with a vector for each token. The weights ship in its wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memoryhub.core.text import replace_surrogates, words
from memoryhub.embeddings.base import EmbeddingError, Vectors, disable_tokenizer_threads, normalize_rows

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODEL, DIMENSIONS = "l2_supercat", 256
_CHUNK_CHARS = 65_536  # of one chunk; its token vectors take about 16 MB
# A written word: letters and digits with combining marks.
_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")


class StaticEmbedder:
    """Adds up the vectors of a text's tokens: about 0.1 ms for a short memory."""

    in_process = True

    def __init__(self, table: Vectors, tokenizer: Tokenizer, name: str) -> None:
        self._table, self._tokenizer = table, tokenizer
        self.dimensions = int(table.shape[1])
        self.name = f"{name}/{self.dimensions}"

    @classmethod
    def load(cls) -> StaticEmbedder:
        """Load the weights from the installed package.

        Raise EmbeddingError if they are missing or unreadable.
        """
        disable_tokenizer_threads()
        try:
            from safetensors import safe_open
            from tokenizers import Tokenizer

            # The package itself is not imported: it loads an HTTP client and needs 0.4 s of processor time.
            folder = Path(str(metadata.distribution("wordllama").locate_file("wordllama")))
            tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / f"{MODEL}_tokenizer_config.json"))
            with safe_open(folder / "weights" / f"{MODEL}_{DIMENSIONS}.safetensors", framework="np") as file:
                table = file.get_tensor("embedding.weight").astype(np.float32)
        except Exception as error:  # both libraries raise plain Exceptions
            raise EmbeddingError(
                f"wordllama cannot be loaded ({type(error).__name__}); install the package again, or set"
                " embeddings to another provider"
            ) from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(table, tokenizer, f"wordllama/{MODEL}")

    def documents(self, texts: Sequence[str]) -> Vectors:
        rows = [self._embed_chunk(chunk) for chunk in _text_chunks(texts)]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

    def query(self, text: str, weights: Mapping[str, float] | None = None) -> Vectors:
        if not weights or not text.strip():
            return self._embed_one(text)
        clean = replace_surrogates(text)
        encoding = self._tokenizer.encode_batch([clean], add_special_tokens=False)[0]
        shares = _token_weights(clean, encoding.offsets, weights)
        found = normalize_rows(shares @ self._table[self._ids(encoding.ids)])
        # No weighted word remains; the unweighted question is better than no vector.
        return found if found.any() else self._embed_one(text)

    def _embed_one(self, text: str) -> Vectors:
        row: Vectors = self.documents([text])[0]
        return row

    def _embed_chunk(self, texts: Sequence[str]) -> Vectors:
        """Process text by text: the vectors of one text fit the CPU cache."""
        clean = [replace_surrogates(text) if text.strip() else "" for text in texts]
        found = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        # Faster without token offsets, which are not needed here.
        encodings = self._tokenizer.encode_batch_fast(clean, add_special_tokens=False)
        for row, encoding in zip(found, encodings, strict=True):
            if encoding.ids:
                np.add.reduce(self._table[self._ids(encoding.ids)], axis=0, out=row)
        return normalize_rows(found)

    def _ids(self, ids: Sequence[int]) -> NDArray[np.intp]:
        """Return row numbers of the table; the tokenizer may return tokens beyond it."""
        return np.minimum(np.asarray(ids, dtype=np.intp), len(self._table) - 1)


def _text_chunks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield chunks of about ``_CHUNK_CHARS`` characters to bound the memory use."""
    start = chars = 0
    for at, text in enumerate(texts):
        if chars and chars + len(text) > _CHUNK_CHARS:
            yield texts[start:at]
            start, chars = at, 0
        chars += len(text) + 1
    if start < len(texts):
        yield texts[start:]


def _token_weights(text: str, offsets: Sequence[tuple[int, int]], weights: Mapping[str, float]) -> Vectors:
    """Return the weight of each token: the weight of its word.

    Tokens outside of words count 0, which improves recall@10 on LoCoMo by 1 to 4 points.
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
