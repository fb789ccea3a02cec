"""Keras layers of an encoder; they run on any Keras backend."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import keras
from keras import ops

from keras_msd import checks
from keras_msd.choices import Activation
from keras_msd.choices import Pooling as PoolingMode

__all__ = [
    "POOLINGS",
    "BottleneckEmbedding",
    "L2Normalize",
    "Pooling",
    "RecurrentEncoder",
    "gelu_erf",
    "gelu_tanh",
    "masked_mean",
]

POOLINGS = get_args(PoolingMode)
SMALLEST_SQUARE = 1e-24  # a norm of 1e-12; shorter rows count as zero vectors
RESIDUAL_OUTPUTS = ("attention_output", "feedforward_output_dense")


@keras.saving.register_keras_serializable(package="keras_msd")
class BottleneckEmbedding(keras.layers.Layer):
    """Embed token ids: `LayerNorm(E[ids] P + positions + types)`, then dropout.

    Only the word table is factorised, into `E` `(vocabulary_size, bottleneck_dim)` and
    the projection `P` `(bottleneck_dim, hidden_dim)` without a bias. With
    `bottleneck_dim=None` the table has the full width and there is no projection.

    Shapes: `token_ids` `(batch, length)` int; returns `(batch, length, hidden_dim)`.

    Args:
        vocabulary_size: Rows of the word table.
        bottleneck_dim: Width of the word table, or None for `hidden_dim`.
        hidden_dim: Width of the output.
        max_length: Longest sentence, in tokens; the position table has
            `max_length + position_offset` rows.
        num_types: Rows of the token-type table; every token has type 0.
        pad_id: Token whose output is zero and whose row gets no gradient, or None.
        position_offset: Row of the position table for the first token.
        layer_norm: Whether the sum is layer-normalised.
        layer_norm_epsilon: Epsilon of that normalisation.
        dropout: Share of values dropped in training.
        **kwargs: As for every Keras layer.

    Source: Ding et al. 2022, bottleneck embedding layer.

    Example:
        >>> layer = msd.layers.BottleneckEmbedding(100, 4, hidden_dim=16, max_length=8)
        >>> np.array(layer(np.array([[5, 6, 7]]))).shape
        (1, 3, 16)
        >>> {weight.name: tuple(weight.shape) for weight in layer.weights[:2]}
        {'word': (100, 4), 'projection': (4, 16)}
    """

    def __init__(
        self,
        vocabulary_size: int,
        bottleneck_dim: int | None,
        hidden_dim: int,
        max_length: int,
        num_types: int = 1,
        pad_id: int | None = None,
        position_offset: int = 0,
        layer_norm: bool = True,
        dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size, self.bottleneck_dim = vocabulary_size, bottleneck_dim
        self.hidden_dim, self.max_length = hidden_dim, max_length
        self.num_types, self.pad_id = num_types, pad_id
        self.position_offset, self.layer_norm = position_offset, layer_norm
        self.dropout, self.layer_norm_epsilon = dropout, layer_norm_epsilon
        self.normalization = (
            keras.layers.LayerNormalization(
                epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
            )
            if layer_norm
            else None
        )
        self.dropout_layer = keras.layers.Dropout(
            dropout, dtype=self.dtype_policy, name="dropout"
        )

    def build(self, token_ids_shape: Any) -> None:
        """Make the tables."""
        width = self.bottleneck_dim or self.hidden_dim
        self.word = self._table("word", (self.vocabulary_size, width))
        if self.bottleneck_dim is not None:
            self.projection = self.add_weight(
                name="projection",
                shape=(self.bottleneck_dim, self.hidden_dim),
                initializer="glorot_uniform",
            )
        rows = self.max_length + self.position_offset
        self.position = self._table("position", (rows, self.hidden_dim))
        self.type = self._table("type", (self.num_types, self.hidden_dim))
        if self.normalization is not None:
            self.normalization.build((*token_ids_shape, self.hidden_dim))

    def _table(self, name: str, shape: tuple[int, int]) -> Any:
        return self.add_weight(name=name, shape=shape, initializer=initial_kernel())

    def call(self, token_ids: Any, training: bool | None = None) -> Any:
        """Return the embedded tokens."""
        hidden = ops.take(self.word, token_ids, axis=0)
        if self.pad_id is not None:
            real = ops.cast(ops.not_equal(token_ids, self.pad_id), hidden.dtype)
            hidden = hidden * ops.expand_dims(real, -1)
        if self.bottleneck_dim is not None:
            hidden = ops.matmul(hidden, self.projection)
        length = ops.shape(token_ids)[1]
        start = self.position_offset
        hidden = hidden + ops.expand_dims(self.position[start : start + length], 0)
        hidden = hidden + self.type[0]
        if self.normalization is not None:
            hidden = self.normalization(hidden)
        return self.dropout_layer(hidden, training=training)

    def compute_output_spec(self, token_ids: Any, training: bool | None = None) -> Any:
        """Return the shape and dtype of the result."""
        shape = (*token_ids.shape, self.hidden_dim)
        return keras.KerasTensor(shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        arguments = (
            "vocabulary_size bottleneck_dim hidden_dim max_length num_types pad_id "
            "position_offset layer_norm dropout layer_norm_epsilon"
        ).split()
        return super().get_config() | {key: getattr(self, key) for key in arguments}


def initial_kernel() -> keras.Initializer:
    """Return the distribution of an untrained kernel, with a seed of its own."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


class TransformerBlock(keras.layers.Layer):
    """Self-attention and a feed-forward layer, each with a residual and a norm.

    Weights, their paths and the arithmetic are those of
    `keras_hub.layers.TransformerEncoder`, whose heads share `hidden_dim` out among
    themselves. Here they are as many and as wide as you say.

    Shapes: `hidden` `(batch, length, hidden_dim)`; `padding_mask` bool `(batch,
    length)`, true on real tokens; returns the shape of `hidden`.

    Args:
        intermediate_dim: Width of the feed-forward layer.
        num_heads: Attention heads.
        head_dim: Dimension of a head's queries, keys and values.
        dropout: Share of values dropped in training.
        activation: Of the feed-forward layer: a name or a function.
        layer_norm_epsilon: Epsilon of both layer normalisations.
        normalize_first: Normalise before a sublayer (pre-norm), not after the sum.
        **kwargs: As for every Keras layer.

    Source: Vaswani et al. 2017, section 3.
    """

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        head_dim: int,
        dropout: float,
        activation: str | Callable[[Any], Any],
        layer_norm_epsilon: float,
        normalize_first: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.intermediate_dim, self.activation = intermediate_dim, activation
        self.normalize_first = normalize_first
        shared = {"dtype": self.dtype_policy}
        self.attention = keras.layers.MultiHeadAttention(
            num_heads,
            head_dim,
            dropout=dropout,
            kernel_initializer=initial_kernel(),
            name="self_attention_layer",
            **shared,
        )
        self.attention_norm, self.feedforward_norm = (
            keras.layers.LayerNormalization(
                epsilon=layer_norm_epsilon, name=f"{name}_layer_norm", **shared
            )
            for name in ("self_attention", "feedforward")
        )
        self.attention_dropout, self.feedforward_dropout = (
            keras.layers.Dropout(dropout, name=f"{name}_dropout", **shared)
            for name in ("self_attention", "feedforward")
        )

    def build(self, hidden_shape: Any) -> None:
        """Make the weights."""
        self.attention.build(hidden_shape, hidden_shape)
        self.attention_norm.build(hidden_shape)
        self.feedforward_norm.build(hidden_shape)
        self.intermediate = keras.layers.Dense(
            self.intermediate_dim,
            activation=self.activation,
            kernel_initializer=initial_kernel(),
            dtype=self.dtype_policy,
            name="feedforward_intermediate_dense",
        )
        self.intermediate.build(hidden_shape)
        self.outputs = keras.layers.Dense(
            hidden_shape[-1],
            kernel_initializer=initial_kernel(),
            dtype=self.dtype_policy,
            name="feedforward_output_dense",
        )
        self.outputs.build((*hidden_shape[:-1], self.intermediate_dim))

    def call(
        self, hidden: Any, padding_mask: Any = None, training: bool | None = None
    ) -> Any:
        """Return the token vectors after the layer."""
        mask = None if padding_mask is None else ops.expand_dims(padding_mask, 1)

        def attend(inputs: Any) -> Any:
            return self.attention(
                inputs, inputs, attention_mask=mask, training=training
            )

        def feed(inputs: Any) -> Any:
            return self.outputs(self.intermediate(inputs))

        for sublayer, norm, dropout in (
            (attend, self.attention_norm, self.attention_dropout),
            (feed, self.feedforward_norm, self.feedforward_dropout),
        ):
            inputs = norm(hidden) if self.normalize_first else hidden
            hidden = hidden + dropout(sublayer(inputs), training=training)
            if not self.normalize_first:
                hidden = norm(hidden)
        return hidden

    def compute_output_shape(self, hidden_shape: Any) -> Any:
        """Return the shape of `hidden`."""
        return hidden_shape


@keras.saving.register_keras_serializable(package="keras_msd")
def gelu_erf(x: Any) -> Any:
    """Return `0.5 x (1 + erf(x / sqrt 2))`, element by element.

    Written out because the exact gelu of the framework becomes an operation that ONNX
    runtimes do not have.

    Source: Hendrycks & Gimpel 2016, section 2.

    Example:
        >>> np.array(msd.layers.gelu_erf(np.float32([-1, 0, 1]))).round(3)
        array([-0.159,  0.   ,  0.841], dtype=float32)
    """
    return 0.5 * x * (1.0 + ops.erf(x * (1.0 / math.sqrt(2.0))))


@keras.saving.register_keras_serializable(package="keras_msd")
def gelu_tanh(x: Any) -> Any:
    """Return `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.

    Source: Hendrycks & Gimpel 2016, section 2, the approximation.

    Example:
        >>> np.array(msd.layers.gelu_tanh(np.float32([-3, 0, 3]))).round(3)
        array([-0.004,  0.   ,  2.996], dtype=float32)
    """
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + ops.tanh(inner))


ACTIVATIONS: dict[Activation, Any] = {
    "gelu_erf": gelu_erf,
    "gelu_tanh": gelu_tanh,
    "relu": "relu",
}


@contextmanager
def _without_flash_attention() -> Iterator[None]:
    """Build attention layers that do not try cuDNN's flash attention.

    Keras would try it under JAX. It refuses a mask of padding, and Keras logs a
    traceback for it in every layer.
    """
    before = keras.config.is_flash_attention_enabled()
    keras.config.disable_flash_attention()
    try:
        yield
    finally:
        if before is not False:
            keras.config.enable_flash_attention()


@keras.saving.register_keras_serializable(package="keras_msd")
class RecurrentEncoder(keras.layers.Layer):
    """Run `num_blocks` transformer blocks `repeats` times, the whole unit each time.

    Depth is `num_blocks * repeats`; the parameters are those of `num_blocks`. Order of
    a unit of three: 1 2 3 1 2 3. Dropout is drawn anew on every pass.

    Shapes: `hidden` `(batch, length, hidden_dim)`; `padding_mask` `(batch, length)`,
    non-zero on real tokens; returns the shape of `hidden`.

    Args:
        num_blocks: Blocks that own weights, at least 1.
        repeats: Passes over those blocks, at least 1.
        num_heads: Attention heads; without `head_dim` they must divide `hidden_dim`.
        intermediate_dim: Width of the feed-forward layer.
        activation: "gelu_erf" (exact), "gelu_tanh" or "relu".
        layer_norm_epsilon: Epsilon of every layer normalisation.
        normalize_first: Normalise before a sublayer (pre-norm), not after the sum.
        zero_residuals: Start with the output kernels of every sublayer at zero; with
            `normalize_first` the untrained unit is then the identity.
        dropout: Share of values dropped in training.
        head_dim: Dimension of a head, None for `hidden_dim / num_heads`.
        **kwargs: As for every Keras layer.

    Source: Ding et al. 2022, parameter recurrence.

    Example:
        >>> unit = msd.layers.RecurrentEncoder(1, 3, num_heads=2, intermediate_dim=16)
        >>> np.array(unit(np.ones((2, 5, 8), "float32"))).shape
        (2, 5, 8)
        >>> len(unit.weights)  # of one block, whatever `repeats` is
        16
    """

    def __init__(
        self,
        num_blocks: int,
        repeats: int,
        num_heads: int,
        intermediate_dim: int,
        activation: Activation = "gelu_erf",
        layer_norm_epsilon: float = 1e-12,
        normalize_first: bool = False,
        zero_residuals: bool = False,
        dropout: float = 0.1,
        head_dim: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        checks.one_of(ACTIVATIONS, activation=activation)
        self.num_blocks, self.repeats, self.num_heads = num_blocks, repeats, num_heads
        self.intermediate_dim, self.activation = intermediate_dim, activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.normalize_first, self.zero_residuals = normalize_first, zero_residuals
        self.dropout, self.head_dim = dropout, head_dim
        import keras_hub  # half a second, which who only imports Keras would wait for

        def block(**fields: Any) -> keras.layers.Layer:
            if head_dim is not None:
                return TransformerBlock(head_dim=head_dim, **fields)
            return keras_hub.layers.TransformerEncoder(
                kernel_initializer=initial_kernel(), **fields
            )

        self.blocks = [
            block(
                intermediate_dim=intermediate_dim,
                num_heads=num_heads,
                dropout=dropout,
                activation=ACTIVATIONS[activation],
                layer_norm_epsilon=layer_norm_epsilon,
                normalize_first=normalize_first,
                dtype=self.dtype_policy,
                name=f"block_{index}",
            )
            for index in range(num_blocks)
        ]

    def build(self, hidden_shape: Any, padding_mask_shape: Any = None) -> None:
        """Make the weights of the unit, once."""
        for block in self.blocks:
            with _without_flash_attention():
                block.build(hidden_shape)
            if self.zero_residuals:
                for weight in block.weights:
                    if weight.path.split("/")[-2] in RESIDUAL_OUTPUTS:
                        weight.assign(ops.zeros(weight.shape))

    def call(
        self, hidden: Any, padding_mask: Any = None, training: bool | None = None
    ) -> Any:
        """Return the token vectors after `num_blocks * repeats` layers."""
        if padding_mask is not None:
            padding_mask = ops.cast(padding_mask, "bool")
        for _ in range(self.repeats):
            for block in self.blocks:
                hidden = block(hidden, padding_mask=padding_mask, training=training)
        return hidden

    def compute_output_shape(
        self, hidden_shape: Any, padding_mask_shape: Any = None
    ) -> Any:
        """Return the shape of `hidden`."""
        return hidden_shape

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        arguments = (
            "num_blocks repeats num_heads intermediate_dim activation "
            "layer_norm_epsilon normalize_first zero_residuals dropout head_dim"
        ).split()
        return super().get_config() | {key: getattr(self, key) for key in arguments}


def masked_mean(hidden: Any, mask: Any) -> Any:
    """Average `hidden` over the tokens that `mask` keeps, in float32.

    Shapes: `hidden` `(batch, length, dim)`; `mask` `(batch, length)`, non-zero on real
    tokens; returns `(batch, dim)` float32. A sentence without a token gives zeros.

    Source: Reimers & Gurevych 2019, mean pooling.

    Example:
        >>> hidden = np.float32([[[1, 2], [3, 4], [9, 9]]])
        >>> np.array(msd.layers.masked_mean(hidden, np.array([[1, 1, 0]])))
        array([[2., 3.]], dtype=float32)
    """
    weights = ops.cast(mask, "float32")
    total = ops.einsum("bld,bl->bd", ops.cast(hidden, "float32"), weights)
    count = ops.sum(weights, axis=1, keepdims=True)
    return total / ops.maximum(count, 1e-9)


@keras.saving.register_keras_serializable(package="keras_msd")
class Pooling(keras.layers.Layer):
    """Pool token vectors by their mean, their first, or their largest values.

    Shapes: `hidden` `(batch, length, dim)`; `padding_mask` `(batch, length)`, non-zero
    on real tokens; returns `(batch, dim)` float32.

    Args:
        mode: "mean" over real tokens, "cls" (the first token) or "max".
        **kwargs: As for every Keras layer.

    Example:
        >>> hidden = np.float32([[[1, 4], [3, 2], [9, 9]]])
        >>> np.array(msd.layers.Pooling("max")(hidden, np.array([[1, 1, 0]])))
        array([[3., 4.]], dtype=float32)
    """

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        checks.one_of(POOLINGS, mode=mode)
        self.mode = mode

    def call(self, hidden: Any, padding_mask: Any) -> Any:
        """Return one vector per sentence."""
        if self.mode == "mean":
            return masked_mean(hidden, padding_mask)
        hidden = ops.cast(hidden, "float32")
        if self.mode == "cls":
            # Not [:, 0]: a batch of no sentence may have no token either.
            return ops.sum(hidden[:, :1], axis=1)
        real = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)
        return ops.max(ops.where(real, hidden, -1e9), axis=1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return super().get_config() | {"mode": self.mode}


def l2_normalize(vectors: Any) -> Any:
    """Scale rows to length one, in float32; a zero row stays zero, without gradient.

    Shapes: `vectors` `(n, dim)` in and out.
    """
    vectors = ops.cast(vectors, "float32")
    square = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    # The inner maximum keeps the branch not taken finite: `where` differentiates both.
    inverse = ops.rsqrt(ops.maximum(square, SMALLEST_SQUARE))
    return vectors * ops.where(square > SMALLEST_SQUARE, inverse, 0.0)


@keras.saving.register_keras_serializable(package="keras_msd")
class L2Normalize(keras.layers.Layer):
    """Scale every vector to Euclidean norm one, in float32.

    Shapes: `(batch, dim)` in and out.

    Args:
        **kwargs: As for every Keras layer.

    Example:
        >>> np.array(msd.layers.L2Normalize()(np.float32([[3, 4], [0, 0]])))
        array([[0.6, 0.8],
               [0. , 0. ]], dtype=float32)
    """

    def __init__(self, **kwargs: Any) -> None:
        # Half precision would lose long and short vectors before they get here.
        super().__init__(autocast=False, **kwargs)

    def call(self, vectors: Any) -> Any:
        """Return the unit vectors."""
        return l2_normalize(vectors)
