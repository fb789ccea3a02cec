"""Kernels in 8 or 4 bits, as the runtimes of LiteRT and ONNX multiply them."""

import numpy as np

from keras_msd.quantize.schemes import INT4_GROUP
from keras_msd.quantize.tables import to_integers

ONNX_BLOCKS = {8: 64, 4: 32}  # numbers of an output that share a scale


def kernel_integers(kernel: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Round a kernel as LiteRT files store it, and as training rounds it.

    A scale is that of an output with 8 bits, float32; and that of 32 inputs of an
    output with 4 bits, float16.

    Args:
        kernel: float32 `(out, in)`.
        bits: 8; or 4, where `in` is a multiple of 32.

    Returns:
        Numbers int8 `(out, in)` and scales `(out, groups)`.
    """
    group = kernel.shape[1] if bits == 8 else INT4_GROUP
    return to_integers(kernel, bits, group, np.float16)


def litert_kernel(kernel: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Store a kernel as `kernel_integers` rounds it, in the bytes of a LiteRT file.

    Returns:
        int8 `(out, in)` for the type INT8; or uint8 `(out * in / 2,)` for INT4, two
        numbers a byte in two's complement, the first in the low half. And the scales.
    """
    numbers, scales = kernel_integers(kernel, bits)
    if bits == 8:
        return numbers, scales
    pairs = numbers.reshape(-1, 2) & 15
    return pairs[:, 0] | pairs[:, 1] << 4, scales


def onnx_kernel(kernel: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Store a kernel in blocks of a column, as onnxruntime's MatMulNBits reads it.

    Args:
        kernel: float32 `(in, out)`.
        bits: 8 or 4.

    Returns:
        uint8 `(out, blocks, bytes of a block)`: numbers plus 128, or two numbers plus 8
        a byte, the first in the low half; float32 scales `(out, blocks)`.
    """
    rows, columns = kernel.shape
    block = ONNX_BLOCKS[bits]
    padded = np.zeros((columns, -(-rows // block) * block), np.float32)
    padded[:, :rows] = kernel.T
    numbers, scales = to_integers(padded, bits, block)
    shifted = numbers.astype(np.int16) + 2 ** (bits - 1)
    shifted = shifted.astype(np.uint8).reshape(columns, -1, block)
    if bits == 4:
        shifted = shifted[:, :, ::2] | (shifted[:, :, 1::2] << 4)
    return shifted, scales.astype(np.float32)
