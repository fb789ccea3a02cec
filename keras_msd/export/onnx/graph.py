"""An ONNX graph built node by node, in which every tensor is stored once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from keras_msd.export.onnx.files import OPSET
from keras_msd.files import digest

OPSETS = {"": OPSET, "ai.onnx.ml": 4, "ai.onnx.contrib": 1, "com.microsoft": 1}
IR_VERSION = 11  # goes with opset 23
FLOAT, STRING = TensorProto.FLOAT, TensorProto.STRING
BOOL, INT32, INT64 = TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64
LAST = np.iinfo(np.int64).max  # the end of an axis


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
        texts = array.dtype.kind == "U"
        flat: list[Any]
        flat = [item.encode() for item in array.flat] if texts else [array.tobytes()]
        kind = "text" if texts else array.dtype.str
        key = digest(kind, str(array.shape), *flat)
        if key not in self._tensors:
            name = f"c{len(self._tensors)}"
            if texts:
                tensor = helper.make_tensor(name, STRING, array.shape, flat)
            else:
                tensor = numpy_helper.from_array(array, name)
            self._tensors[key] = tensor
        return self._tensors[key].name

    def number(self, value: int) -> str:
        """Return a constant whole number, int64 without axes."""
        return self.constant(value, np.int64)

    def numbers(self, *values: int) -> str:
        """Return a constant of whole numbers, int64 `(len(values),)`."""
        return self.constant(values, np.int64)

    def part(self, value: str, first: int, last: int, axis: int = 0) -> str:
        """Return `value[first:last]` along an axis."""
        return self.node("Slice", value, *map(self.numbers, (first, last, axis)))

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

    def node(self, operator: str, *inputs: str, domain: str = "", **fields: Any) -> str:
        """Append a node and return its only output."""
        return self.nodes(operator, *inputs, outputs=1, domain=domain, **fields)[0]

    def nodes(
        self,
        operator: str,
        *inputs: str,
        outputs: int,
        domain: str = "",
        **fields: Any,
    ) -> list[str]:
        """Append a node and return its outputs."""
        name = f"v{len(self._nodes)}"
        values = [name, *(f"{name}.{i}" for i in range(1, outputs))]
        title = f"{operator}_{len(self._nodes)}"
        fields |= {"name": title, "domain": domain}
        self._nodes.append(helper.make_node(operator, inputs, values, **fields))
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
