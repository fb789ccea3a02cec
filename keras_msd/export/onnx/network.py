"""An encoder's network as ONNX operators."""

import numpy as np

from keras_msd.export.onnx.graph import BOOL, FLOAT, Graph
from keras_msd.export.onnx.quantize import Weights
from keras_msd.export.quantization import Scheme
from keras_msd.layers.l2_normalize import SMALLEST_SQUARE
from keras_msd.models.config import EncoderConfig

MASKED = -1e9  # added to the score of a padding token, and its value in max pooling
LEAST_COUNT = 1e-9  # tokens that a mean divides by, as in `masked_mean`


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
        """Return sentence vectors.

        Shapes: `token_ids`, `padding_mask` int32 `(batch, length)`; returns float32
        `(batch, dim)`.
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
        return self._unit(vector) if config.normalize else vector

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
        length, one = graph.node("Shape", mask, start=1, end=2), graph.numbers(1)
        shape = graph.node("Concat", one, one, length, one, axis=0)
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
        heads = self.config.num_heads
        query, key, value = (
            self._dense(f"{path}{name}/", inputs) for name in ("query", "key", "value")
        )
        mixed = self.graph.node(
            "Attention", query, key, value, bias, q_num_heads=heads, kv_num_heads=heads
        )
        return self._dense(path + "attention_output/", mixed)

    def _activated(self, hidden: str) -> str:
        if self.config.activation == "relu":
            return self.graph.node("Relu", hidden)
        exact = self.config.activation == "gelu_erf"
        return self.graph.node("Gelu", hidden, approximate="none" if exact else "tanh")

    def _dense(self, path: str, inputs: str) -> str:
        kernel, bias = self.weights[path + "kernel"], self.weights.get(path + "bias")
        if kernel.ndim == 3:  # heads apart: the widths of one side stand in two axes
            outwards = path.endswith("attention_output/")
            width = kernel.shape[-1] if outwards else kernel.shape[0]
            kernel = kernel.reshape((-1, width) if outwards else (width, -1))
        product = self.stored.product(inputs, kernel)
        if bias is None:
            return product
        return self.graph.node("Add", product, self.stored.small(bias.reshape(-1)))

    def _norm(self, path: str, hidden: str) -> str:
        gamma, beta = (
            self.stored.small(self.weights[path + n]) for n in ("gamma", "beta")
        )
        return self.graph.node(
            "LayerNormalization",
            hidden,
            gamma,
            beta,
            epsilon=self.config.layer_norm_epsilon,
        )

    def _pooled(self, hidden: str, mask: str) -> str:
        graph = self.graph
        if self.config.pooling == "mean":
            return self._mean(hidden, mask)
        if self.config.pooling == "cls":
            return graph.node("Gather", hidden, graph.constant(0), axis=1)
        real = graph.node("Unsqueeze", mask, graph.numbers(2))
        lowest = graph.constant(MASKED, np.float32)
        shown = graph.node("Where", graph.node("Cast", real, to=BOOL), hidden, lowest)
        return graph.node("ReduceMax", shown, graph.numbers(1), keepdims=0)

    def _mean(self, hidden: str, mask: str) -> str:
        graph = self.graph
        flat = graph.node("Unsqueeze", mask, graph.numbers(1))
        total = graph.node(
            "Squeeze", graph.node("MatMul", flat, hidden), graph.numbers(1)
        )
        count = graph.node("ReduceSum", mask, graph.numbers(1), keepdims=1)
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
