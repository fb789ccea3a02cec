"""The formats `onnx`, which takes token ids, and `onnx_text`, which takes strings.

A graph is built node by node; every tensor is stored once. An `onnx` file carries the
tokenizer's description as metadata; in an `onnx_text` file operators of
onnxruntime-extensions are the tokenizer.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.export import proof
from keras_msd.export.onnx_files import (
    FILE,
    IDS,
    OPSET,
    OUTPUT,
    TEXT,
    TOKENIZER,
    load_extensions,
    new_session,
    require_onnx,
)
from keras_msd.export.portable import copy_reader, describe
from keras_msd.io.files import digest
from keras_msd.layers import SMALLEST_SQUARE
from keras_msd.models.network import (
    MASKED,
    POSITION,
    SMALLEST_COUNT,
    WORD,
    plain_weights,
    states,
)
from keras_msd.quantize import (
    BITS,
    LARGEST,
    SCHEMES,
    Scheme,
    StoredTable,
    quantize_table,
)
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

require_onnx()  # names the extra to install

import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

LARGEST_FILE = 2**31 - 1  # bytes in a protocol buffer
OPSETS = {"": OPSET, "ai.onnx.ml": 4, "ai.onnx.contrib": 1, "com.microsoft": 1}
IR_VERSION = 11  # goes with opset 23
FLOAT, STRING = TensorProto.FLOAT, TensorProto.STRING
BOOL, INT32, INT64 = TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64
INT8, UINT8 = TensorProto.INT8, TensorProto.UINT8
LAST = np.iinfo(np.int64).max  # the end of an axis
SMALLEST_SCALE = 1e-30  # of a row of zeros
ZERO = 128  # what is added to numbers of 8 bits, which have no sign then
# Weights of 4 bits are multiplied as numbers of 7 bits and a sign. Where a processor
# has an instruction for sums of products, that is the fastest kind; on older ones two
# products with 8 bits would not fit into the 16 in which they are summed.
LARGEST_OF_4 = 64


# An input of a node: a value's name, or a constant: a float is float32, whole numbers
# are int64.
Input = str | float | tuple[int, ...]


class Graph:
    """Collects nodes and constants; names are numbers, so that files are the same.

    A value is its name in the graph: `str`.
    """

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: dict[str, onnx.TensorProto] = {}
        self._casts: dict[str, str] = {}
        self._types: list[onnx.ValueInfoProto] = []

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return a constant; equal ones are the same one.

        Args:
            value: Numbers, or str for strings.
            dtype: NumPy dtype of numbers; by default that of `value`.
        """
        array = np.asarray(value, dtype, order="C")
        if array.dtype.kind == "U":
            array = array.astype(object)
        tensor = numpy_helper.from_array(array)
        content = tensor.raw_data, *tensor.string_data
        key = digest(str(tensor.data_type), str(array.shape), *content)
        if key not in self._tensors:
            tensor.name = f"c{len(self._tensors)}"
            self._tensors[key] = tensor
        return self._tensors[key].name

    def part(self, value: str, first: int, last: int, axis: int = 0) -> str:
        """Return `value[first:last]` along an axis."""
        return self.node("Slice", value, (first,), (last,), (axis,))

    def weight(self, array: np.ndarray, half: bool) -> str:
        """Return float32 numbers that the file holds as float32, or float16 if `half`.

        They are widened where the graph starts; a runtime does so once, at loading.
        """
        if not half:
            return self.constant(array, np.float32)
        name = self.constant(array, np.float16)
        if name not in self._casts:
            self._casts[name] = self.node("Cast", name, to=FLOAT)
        return self._casts[name]

    def node(
        self, operator: str, *inputs: Input, domain: str = "", **fields: Any
    ) -> str:
        """Append a node and return its only output."""
        return self.nodes(operator, *inputs, outputs=1, domain=domain, **fields)[0]

    def nodes(
        self,
        operator: str,
        *inputs: Input,
        outputs: int,
        domain: str = "",
        **fields: Any,
    ) -> list[str]:
        """Append a node and return its outputs."""
        given = [
            value
            if isinstance(value, str)
            else self.constant(value, np.float32 if type(value) is float else np.int64)
            for value in inputs
        ]
        name = f"v{len(self._nodes)}"
        values = [name, *(f"{name}.{i}" for i in range(1, outputs))]
        title = f"{operator}_{len(self._nodes)}"
        fields |= {"name": title, "domain": domain}
        self._nodes.append(helper.make_node(operator, given, values, **fields))
        return values

    def declare(self, value: str, element_type: int) -> str:
        """Declare the output of a custom operator: numbers or strings, `(m,)`.

        Not knowing, ONNX's own tools crash and onnxruntime fuses fewer operators.
        """
        self._types.append(helper.make_tensor_value_info(value, element_type, [None]))
        return value

    def model(
        self,
        inputs: Mapping[str, tuple[int, list[Any]]],
        outputs: Mapping[str, tuple[str, int, list[Any]]],
    ) -> onnx.ModelProto:
        """Return the model.

        Args:
            inputs: Element type and shape by name.
            outputs: Value, element type and shape by name.
        """
        ends = [
            helper.make_node("Identity", [value], [name], f"output_{name}")
            for name, (value, _, _) in outputs.items()
        ]
        graph = helper.make_graph(
            self._nodes + ends,
            "encoder",
            [helper.make_tensor_value_info(k, *v) for k, v in inputs.items()],
            [helper.make_tensor_value_info(k, *v[1:]) for k, v in outputs.items()],
            list(self._tensors.values()),
            value_info=self._types,
        )
        used = {node.domain for node in graph.node}
        opsets = [helper.make_opsetid(*pair) for pair in OPSETS.items()]
        return helper.make_model(
            graph,
            producer_name="keras-msd",
            ir_version=IR_VERSION,
            opset_imports=[opset for opset in opsets if opset.domain in used],
        )


def append_network(
    graph: Graph, encoder: Any, scheme: Scheme, token_ids: str, padding_mask: str
) -> tuple[str, str]:
    """Append what `build_model` builds from Keras layers.

    Args:
        graph: Gets the nodes.
        encoder: Has the `config` and the `weights()`.
        scheme: How weights are stored.
        token_ids: int32 or int64 `(batch, length)`.
        padding_mask: The same, 1 on real tokens.

    Returns:
        Vectors of tokens and of sentences, float32 `(batch, length, hidden_dim)` and
        `(batch, dim)`.
    """
    operations = _Operations(graph, encoder, scheme, token_ids, padding_mask)
    return states(operations, encoder.config)


class _Operations:
    """The operations of `states`."""

    def __init__(
        self,
        graph: Graph,
        encoder: Any,
        scheme: Scheme,
        token_ids: str,
        padding_mask: str,
    ) -> None:
        self.graph, self.config = graph, encoder.config
        self.weights = plain_weights(encoder)
        self.stored = Weights(graph, scheme)
        self.ids = token_ids
        self.mask = graph.node("Cast", padding_mask, to=FLOAT)

    def word_rows(self) -> str:
        return self.stored.rows(self.weights[WORD], self.ids)

    def positions(self) -> str:
        length = self.graph.node("Shape", self.ids, start=1, end=2)
        return self.stored.first_rows(self.weights[POSITION], length)

    @cached_property
    def bias(self) -> str:
        """`(batch, 1, length, length)`: 0 on real tokens, else -`MASKED`."""
        graph = self.graph
        bias = graph.node("Mul", graph.node("Sub", 1.0, self.mask), -MASKED)
        bias = graph.node("Unsqueeze", bias, (1, 2))
        # onnxruntime wants a row for every query, although all are the same.
        length = graph.node("Shape", self.mask, start=1, end=2)
        shape = graph.node("Concat", (1, 1), length, (1,), axis=0)
        return graph.node("Expand", bias, shape)

    def attend(self, hidden: str, path: str) -> str:
        count = self.config.num_heads
        parts = [self.dense(hidden, f"{path}/{n}") for n in ("query", "key", "value")]
        mixed = self.graph.node(
            "Attention", *parts, self.bias, q_num_heads=count, kv_num_heads=count
        )
        return self.dense(mixed, f"{path}/attention_output")

    def activate(self, hidden: str) -> str:
        if self.config.activation == "relu":
            return self.graph.node("Relu", hidden)
        exact = self.config.activation == "gelu_erf"
        return self.graph.node("Gelu", hidden, approximate="none" if exact else "tanh")

    def tanh(self, vector: str) -> str:
        return self.graph.node("Tanh", vector)

    def add(self, first: str, second: str) -> str:
        return self.graph.node("Add", first, second)

    def product(self, inputs: str, path: str) -> str:
        return self.stored.product(inputs, self.weights[path])

    def dense(self, inputs: str, path: str) -> str:
        product = self.product(inputs, f"{path}/kernel")
        bias = self.weights.get(f"{path}/bias")
        return product if bias is None else self.add(product, self.stored.small(bias))

    def norm(self, hidden: str, path: str) -> str:
        both = [
            self.stored.small(self.weights[f"{path}/{n}"]) for n in ("gamma", "beta")
        ]
        epsilon = self.config.layer_norm_epsilon
        return self.graph.node("LayerNormalization", hidden, *both, epsilon=epsilon)

    def first(self, rows: str) -> str:
        return self.graph.node("Gather", rows, 0, axis=1)

    def max(self, rows: str) -> str:
        graph = self.graph
        real = graph.node("Unsqueeze", self.mask, (2,))
        shown = graph.node("Where", graph.node("Cast", real, to=BOOL), rows, -MASKED)
        return graph.node("ReduceMax", shown, (1,), keepdims=0)

    def mean(self, rows: str) -> str:
        graph, axis = self.graph, (1,)
        total = graph.node("MatMul", graph.node("Unsqueeze", self.mask, axis), rows)
        total = graph.node("Squeeze", total, axis)
        count = graph.node("ReduceSum", self.mask, axis, keepdims=1)
        return graph.node("Div", total, graph.node("Max", count, SMALLEST_COUNT))

    def unit(self, vectors: str) -> str:
        graph = self.graph
        square = graph.node("ReduceSumSquare", vectors, (1,), keepdims=1)
        norm = graph.node("Sqrt", graph.node("Max", square, SMALLEST_SQUARE))
        unit = graph.node("Div", vectors, norm)
        long = graph.node("Greater", square, SMALLEST_SQUARE)
        return graph.node("Where", long, unit, 0.0)


class Weights:
    """Puts an encoder's tensors into a graph, each once, stored as a scheme says.

    Args:
        graph: Gets the nodes.
        scheme: How the word table and the kernels are stored.
    """

    def __init__(self, graph: Graph, scheme: Scheme) -> None:
        self.graph, self.scheme = graph, scheme
        self._rounded: dict[str, tuple[str, str]] = {}
        # Kernels in 4 bits by their numbers and scales: repeated layers share one.
        self._kernels: dict[tuple[str, str], str] = {}

    def small(self, array: np.ndarray) -> str:
        """Return a bias or a norm's vector."""
        return self.graph.weight(array, half=self.scheme.blocks == "float16")

    def rows(self, table: np.ndarray, ids: str) -> str:
        """Return rows of the word table, float32 `(batch, length, width)`.

        Rows are widened after they were taken, so that the table stays small in memory
        too.
        """
        graph, kind = self.graph, self.scheme.table
        if kind == "float32":
            return graph.node("Gather", graph.constant(table, np.float32), ids)
        if kind == "float16":
            taken = graph.node("Gather", graph.constant(table, np.float16), ids)
            return graph.node("Cast", taken, to=FLOAT)
        stored = quantize_table(table, BITS[kind])
        numbers = graph.node("Gather", graph.constant(stored.values), ids)
        scales = graph.node("Gather", graph.constant(stored.scales), ids)
        if stored.scales.dtype != np.float32:
            scales = graph.node("Cast", scales, to=FLOAT)
        return self._widen(numbers, scales, stored, (0, 0))

    def first_rows(self, table: np.ndarray, length: str) -> str:
        """Return the first rows of the position table, float32 `(length, width)`."""
        graph, kind = self.graph, self.scheme.positions

        def first(rows: str) -> str:
            return graph.node("Slice", rows, (0,), length, (0,))

        if kind not in BITS:
            return first(graph.weight(table, half=kind == "float16"))
        stored = quantize_table(table, BITS[kind])
        numbers = first(graph.constant(stored.values))
        scales = first(graph.constant(stored.scales))
        return self._widen(numbers, scales, stored, (0,))

    def product(self, inputs: str, kernel: np.ndarray) -> str:
        """Return `inputs @ kernel`, with `kernel` float32 `(in, out)`.

        Kernels in 8 or 4 bits are multiplied as whole numbers, as are the inputs: a
        token's inputs share a scale, and so do the weights of an output. A runtime
        makes numbers of 7 bits from those of 4 once, at loading.
        """
        graph, kind = self.graph, self.scheme.blocks
        if kind not in BITS:
            stored = graph.weight(kernel, half=kind == "float16")
            return graph.node("MatMul", inputs, stored)
        numbers, input_scales = self._round(inputs)
        table = quantize_table(kernel.T, BITS[kind])
        if kind == "int8":
            zero, scales = graph.constant(ZERO, np.uint8), table.scales
            weights = graph.constant(table.values.T.astype(np.int16) + ZERO, np.uint8)
        else:
            zero, scales = graph.constant(0, np.int8), self._scales(table)
            weights = self._kernel(table, scales)
        zeros = graph.constant(ZERO, np.uint8), zero  # of the inputs, of the weights
        sums = graph.node("MatMulInteger", numbers, weights, *zeros)
        sums = graph.node("Mul", graph.node("Cast", sums, to=FLOAT), input_scales)
        return graph.node("Mul", sums, graph.constant(scales[:, 0], np.float32))

    @staticmethod
    def _scales(table: StoredTable) -> np.ndarray:
        """Return a scale for each output of a kernel in 4 bits, float32 `(out, 1)`."""
        largest = np.abs(table.dequantize()).max(axis=1, keepdims=True)
        return np.maximum(largest / LARGEST_OF_4, np.float32(SMALLEST_SCALE))

    def _kernel(self, table: StoredTable, scales: np.ndarray) -> str:
        """Return a kernel's numbers of 7 bits, int8 `(in, out)`.

        Args:
            table: Its transpose, stored in 4 bits.
            scales: Of the numbers, float32 `(out, 1)`.
        """
        graph = self.graph
        key = graph.constant(table.values), graph.constant(table.scales)
        if key not in self._kernels:
            values, groups = key
            groups = graph.node("Cast", groups, to=FLOAT)
            groups = graph.node("Div", groups, graph.constant(scales, np.float32))
            rows = graph.node("Round", self._widen(values, groups, table, (0,)))
            rows = graph.node("Cast", rows, to=INT8)
            self._kernels[key] = graph.node("Transpose", rows, perm=[1, 0])
        return self._kernels[key]

    def _widen(
        self, numbers: str, scales: str, stored: StoredTable, axes: tuple[int, ...]
    ) -> str:
        """Return what stored numbers stand for, float32 `(*axes, width)`."""
        graph = self.graph
        if stored.bits == 4:
            four, fifteen = (graph.constant(number, np.uint8) for number in (4, 15))
            first = graph.node("BitwiseAnd", numbers, fifteen)
            second = graph.node("BitShift", numbers, four, direction="RIGHT")
            numbers = graph.node("Concat", first, second, axis=-1)
            if stored.width % 2:
                numbers = graph.part(numbers, 0, stored.width, axis=-1)
        numbers = graph.node("Cast", numbers, to=FLOAT)
        if stored.bits == 4:
            numbers = graph.node("Sub", numbers, 8.0)
        groups = stored.scales.shape[1]
        if groups == 1:
            return graph.node("Mul", numbers, scales)
        split = (*axes, groups, stored.width // groups)
        parts = graph.node("Reshape", numbers, split)
        scaled = graph.node("Mul", parts, graph.node("Unsqueeze", scales, (-1,)))
        return graph.node("Reshape", scaled, (*axes, stored.width))

    def _round(self, rows: str) -> tuple[str, str]:
        """Round rows to numbers of 8 bits that stand for themselves times a scale.

        Returns:
            Numbers plus `ZERO`, uint8 of the same shape, and scales float32 `(..., 1)`.
        """
        if rows not in self._rounded:
            graph = self.graph
            sizes = graph.node("Abs", rows)
            largest = graph.node("ReduceMax", sizes, (-1,), keepdims=1)
            scales = graph.node("Div", largest, float(LARGEST[8]))
            scales = graph.node("Max", scales, SMALLEST_SCALE)
            numbers = graph.node("Round", graph.node("Div", rows, scales))
            numbers = graph.node("Add", numbers, float(ZERO))
            self._rounded[rows] = graph.node("Cast", numbers, to=UINT8), scales
        return self._rounded[rows]


def token_ids(
    graph: Graph, tokenizer: SentencePieceTokenizer, max_length: int, text: str
) -> tuple[str, str]:
    """Append a SentencePiece unigram tokenizer to a graph.

    The operator is an older release of the SentencePiece library. Where two splits of a
    word are equally likely ("00" + "0" and "0" + "00"), it may take the other one. It
    takes a NUL character for the end of the text.

    Args:
        graph: Gets the nodes.
        tokenizer: What is appended.
        max_length: Most ids per sentence, start and end included; a longer sentence
            loses ids before its end token, which stays.
        text: Strings `(n,)` in UTF-8.

    Returns:
        `token_ids` and `padding_mask` (1 on real tokens), int32 `(n, length)`.
    """
    node = graph.node
    # The operator fails on no row: there is one more until its ids are known.
    text = node("Concat", text, graph.constant(["a"]), axis=0)
    flag = graph.constant([False])
    # The operator has a switch for XLM-RoBERTa's ids. It shifts the ids of a batch's
    # first row once for every row, so the shift is made here.
    ids, splits = graph.nodes(
        "SentencepieceTokenizer",
        text,
        (0,),
        graph.constant([0], np.float32),
        *(flag, flag, flag),
        outputs=2,
        domain="ai.onnx.contrib",
        model=tokenizer.definition,
    )
    graph.declare(ids, INT32)
    graph.declare(splits, INT64)
    ids = node("Cast", ids, to=INT64)
    unknown = node("Equal", ids, 0)
    shifted = node("Add", ids, 1)
    flat = node("Where", unknown, tokenizer.unknown_id, shifted)
    # From here on `flat` holds the ids of all rows: `flat[splits[i] : splits[i + 1]]`.
    splits = graph.part(splits, 0, -1)
    starts = graph.part(splits, 0, -1)
    lengths = node("Sub", graph.part(splits, 1, LAST), starts)
    kept = node("Min", lengths, max_length - 2)
    longest = node("ReduceMax", node("Concat", kept, (0,), axis=0), (0,), keepdims=0)
    column = node("Range", 0, node("Add", longest, 2), 1)
    end = node("Add", node("Unsqueeze", kept, (1,)), 1)

    first = node("Unsqueeze", node("Sub", starts, 1), (1,))
    places = node("Add", first, column)
    # Columns beyond a row's end are replaced below; they must only exist.
    with_spare = node("Concat", flat, (tokenizer.pad_id,), axis=0)
    last = node("Squeeze", node("Shape", flat), (0,))
    places = node("Max", node("Min", places, last), 0)
    ids = node("Gather", with_spare, places)

    ids = node("Where", node("Equal", column, end), tokenizer.end_id, ids)
    real = node("LessOrEqual", column, end)
    ids = node("Where", real, ids, tokenizer.pad_id)
    ids = node("Where", node("Equal", column, 0), tokenizer.start_id, ids)
    return node("Cast", ids, to=INT32), node("Cast", real, to=INT32)


def check_ids(tokenizer: SentencePieceTokenizer) -> dict[str, int]:
    """Compare both tokenizers, see `proof.check_ids`."""
    session = _session(tokenizer)

    def encode(texts: list[str]) -> list[list[int]]:
        rows, masks = session.run(None, {"text": np.array(texts, object)})
        return [row[mask == 1].tolist() for row, mask in zip(rows, masks, strict=True)]

    return proof.check_ids(tokenizer, encode, "an ONNX file")


def _session(tokenizer: SentencePieceTokenizer) -> Any:
    """Return the tokenizer's part of the graph, in onnxruntime."""
    graph = Graph()
    ids, mask = token_ids(graph, tokenizer, proof.LONGEST, "text")
    shape = INT32, ["batch", "length"]
    model = graph.model(
        {"text": (STRING, ["batch"])},
        {"token_ids": (ids, *shape), "padding_mask": (mask, *shape)},
    )
    return new_session(model.SerializeToString(), extensions=True)


def write_ids(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.onnx`: network, pooling and normalisation.

    Inputs `token_ids`, `padding_mask` (1 on real tokens) int32 `(batch, length)`,
    padded at the right, at most `encoder.max_length` long; output `embedding` float32
    `(batch, dim)`. A tensor that several layers use is in the file once, and the same
    encoder gives the same bytes.

    With "fp16" arithmetic is float32. With the other quantizations it is that of the
    standard operator MatMulInteger, 8 bits times 8 bits. Each token's inputs have a
    scale of their own, so that a vector does not depend on its batch, as it does with
    onnxruntime's dynamic quantization.

    Args:
        encoder: The encoder to write.
        path: A folder that does not exist yet.
        quantize: How weights are stored, None or a key of `SCHEMES`.

    Returns:
        Facts for the card.

    Raises:
        InputError: The tokenizer has no portable description, the file would be over 2
            GiB, or a package is not installed.
    """
    description = describe(encoder.tokenizer, encoder.max_length).decode()
    inputs = dict.fromkeys(IDS, (INT32, ["batch", "length"]))
    model = _model(Graph(), encoder, quantize, inputs, IDS)
    model.metadata_props.add(key=TOKENIZER, value=description)
    save(model, path)
    copy_reader(path)
    return facts_of(model)


def write_text(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.onnx`: tokenizer, network, pooling, normalisation.

    Input `text`, strings `(batch,)` in UTF-8; output `embedding` float32 `(batch,
    dim)`. Longer texts than `encoder.max_length` tokens are cut as `encoder.encode`
    cuts them. The ids in the file are compared with the tokenizer's own, over the whole
    vocabulary and all of Unicode, before it is written. `write_ids` says the rest.

    Args:
        encoder: The encoder to write; its tokenizer is SentencePiece unigram.
        path: A folder that does not exist yet.
        quantize: How weights are stored, None or a key of `SCHEMES`.

    Returns:
        Facts for the card; `tokenizer_check` says what was compared.

    Raises:
        InputError: No operator gives the tokenizer's ids, the file would be over 2 GiB,
            or a package is not installed.
    """
    load_extensions()
    compared = check_ids(encoder.tokenizer)
    graph = Graph()
    ids = token_ids(graph, encoder.tokenizer, encoder.max_length, TEXT)
    model = _model(graph, encoder, quantize, {TEXT: (STRING, ["batch"])}, ids)
    save(model, path)
    return facts_of(model) | {"tokenizer_check": compared}


def _model(
    graph: Graph,
    encoder: Any,
    quantize: str | None,
    inputs: Mapping[str, tuple[int, list[Any]]],
    ids: tuple[str, str],
) -> onnx.ModelProto:
    """Append the network to a graph that has made `token_ids` and `padding_mask`."""
    _, vector = append_network(graph, encoder, SCHEMES[quantize], *ids)
    return graph.model(inputs, {OUTPUT: (vector, FLOAT, ["batch", encoder.dim])})


def facts_of(model: onnx.ModelProto) -> dict[str, Any]:
    """Return what a card says of a model."""
    operators = sorted({node.op_type for node in model.graph.node})
    return {"opset": OPSET, "min_onnxruntime": "1.23", "operators": operators}


def save(model: onnx.ModelProto, folder: Path, name: str = FILE) -> None:
    """Check a model and write it as a file; the same model gives the same bytes.

    Raises:
        InputError: It is larger than an ONNX file may be.
    """
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if size > LARGEST_FILE:
        raise InputError(
            f"An ONNX file must be smaller than {LARGEST_FILE} bytes. Received: "
            f"weights of {size} bytes. Give quantize='fp16' or 'int8', or trim the "
            "vocabulary."
        )
    onnx.checker.check_model(model, full_check=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(model.SerializeToString(deterministic=True))
