"""LiteRT models of token ids, and of a string for MediaPipe, made from an encoder.

The converted .tflite files are changed in ways that the converter does not offer; among
them kernels in fewer bits.
"""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from keras_msd.checks import InputError, require
from keras_msd.export.litert_files import (
    FILE,
    SIGNATURE,
    require_litert,
    with_tokenizer,
)
from keras_msd.export.portable import copy_reader, describe
from keras_msd.export.tensorflow_network import IDS, TensorFlowNetwork
from keras_msd.quantize import (
    BITS,
    FULL,
    INT4_GROUP,
    SCHEMES,
    kernel_bits,
    litert_kernel,
)
from keras_msd.tokenizers.graph import GraphTokenizer

# One kernel under two names: tensorflow-text's, and the one MediaPipe registers.
TOKENIZE = "TFText>FastSentencepieceTokenize"
TOKENIZE_IN_MEDIAPIPE = "TFSentencepieceTokenizeOp"
ALIGNMENT = 16  # bytes; what the schema asks of a tensor's data


def write_ids(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.tflite`, its tokenizer's description inside.

    The signature `serving_default` takes `token_ids`, `padding_mask` int32
    `(n, length)`, padding only at the right, and gives `embedding` float32 `(n, dim)`.
    A runtime resizes it to any batch and any length up to `encoder.max_length` in a
    fraction of a sentence's time and packs the weights once; a signature for each of a
    few lengths would pack them again. Sentences one by one, unpadded, are fastest. All
    operators are built in, and all with much to compute run in XNNPACK.

    Args:
        encoder: The encoder to write.
        path: A folder that does not exist yet.
        quantize: How weights are stored, a key of `SCHEMES`.

    Returns:
        Facts for the card.

    Raises:
        InputError: LiteRT is not installed, or the tokenizer cannot travel in a file.
    """
    require_litert()
    description = describe(encoder.tokenizer, encoder.max_length)
    network = _network(encoder, quantize)

    @tf.function(input_signature=IDS, autograph=False)
    def embed(token_ids: Any, padding_mask: Any) -> dict[str, Any]:
        return {"embedding": network(token_ids, padding_mask)}

    model = convert(network, embed)
    facts = _write(model, quantize, path, description)
    copy_reader(path)
    return facts


def write_text(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.tflite`, which MediaPipe's TextEmbedder loads.

    The input is one string, the output float32 `(1, dim)`. Tokenizer, network, pooling
    and normalisation are one graph of built-in operators and the tokenizer that
    MediaPipe brings. A sentence is computed at its own length; one of more than
    `encoder.max_length` tokens is cut as `encoder.encode` cuts it.

    Args:
        encoder: The encoder to write; its vocabulary is SentencePiece unigram.
        path: A folder that does not exist yet.
        quantize: How weights are stored, a key of `SCHEMES`.

    Returns:
        Facts for the card.

    Raises:
        InputError: A package is missing, or MediaPipe's tokenizer would give other ids
            than the encoder's.
    """
    require("mediapipe", "mediapipe", "A litert_text model")
    module = tf.Module()
    module.network = _network(encoder, quantize)
    module.tokenizer = tokenizer = GraphTokenizer(encoder.tokenizer, encoder.max_length)

    @tf.function(input_signature=[tf.TensorSpec([1], tf.string, name="text")])
    def embed(text: Any) -> dict[str, Any]:
        ids = tokenizer.plain(text).values[: encoder.max_length - 2]
        ids = tf.concat([[tokenizer.start_id], ids, [tokenizer.end_id]], axis=0)
        token_ids = ids[tf.newaxis]
        return {"embedding": module.network(token_ids, tf.ones_like(token_ids))}

    converted = convert(module, embed)
    converted.rename_custom(TOKENIZE, TOKENIZE_IN_MEDIAPIPE)
    return _write(converted, quantize, path)


def _network(encoder: Any, quantize: str | None) -> TensorFlowNetwork:
    # `quantize_kernels` changes the kernels once they are converted.
    return TensorFlowNetwork(encoder, SCHEMES[quantize]._replace(blocks=FULL.blocks))


def convert(module: tf.Module, embed: Any) -> "TFLiteModel":
    """Convert a function with float32 kernels to the signature `SIGNATURE`.

    Operators that LiteRT does not have become custom operators of the same name:
    compare `operators()` of the result with what the runtime registers.

    Args:
        module: Tracks the variables and tables that the function uses; others would
            not reach the file.
        embed: A `tf.function` with an input signature, returning a dictionary.
    """
    # A SavedModel keeps the signature's names.
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures={SIGNATURE: embed})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        converter.allow_custom_ops = True
        model = TFLiteModel(converter.convert())
    model.gather_halves()
    return model


def _write(
    model: "TFLiteModel",
    quantize: str | None,
    path: Path,
    description: bytes | None = None,
) -> dict[str, Any]:
    """Write a converted model with its kernels in fewer bits; return facts."""
    kernels = quantize_kernels(model, SCHEMES[quantize].blocks)
    model.name_tensors()
    content = model.pack()
    path.mkdir(parents=True)
    (path / FILE).write_bytes(
        content if description is None else with_tokenizer(content, description)
    )
    return {"kernels": kernels, "operators": model.operators()}


class TFLiteModel:
    """The contents of a .tflite file with one graph, to be changed and written again.

    Args:
        data: The file's bytes, straight from the converter.
    """

    def __init__(self, data: bytes) -> None:
        self.content = schema.ModelT.InitFromPackedBuf(bytearray(data), 0)
        (self.graph,) = self.content.subgraphs

    def operators(self) -> dict[str, int]:
        """Return how often each operator occurs, by name in alphabetical order."""
        numbers = vars(schema.BuiltinOperator).items()
        names = {number: name for name, number in numbers if isinstance(number, int)}
        codes = self.content.operatorCodes
        used = [codes[operator.opcodeIndex] for operator in self.graph.operators]
        counts = Counter(
            code.customCode.decode() if code.customCode else names[code.builtinCode]
            for code in used
        )
        return dict(sorted(counts.items()))

    def rename_custom(self, old: str, new: str) -> None:
        """Give a custom operator the name under which a runtime registers it."""
        for code in self.content.operatorCodes:
            if code.customCode == old.encode():
                code.customCode = new.encode()

    def gather_halves(self) -> None:
        """Make look-ups in a float16 table built in.

        The converter leaves them as custom operators `GatherV2`, although the kernel of
        the built-in GATHER takes float16.
        """
        codes = self.content.operatorCodes
        names = [code.customCode for code in codes]
        if b"GatherV2" not in names:
            return
        code = codes[names.index(b"GatherV2")]
        code.customCode = None
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.GATHER
        for operator in self.graph.operators:
            if codes[operator.opcodeIndex] is code:
                operator.inputs = operator.inputs[:2]  # the third is the axis, 0
                operator.customOptions = None
                operator.builtinOptionsType = schema.BuiltinOptions.GatherOptions
                operator.builtinOptions = schema.GatherOptionsT()

    def name_tensors(self) -> None:
        """Give all tensors short names of their own, except inputs and outputs.

        The converter's names are long, and tools such as ai-edge-quantizer cannot read
        a file with a tensor that has none.
        """
        ends = {*self.graph.inputs, *self.graph.outputs}
        for index, tensor in enumerate(self.graph.tensors):
            if index not in ends:
                tensor.name = f"{index:x}"

    def pack(self) -> bytes:
        """Return the file's bytes, with every tensor's data aligned."""
        plain = self.content.buffers
        self.content.buffers = [_AlignedBuffer(buffer.data) for buffer in plain]
        data = [buffer.data for buffer in plain if buffer.data is not None]
        size = sum(values.size + 64 for values in data)
        builder = flatbuffers.Builder(size + 65536)
        builder.Finish(self.content.Pack(builder), b"TFL3")
        self.content.buffers = plain
        return bytes(builder.Output())


class _AlignedBuffer(schema.BufferT):
    """A buffer whose data start at a multiple of `ALIGNMENT`, as the schema says."""

    def Pack(self, builder: Any) -> Any:  # noqa: N802
        if self.data is None:
            return super().Pack(builder)
        builder.Prep(ALIGNMENT, self.data.size)
        vector = builder.CreateByteVector(np.asarray(self.data, np.uint8).tobytes())
        schema.BufferStart(builder)
        schema.BufferAddData(builder, vector)
        return schema.BufferEnd(builder)


def quantize_kernels(model: TFLiteModel, kind: str) -> dict[str, int]:
    """Store the kernel of every fully connected operation as `kind`, in place.

    A kernel stays one tensor, however many operations use it. With whole numbers
    XNNPACK turns each row of activations into int8 while the model runs, and multiplies
    as whole numbers. Biases and all else stay as they are. The converter's own
    quantisation is not used: it also shortens the scales of a stored word table.

    Args:
        model: Has float32 kernels; is changed.
        kind: "float32" changes nothing; "float16" is expanded when the model is
            loaded; "int8" has a scale for each output; "int4" has one for every 32
            inputs of an output, and a kernel whose inputs are no multiple of 32 has
            8 bits.

    Returns:
        How many kernels are stored in each way.

    Raises:
        InputError: `kind` is "int4" and every kernel would have 8 bits.
    """
    store = {"float16": _halve, "int8": _to_eight_bits, "int4": _to_four_bits}
    stored: Counter[str] = Counter()
    for index in _kernels(model):
        tensor = model.graph.tensors[index]
        data = model.content.buffers[tensor.buffer].data.tobytes()
        kernel = np.frombuffer(data, np.float32).reshape(tensor.shape)
        fitting = kind
        if kind in BITS:
            fitting = f"int{kernel_bits(kind, kernel.shape[1])}"
        stored[fitting] += 1
        if fitting in store:
            store[fitting](model, index, kernel)
    if kind == "int4" and stored["int8"] and not stored["int4"]:
        raise InputError(
            "A LiteRT kernel in 4 bits needs a multiple of 32 inputs. Received: none "
            f"of {stored['int8']} kernels with one. Use quantize='int4_table', which "
            "is the same with such kernels."
        )
    return dict(stored)


def _kernels(model: TFLiteModel) -> list[int]:
    """Return the distinct constant tensors that are float32 kernels."""
    kernels: dict[int, None] = {}
    for operator in model.graph.operators:
        code = model.content.operatorCodes[operator.opcodeIndex].builtinCode
        if code == schema.BuiltinOperator.FULLY_CONNECTED:
            tensor = model.graph.tensors[operator.inputs[1]]
            constant = model.content.buffers[tensor.buffer].data is not None
            if constant and tensor.type == schema.TensorType.FLOAT32:
                kernels[int(operator.inputs[1])] = None
    return list(kernels)


def _halve(model: TFLiteModel, index: int, kernel: np.ndarray) -> None:
    """Store float16, and one operation that makes it float32 for all its users."""
    wide = _add_tensor(model, kernel.shape, schema.TensorType.FLOAT32)
    _store(model, index, kernel.astype(np.float16), schema.TensorType.FLOAT16)
    users = [user for user in model.graph.operators if index in user.inputs]
    for operator in users:
        inputs = np.asarray(operator.inputs, np.int32)
        operator.inputs = np.where(inputs == index, np.int32(wide), inputs)
    codes = model.content.operatorCodes
    kind = schema.BuiltinOperator.DEQUANTIZE
    places = [place for place, code in enumerate(codes) if code.builtinCode == kind]
    if not places:
        # Version 3 is the first that takes float16.
        codes.append(schema.OperatorCodeT(kind, version=3, builtinCode=kind))
        places = [len(codes) - 1]
    operator = schema.OperatorT(places[0], inputs=[index], outputs=[wide])
    # Not at the start: XNNPACK would get a piece of its own there.
    model.graph.operators.insert(model.graph.operators.index(users[0]), operator)


def _to_eight_bits(model: TFLiteModel, index: int, kernel: np.ndarray) -> None:
    values, scales = litert_kernel(kernel, 8)
    _store(model, index, values, schema.TensorType.INT8)
    model.graph.tensors[index].quantization = schema.QuantizationParametersT(
        scale=scales[:, 0], zeroPoint=np.zeros(len(kernel), np.int64)
    )


def _to_four_bits(model: TFLiteModel, index: int, kernel: np.ndarray) -> None:
    values, scales = litert_kernel(kernel, 4)
    _store(model, index, values, schema.TensorType.INT4)
    place = _add_tensor(model, scales.shape, schema.TensorType.FLOAT16)
    model.content.buffers.append(schema.BufferT())
    model.graph.tensors[place].buffer = len(model.content.buffers) - 1
    _store(model, place, scales, schema.TensorType.FLOAT16)
    model.graph.tensors[index].quantization = schema.QuantizationParametersT(
        detailsType=schema.QuantizationDetails.BlockwiseQuantization,
        details=schema.BlockwiseQuantizationT(place, -1, INT4_GROUP),
    )


def _add_tensor(model: TFLiteModel, shape: tuple[int, ...], kind: int) -> int:
    model.graph.tensors.append(schema.TensorT(list(shape), kind, hasRank=True))
    return len(model.graph.tensors) - 1


def _store(model: TFLiteModel, index: int, values: np.ndarray, kind: int) -> None:
    tensor = model.graph.tensors[index]
    data = np.frombuffer(values.tobytes(), np.uint8)
    model.content.buffers[tensor.buffer].data = data
    tensor.type = kind
