"""Lookups and matrix products in an ONNX graph, with weights stored in few bits."""

import numpy as np

from keras_msd.export.onnx.graph import FLOAT, Graph
from keras_msd.export.quantization import Scheme
from keras_msd.export.word_table import StoredTable, quantize_table

BITS = {"int8": 8, "int4": 4}
BLOCKS = {8: (64, 32, 16), 4: (32, 16)}  # numbers of a column that share a scale
SCALE_BYTES = 4
INT8_ARITHMETIC = 4  # MatMulNBits' name for it: it rounds inputs, in blocks as well


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
        taken = graph.node("Gather", graph.constant(stored.values), ids)
        if stored.bits == 4:
            taken = self._unpacked(taken, stored.width)
        numbers = graph.node("Cast", taken, to=FLOAT)
        if stored.bits == 4:
            numbers = graph.node("Sub", numbers, graph.constant(8, np.float32))
        return self._scaled(numbers, stored, ids)

    def _unpacked(self, packed: str, width: int) -> str:
        graph = self.graph
        first = graph.node("BitwiseAnd", packed, graph.constant(15, np.uint8))
        second = graph.node(
            "BitShift", packed, graph.constant(4, np.uint8), direction="RIGHT"
        )
        both = graph.node("Concat", first, second, axis=-1)
        if width % 2 == 0:
            return both
        return graph.part(both, 0, width, axis=-1)

    def _scaled(self, numbers: str, stored: StoredTable, ids: str) -> str:
        graph, groups = self.graph, stored.scales.shape[1]
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
            inputs,
            graph.constant(values),
            graph.constant(scales),
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
    stored = quantize_table(padded, bits, group=block)
    numbers = np.rint(stored.dequantize() / np.repeat(stored.scales, block, axis=1))
    shifted = (numbers + 2 ** (bits - 1)).astype(np.uint8).reshape(columns, -1, block)
    if bits == 4:
        shifted = shifted[:, :, ::2] | (shifted[:, :, 1::2] << 4)
    return shifted, stored.scales


def block_size(rows: int, bits: int) -> int:
    """Return how many numbers share a scale; narrow kernels have small blocks.

    64 with 8 bits and 32 with 4, unless a smaller block makes fewer bytes because the
    last one is padded less.
    """

    def stored(block: int) -> float:
        return -(-rows // block) * (block * bits / 8 + SCALE_BYTES)

    return min(BLOCKS[bits], key=stored)
