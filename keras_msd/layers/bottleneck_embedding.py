"""Token embedding with a narrow word table; positions and types at full width."""

from typing import Any

import keras
from keras import ops


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
        self.word = self._table("word", (self.vocabulary_size, self.width))
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

    @property
    def width(self) -> int:
        """Columns of the word table."""
        return self.bottleneck_dim or self.hidden_dim

    def _table(self, name: str, shape: tuple[int, int]) -> Any:
        normal = keras.initializers.TruncatedNormal(stddev=0.02)
        return self.add_weight(name=name, shape=shape, initializer=normal)

    def call(self, token_ids: Any, training: bool | None = None) -> Any:
        """Return the embedded tokens."""
        hidden = self.word_rows(token_ids)
        if self.bottleneck_dim is not None:
            hidden = ops.matmul(hidden, self.projection)
        length = ops.shape(token_ids)[1]
        start = self.position_offset
        hidden = hidden + ops.expand_dims(self.position[start : start + length], 0)
        hidden = hidden + self.type[0]
        if self.normalization is not None:
            hidden = self.normalization(hidden)
        return self.dropout_layer(hidden, training=training)

    def word_rows(self, token_ids: Any) -> Any:
        """Return rows of the word table, zero for `pad_id`: `(batch, length, B)`."""
        rows = ops.take(self.word, token_ids, axis=0)
        if self.pad_id is None:
            return rows
        real = ops.cast(ops.not_equal(token_ids, self.pad_id), rows.dtype)
        return rows * ops.expand_dims(real, -1)

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
