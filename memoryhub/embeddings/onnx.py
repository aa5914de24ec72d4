"""Local sentence encoder: a folder with ``model.onnx`` and ``tokenizer.json``, run by onnxruntime."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memoryhub.embeddings.base import (
    EmbeddingError,
    Vectors,
    disable_tokenizer_threads,
    normalize_rows,
    replace_surrogates,
)
from memoryhub.embeddings.provider import MINILM_PACKAGE

if TYPE_CHECKING:
    from tokenizers import Tokenizer


import json

from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

Weights = Mapping[str, NDArray[np.float32]]

_OPSET = 20  # the first one with Gelu
_MASKED = np.float32(-1e9)  # added to the score of a padding token before the softmax


def bert_to_onnx(folder: Path) -> bytes:
    """Return the ONNX model of a folder with ``model.safetensors`` and ``config.json``.

    Its inputs are ``input_ids`` and ``attention_mask`` (batch × tokens, int64), its output is
    ``last_hidden_state`` (batch × tokens × hidden size, float32). Source: Devlin et al., "BERT" (2019), with
    absolute positions and the exact GELU. Raise ValueError or KeyError if the folder contains another model.
    """
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] != "bert" or config["hidden_act"] != "gelu":
        raise ValueError("config.json does not describe a BERT model with the GELU activation")
    return _BertGraph(config, load_file(folder / "model.safetensors")).build()


class _BertGraph:
    """Collects the nodes and weights of the ONNX graph; every step returns the name of its output."""

    def __init__(self, config: Mapping[str, Any], weights: Weights) -> None:
        self._config, self._weights = config, weights
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def build(self) -> bytes:
        hidden = self._embed_tokens()
        bias = self._attention_bias()
        for number in range(self._config["num_hidden_layers"]):
            hidden = self._encode(hidden, bias, f"encoder.layer.{number}")
        self._nodes.append(helper.make_node("Identity", [hidden], ["last_hidden_state"]))
        block = ["batch", "tokens"]
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, block)
                for name in ("input_ids", "attention_mask")
            ],
            [
                helper.make_tensor_value_info(
                    "last_hidden_state", TensorProto.FLOAT, [*block, self._config["hidden_size"]]
                )
            ],
            self._constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=9)
        return bytes(model.SerializeToString())

    def _embed_tokens(self) -> str:
        words = self._add("Gather", self._weight("embeddings.word_embeddings.weight"), "input_ids")
        length = self._add("Shape", "input_ids", start=1)
        # The type of every token is 0, so its vector is a constant.
        places = (
            self._weights["embeddings.position_embeddings.weight"]
            + self._weights["embeddings.token_type_embeddings.weight"][0]
        )
        used = self._add(
            "Slice",
            self._constant(places),
            self._constant(np.array([0])),
            length,
            self._constant(np.array([0])),
        )
        return self._normalize(self._add("Add", words, used), "embeddings.LayerNorm")

    def _attention_bias(self) -> str:
        mask = self._add("Unsqueeze", "attention_mask", self._constant(np.array([1, 2])))
        numbers = self._add("Cast", mask, to=TensorProto.FLOAT)
        padding = self._add("Sub", self._constant(np.float32(1)), numbers)
        return self._add("Mul", padding, self._constant(_MASKED))

    def _encode(self, hidden: str, bias: str, layer: str) -> str:
        attended = self._attend(hidden, bias, f"{layer}.attention")
        inner = self._add("Gelu", self._linear(attended, f"{layer}.intermediate.dense"))
        output = self._linear(inner, f"{layer}.output.dense")
        return self._normalize(self._add("Add", output, attended), f"{layer}.output.LayerNorm")

    def _attend(self, hidden: str, bias: str, name: str) -> str:
        query, key, value = (
            self._split_heads(self._linear(hidden, f"{name}.self.{part}"))
            for part in ("query", "key", "value")
        )
        size = self._config["hidden_size"] // self._config["num_attention_heads"]
        scores = self._add("MatMul", query, self._add("Transpose", key, perm=[0, 1, 3, 2]))
        scaled = self._add("Div", scores, self._constant(np.float32(np.sqrt(size))))
        shares = self._add("Softmax", self._add("Add", scaled, bias), axis=-1)
        joined = self._add("Transpose", self._add("MatMul", shares, value), perm=[0, 2, 1, 3])
        context = self._add("Reshape", joined, self._constant(np.array([0, 0, -1])))
        output = self._linear(context, f"{name}.output.dense")
        return self._normalize(self._add("Add", output, hidden), f"{name}.output.LayerNorm")

    def _split_heads(self, name: str) -> str:
        shape = np.array([0, 0, self._config["num_attention_heads"], -1])
        return self._add("Transpose", self._add("Reshape", name, self._constant(shape)), perm=[0, 2, 1, 3])

    def _linear(self, name: str, layer: str) -> str:
        weight = self._constant(np.ascontiguousarray(self._weights[f"{layer}.weight"].T))
        return self._add("Add", self._add("MatMul", name, weight), self._weight(f"{layer}.bias"))

    def _normalize(self, name: str, layer: str) -> str:
        return self._add(
            "LayerNormalization",
            name,
            self._weight(f"{layer}.weight"),
            self._weight(f"{layer}.bias"),
            epsilon=self._config["layer_norm_eps"],
        )

    def _weight(self, name: str) -> str:
        return self._constant(self._weights[name])

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        name = f"value_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name


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
            from memoryhub.embeddings.onnx import bert_to_onnx

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
