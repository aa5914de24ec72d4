"""Sentence encoders of a few kilobytes with selectable inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = "[PAD] [UNK] [CLS] [SEP] zebra stripes horse apple pear tree river bank money is on the probe".split()
DIMENSIONS = 16
ALL_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def write_encoder(
    folder: Path,
    *,
    inputs: Sequence[str] = ALL_INPUTS,
    output: str = "last_hidden_state",
    truncation: int | None = None,
    seed: int = 7,
    kind: int = TensorProto.INT64,
    scale: float = 1.0,
) -> Path:
    """Write a folder with model.onnx and tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(_model(inputs, output, seed, kind, scale), str(folder / "model.onnx"))
    write_tokenizer(folder, truncation)
    return folder


def table(seed: int = 7) -> Any:
    """Return the vector of each token."""
    return np.random.default_rng(seed).normal(size=(len(WORDS), DIMENSIONS)).astype(np.float32)


def write_tokenizer(folder: Path, truncation: int | None) -> None:
    """Write tokenizer.json: one token for each of ``WORDS``."""
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_padding(length=32, pad_id=0, pad_token="[PAD]")  # as exported tokenizers often have
    if truncation:
        made.enable_truncation(max_length=truncation)
    made.save(str(folder / "tokenizer.json"))


def _model(inputs: Sequence[str], output: str, seed: int, kind: int, scale: float) -> onnx.ModelProto:
    block = ["batch", "length"]
    weights = numpy_helper.from_array(table(seed) * np.float32(scale), "weights")
    nodes = [helper.make_node("Gather", ["weights", "input_ids"], ["tokens"])]
    constants = [weights]
    if output == "sentence_embedding":
        # Twice the first word's vector, which differs from the mean.
        constants += [numpy_helper.from_array(np.array(value), name) for name, value in _FIRST.items()]
        nodes += [
            helper.make_node("Gather", ["tokens", "first"], ["word"], axis=1),
            helper.make_node("Mul", ["word", "twice"], [output]),
        ]
        shape: list[Any] = ["batch", DIMENSIONS]
    elif output == "numbers":
        nodes = [helper.make_node("Shape", ["input_ids"], [output])]
        shape = [2]
    else:
        nodes.append(helper.make_node("Identity", ["tokens"], [output]))
        shape = [*block, DIMENSIONS]
    elem = TensorProto.INT64 if output == "numbers" else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, kind, block) for name in inputs],
        [helper.make_tensor_value_info(output, elem, shape)],
        constants,
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9)


_FIRST = {"first": np.int64(1), "twice": np.float32(2)}
