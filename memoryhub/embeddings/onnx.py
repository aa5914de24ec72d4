"""Local sentence encoder: a folder with ``model.onnx`` and ``tokenizer.json``, run by onnxruntime."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memoryhub.core.text import replace_surrogates
from memoryhub.embeddings.base import (
    MINILM_PACKAGE,
    EmbeddingError,
    Vectors,
    disable_tokenizer_threads,
    normalize_rows,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer


MAX_TOKENS = 256  # of a text, if tokenizer.json sets no limit
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_OUTPUTS = ("sentence_embedding", "last_hidden_state", "token_embeddings")
_UNUSABLE = "the model in embeddings_folder cannot be used"

TokenArray = NDArray[np.signedinteger[Any]]


class OnnxEmbedder:
    """Takes about 10 ms per text without a GPU, so vectors are computed in the background."""

    in_process = False

    def __init__(self, session: Any, tokenizer: Tokenizer, name: str, batch: int) -> None:
        self._session, self._tokenizer, self._batch = session, tokenizer, batch
        self._inputs = _model_inputs(session)
        self._output = _model_output(session)
        self._pad = _pad_id(tokenizer)
        length = int((tokenizer.truncation or {}).get("max_length", MAX_TOKENS))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length=length)
        # A test run shows the dimensions, and that the model works.
        self.dimensions = int(self._run(["probe"]).shape[1])
        self.name = f"{name}/{self.dimensions}"

    @classmethod
    def load(cls, folder: Path, batch: int) -> OnnxEmbedder:
        """Load the model of a folder. Raise EmbeddingError if a file, a package or the model is unusable."""
        try:
            name = f"onnx/{folder.resolve().name[:60]}@{_fingerprint(folder)}"
        except OSError as error:
            raise _unreadable(error) from error
        return cls(*_open_model(str(folder / "model.onnx"), folder), name, batch)

    @classmethod
    def load_minilm(cls, batch: int) -> OnnxEmbedder:
        """Load all-MiniLM-L6-v2 from its installed package. Raise EmbeddingError if that is not usable."""
        try:
            from memoryhub.embeddings.bert_to_onnx import bert_to_onnx

            folder = _package_folder(MINILM_PACKAGE) / "model"
            model = bert_to_onnx(folder)
        except Exception as error:  # the libraries raise plain Exceptions
            raise EmbeddingError(
                f"all-MiniLM-L6-v2 cannot be loaded ({type(error).__name__}); install {MINILM_PACKAGE} again"
            ) from error
        return cls(*_open_model(model, folder), f"minilm/{hashlib.sha256(model).hexdigest()[:8]}", batch)

    def documents(self, texts: Sequence[str]) -> Vectors:
        found = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        # Batch texts of similar length: each row is padded to the longest.
        filled = sorted((at for at, text in enumerate(texts) if text.strip()), key=lambda at: len(texts[at]))
        for start in range(0, len(filled), self._batch):
            places = filled[start : start + self._batch]
            found[places] = self._run([texts[at] for at in places])
        return found

    def query(self, text: str, weights: Mapping[str, float] | None = None) -> Vectors:
        row: Vectors = self.documents([text])[0]
        return row

    def _run(self, texts: Sequence[str]) -> Vectors:
        try:
            encodings = self._tokenizer.encode_batch([replace_surrogates(text) for text in texts])
            ids, mask = _pad_rows([encoding.ids for encoding in encodings], self._pad)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            feed = {name: given[name].astype(kind) for name, kind in self._inputs.items()}
            [answer] = self._session.run([self._output], feed)
        except Exception as error:  # onnxruntime's exceptions have no common base class
            raise EmbeddingError(f"{_UNUSABLE}: it fails ({type(error).__name__})") from error
        return normalize_rows(_pool_tokens(answer, mask))


def _package_folder(name: str) -> Path:
    """Return the folder of an installed package without importing it. Raise ImportError if it is missing."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ImportError(name)
    return Path(spec.origin).parent


def _open_model(model: str | bytes, folder: Path) -> tuple[Any, Tokenizer]:
    """Return the session of a model (a path or the model itself) and the folder's tokenizer."""
    disable_tokenizer_threads()
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbeddingError(
            f"{error.name} cannot be imported; install the extra: pip install onnxruntime tokenizers"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only; they are raised as well
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]), tokenizer
    except Exception as error:  # both libraries raise plain Exceptions
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> EmbeddingError:
    return EmbeddingError(
        f"{_UNUSABLE}: model.onnx or tokenizer.json cannot be read ({type(error).__name__})"
    )


def _fingerprint(folder: Path) -> str:
    """Return eight characters that change with the model, so that vectors of different models do not mix."""
    found = hashlib.sha256()
    for path in [*sorted(folder.glob("model.onnx*")), folder / "tokenizer.json"]:
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()[:8]


def _model_inputs(session: Any) -> dict[str, type[np.signedinteger[Any]]]:
    """Return the required inputs and their number types."""
    inputs = {one.name: np.int32 if "int32" in one.type else np.int64 for one in session.get_inputs()}
    if unknown := set(inputs) - set(_INPUTS):
        raise EmbeddingError(f"{_UNUSABLE}: it asks for the input {', '.join(sorted(unknown))}")
    if "input_ids" not in inputs:
        raise EmbeddingError(f"{_UNUSABLE}: it has no input input_ids, so it is not a text encoder")
    return inputs


def _model_output(session: Any) -> str:
    """Return the name of the sentence output if there is one, else that of the token output."""
    names = [str(one.name) for one in session.get_outputs()]
    return next((name for name in _OUTPUTS if name in names), names[0])


def _pad_id(tokenizer: Tokenizer) -> int:
    if tokenizer.padding:
        return int(tokenizer.padding["pad_id"])
    known = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return next((one for one in known if one is not None), 0)


def _pad_rows(rows: Sequence[Sequence[int]], pad: int) -> tuple[TokenArray, TokenArray]:
    """Pad token ids to one block; return it with its mask."""
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), max(int(lengths.max()), 1)), pad, dtype=np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row
    return ids, (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)


def _pool_tokens(answer: Any, mask: TokenArray) -> Vectors:
    """Return one finite row per text: the model's sentence vector, or the mean of its token vectors."""
    found = np.asarray(answer)
    if found.dtype.kind != "f" or found.ndim not in (2, 3) or len(found) != len(mask):
        raise EmbeddingError(f"{_UNUSABLE}: its output is not a vector of a sentence or of its tokens")
    rows: Vectors = found.astype(np.float32)
    if rows.ndim == 3:
        if rows.shape[1] != mask.shape[1]:
            raise EmbeddingError(f"{_UNUSABLE}: its output has not one vector for each token")
        shares = mask[:, :, None].astype(np.float32)
        rows = (rows * shares).sum(axis=1) / np.maximum(shares.sum(axis=1), 1)
    if not np.isfinite(rows).all():
        raise EmbeddingError(f"{_UNUSABLE}: its output contains numbers that are not finite")
    return rows
