"""Changes to a converted .tflite file that the converter does not offer."""

import hashlib
from typing import Any

import flatbuffers
import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

IDENTIFIER = b"TFL3"
ALIGNMENT = 16  # bytes; what the schema asks of a tensor's data
KEPT_METADATA = (b"min_runtime_version",)  # not how and where it was converted


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
        found = []
        for operator in self.graph.operators:
            code = self.content.operatorCodes[operator.opcodeIndex]
            custom = code.customCode
            found.append(custom.decode() if custom else names[code.builtinCode])
        return {name: found.count(name) for name in sorted(set(found))}

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

    def keep_end_names(self) -> None:
        """Drop notes of the converter and all names but those of inputs and outputs.

        They hold numbers that depend on what else the process has built.
        """
        ends = {*self.graph.inputs, *self.graph.outputs}
        for index, tensor in enumerate(self.graph.tensors):
            if index not in ends:
                tensor.name = None
        notes = self.content.metadata or []
        kept = [note for note in notes if note.name in KEPT_METADATA]
        for note in notes:
            if note not in kept:
                self.content.buffers[note.buffer].data = None
        self.content.metadata = kept

    def merge_buffers(self) -> None:
        """Store data that occur several times once."""
        kept: list[Any] = []
        place: list[int] = []
        first: dict[bytes, int] = {}
        for buffer in self.content.buffers:
            data = buffer.data
            # The runtime takes the first, which is empty, for "no data".
            key = b"" if data is None else hashlib.sha256(data.tobytes()).digest()
            if key not in first:
                first[key] = len(kept)
                kept.append(buffer)
            place.append(first[key])
        self.content.buffers = kept
        for tensor in self.graph.tensors:
            tensor.buffer = place[tensor.buffer]
        for entry in self.content.metadata or []:
            entry.buffer = place[entry.buffer]

    def pack(self) -> bytes:
        """Return the file's bytes, with every tensor's data aligned."""
        plain = self.content.buffers
        self.content.buffers = [_AlignedBuffer(one.data) for one in plain]
        size = sum(0 if one.data is None else one.data.size + 64 for one in plain)
        builder = flatbuffers.Builder(size + 65536)
        builder.Finish(self.content.Pack(builder), IDENTIFIER)
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
