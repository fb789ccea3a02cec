"""An encoder's network as ONNX operators, its weights stored in few bits."""

import numpy as np

from keras_msd import checks
from keras_msd.export.onnx.graph import BOOL, FLOAT, Graph
from keras_msd.export.quantization import Scheme
from keras_msd.layers.pooling import POOLINGS, SMALLEST_SQUARE
from keras_msd.models.config import EncoderConfig
from keras_msd.models.network import matrix
from keras_msd.quantization import BITS, quantize_table, to_integers

MASKED = -1e9  # added to the score of a padding token, and its value in max pooling
LEAST_COUNT = 1e-9  # tokens that a mean divides by, as in `masked_mean`
BLOCKS = {8: (64, 32, 16), 4: (32, 16)}  # numbers of a column that share a scale
SCALE_BYTES = 4
INT8_ARITHMETIC = 4  # MatMulNBits' name for it: it rounds inputs, in blocks as well


class Network:
    """Appends a network to a graph: what `build_model` builds from Keras layers.

    Args:
        graph: Gets the nodes.
        config: The encoder's fields.
        weights: Its weights by path.
        scheme: How they are stored.
    """

    def __init__(
        self,
        graph: Graph,
        config: EncoderConfig,
        weights: dict[str, np.ndarray],
        scheme: Scheme,
    ) -> None:
        self.graph, self.config, self.weights = graph, config, weights
        self.stored = Weights(graph, scheme)

    def embed(self, token_ids: str, padding_mask: str) -> str:
        """Return sentence vectors; shapes as for `states`."""
        return self.states(token_ids, padding_mask)[1]

    def states(self, token_ids: str, padding_mask: str) -> tuple[str, str]:
        """Return the vectors of tokens and of sentences.

        Shapes: `token_ids`, `padding_mask` int32 or int64 `(batch, length)`; returns
        float32 `(batch, length, hidden_dim)` and `(batch, dim)`.
        """
        graph, config = self.graph, self.config
        mask = graph.node("Cast", padding_mask, to=FLOAT)
        rows = self._word_rows(token_ids)
        hidden = self._embedding(token_ids, rows)
        if config.num_layers:
            bias = self._attention_bias(mask)
            for _ in range(config.repeats):
                for index in range(config.num_layers):
                    hidden = self._block(f"body/block_{index}/", hidden, bias)
        vector = self._pooled(hidden, mask)
        if config.projection_dim is not None:
            vector = self._dense("projection/", vector)
            if config.projection_activation == "tanh":
                vector = graph.node("Tanh", vector)
        if config.word_branch:
            branch = self._mean(rows, mask)
            kernel = self.weights["word_branch/projection"]
            branch = self._unit(self.stored.product(branch, kernel))
            weight = self.stored.small(self.weights["word_branch/body_weight"])
            body = graph.node("Mul", self._unit(vector), weight)
            vector = graph.node("Add", branch, body)
        return hidden, self._unit(vector) if config.normalize else vector

    def _word_rows(self, token_ids: str) -> str:
        table = self.weights["embedding/word"].copy()
        table[self.config.pad_id] = 0  # as the layer does with the rows it took
        return self.stored.rows(table, token_ids)

    def _embedding(self, token_ids: str, rows: str) -> str:
        graph, weights = self.graph, self.weights
        hidden = rows
        if self.config.bottleneck_dim is not None:
            hidden = self.stored.product(rows, weights["embedding/projection"])
        positions = weights["embedding/position"][self.config.position_offset :]
        table = self.stored.small(positions + weights["embedding/type"][0])
        length = graph.node("Shape", token_ids, start=1, end=2)
        first = graph.node("Slice", table, graph.numbers(0), length, graph.numbers(0))
        hidden = graph.node("Add", hidden, first)
        if self.config.embedding_layer_norm:
            hidden = self._norm("embedding/layer_norm/", hidden)
        return hidden

    def _attention_bias(self, mask: str) -> str:
        """Return `(batch, 1, length, length)`: 0 on real tokens, else `MASKED`."""
        graph = self.graph
        padding = graph.node("Sub", graph.constant(1, np.float32), mask)
        bias = graph.node("Mul", padding, graph.constant(MASKED, np.float32))
        bias = graph.node("Unsqueeze", bias, graph.numbers(1, 2))
        # onnxruntime wants a row for every query, although all are the same.
        length, single = graph.node("Shape", mask, start=1, end=2), graph.numbers(1)
        shape = graph.node("Concat", single, single, length, single, axis=0)
        return graph.node("Expand", bias, shape)

    def _block(self, path: str, hidden: str, bias: str) -> str:
        first = self.config.normalize_first

        def attend(inputs: str) -> str:
            return self._attention(path + "self_attention_layer/", inputs, bias)

        def feed(inputs: str) -> str:
            wide = self._dense(path + "feedforward_intermediate_dense/", inputs)
            active = self._activated(wide)
            return self._dense(path + "feedforward_output_dense/", active)

        for sublayer, norm in (
            (attend, path + "self_attention_layer_norm/"),
            (feed, path + "feedforward_layer_norm/"),
        ):
            change = sublayer(self._norm(norm, hidden) if first else hidden)
            hidden = self.graph.node("Add", change, hidden)
            if not first:
                hidden = self._norm(norm, hidden)
        return hidden

    def _attention(self, path: str, inputs: str, bias: str) -> str:
        count = self.config.num_heads
        parts = [self._dense(f"{path}{n}/", inputs) for n in ("query", "key", "value")]
        mixed = self.graph.node(
            "Attention", *parts, bias, q_num_heads=count, kv_num_heads=count
        )
        return self._dense(path + "attention_output/", mixed)

    def _activated(self, hidden: str) -> str:
        if self.config.activation == "relu":
            return self.graph.node("Relu", hidden)
        exact = self.config.activation == "gelu_erf"
        return self.graph.node("Gelu", hidden, approximate="none" if exact else "tanh")

    def _dense(self, path: str, inputs: str) -> str:
        kernel, bias = self.weights[path + "kernel"], self.weights.get(path + "bias")
        product = self.stored.product(inputs, matrix(path, kernel))
        if bias is None:
            return product
        return self.graph.node("Add", product, self.stored.small(bias.reshape(-1)))

    def _norm(self, path: str, hidden: str) -> str:
        vectors = (self.stored.small(self.weights[path + n]) for n in ("gamma", "beta"))
        epsilon = self.config.layer_norm_epsilon
        return self.graph.node("LayerNormalization", hidden, *vectors, epsilon=epsilon)

    def _pooled(self, hidden: str, mask: str) -> str:
        graph, pooling = self.graph, self.config.pooling
        checks.one_of(POOLINGS, pooling=pooling)
        if pooling == "mean":
            return self._mean(hidden, mask)
        if pooling == "cls":
            return graph.node("Gather", hidden, graph.number(0), axis=1)
        real = graph.node("Unsqueeze", mask, graph.numbers(2))
        lowest = graph.constant(MASKED, np.float32)
        shown = graph.node("Where", graph.node("Cast", real, to=BOOL), hidden, lowest)
        return graph.node("ReduceMax", shown, graph.numbers(1), keepdims=0)

    def _mean(self, hidden: str, mask: str) -> str:
        graph = self.graph
        axis = graph.numbers(1)
        total = graph.node("MatMul", graph.node("Unsqueeze", mask, axis), hidden)
        total = graph.node("Squeeze", total, axis)
        count = graph.node("ReduceSum", mask, axis, keepdims=1)
        least = graph.constant(LEAST_COUNT, np.float32)
        return graph.node("Div", total, graph.node("Max", count, least))

    def _unit(self, vectors: str) -> str:
        graph = self.graph
        square = graph.node("ReduceSumSquare", vectors, graph.numbers(1), keepdims=1)
        least = graph.constant(SMALLEST_SQUARE, np.float32)
        norm = graph.node("Sqrt", graph.node("Max", square, least))
        unit = graph.node("Div", vectors, norm)
        zero = graph.constant(0, np.float32)
        return graph.node("Where", graph.node("Greater", square, least), unit, zero)


class Weights:
    """Puts an encoder's tensors into a graph, each once, stored as a scheme says.

    Args:
        graph: Gets the nodes.
        scheme: How the word table and the kernels are stored.
    """

    def __init__(self, graph: Graph, scheme: Scheme) -> None:
        self.graph, self.scheme = graph, scheme

    def small(self, array: np.ndarray) -> str:
        """Return a bias, a norm's vector or a position table."""
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
        if stored.bits == 4:
            four, fifteen = (graph.constant(number, np.uint8) for number in (4, 15))
            first = graph.node("BitwiseAnd", numbers, fifteen)
            second = graph.node("BitShift", numbers, four, direction="RIGHT")
            numbers = graph.node("Concat", first, second, axis=-1)
            if stored.width % 2:
                numbers = graph.part(numbers, 0, stored.width, axis=-1)
        numbers = graph.node("Cast", numbers, to=FLOAT)
        if stored.bits == 4:
            numbers = graph.node("Sub", numbers, graph.constant(8, np.float32))
        groups = stored.scales.shape[1]
        scales = graph.node("Gather", graph.constant(stored.scales), ids)
        if groups == 1:
            return graph.node("Mul", numbers, scales)
        split = graph.numbers(0, 0, groups, stored.width // groups)
        parts = graph.node("Reshape", numbers, split)
        wide = graph.node("Unsqueeze", scales, graph.numbers(-1))
        scaled = graph.node("Mul", parts, wide)
        return graph.node("Reshape", scaled, graph.numbers(0, 0, stored.width))

    def product(self, inputs: str, kernel: np.ndarray) -> str:
        """Return `inputs @ kernel`, with `kernel` float32 `(in, out)`."""
        graph, kind = self.graph, self.scheme.blocks
        if kind not in BITS:
            stored = graph.weight(kernel, half=kind == "float16")
            return graph.node("MatMul", inputs, stored)
        bits = BITS[kind]
        values, scales = pack(kernel, bits)
        return graph.node(
            "MatMulNBits",
            *(inputs, graph.constant(values), graph.constant(scales)),
            domain="com.microsoft",
            K=kernel.shape[0],
            N=kernel.shape[1],
            bits=bits,
            block_size=values.shape[2] * 8 // bits,
            accuracy_level=INT8_ARITHMETIC,
        )


def pack(kernel: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Store a kernel in blocks of a column, as onnxruntime's MatMulNBits reads it.

    Args:
        kernel: float32 `(in, out)`.
        bits: 8 or 4.

    Returns:
        uint8 `(out, blocks, bytes of a block)`: numbers plus 128, or two numbers plus 8
        a byte, the first in the low half; float32 scales `(out, blocks)`.
    """
    rows, columns = kernel.shape
    block = block_size(rows, bits)
    padded = np.zeros((columns, -(-rows // block) * block), np.float32)
    padded[:, :rows] = kernel.T
    numbers, scales = to_integers(padded, bits, block)
    shifted = numbers.astype(np.int16) + 2 ** (bits - 1)
    shifted = shifted.astype(np.uint8).reshape(columns, -1, block)
    if bits == 4:
        shifted = shifted[:, :, ::2] | (shifted[:, :, 1::2] << 4)
    return shifted, scales


def block_size(rows: int, bits: int) -> int:
    """Return how many numbers share a scale; narrow kernels have small blocks.

    64 with 8 bits and 32 with 4, unless a smaller block makes fewer bytes because the
    last one is padded less.
    """

    def stored(block: int) -> float:
        return -(-rows // block) * (block * bits / 8 + SCALE_BYTES)

    return min(BLOCKS[bits], key=stored)
