"""Convert a BERT encoder with safetensors weights to ONNX.

Needs the package ``onnx``, which is only in the extra ``minilm``: import this module when it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
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
