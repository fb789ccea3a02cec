"""A transformer layer whose attention heads have a dimension of their own."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


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
