"""A bag-of-pieces vector beside the body, from the same word table."""

from typing import Any

import keras
from keras import ops

from keras_msd.layers.bottleneck_embedding import BottleneckEmbedding
from keras_msd.layers.l2_normalize import l2_normalize
from keras_msd.layers.masked_mean import masked_mean


class WordBranch(keras.layers.Layer):
    """Add the direction of a sentence's mean word row to the body's vector.

    `unit(mean(E[ids]) P) + weight * unit(sentence)`: `E` is the bottleneck table of
    `embedding`, so the branch owns only `P` `(bottleneck_dim, dim)` and one weight.

    Shapes: `token_ids`, `padding_mask` `(batch, length)`; `sentence` `(batch, dim)`;
    returns `(batch, dim)` float32.

    Args:
        embedding: The encoder's embedding layer; it has a bottleneck and is built.
        **kwargs: As for every Keras layer.

    Source: ours; a closed-form word model knows rare words long before a body does.
    """

    def __init__(self, embedding: BottleneckEmbedding, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.embedding = embedding

    def build(
        self, token_ids_shape: Any, padding_mask_shape: Any, sentence_shape: Any
    ) -> None:
        """Make the branch's projection and its weight."""
        self.projection = self.add_weight(
            name="projection",
            shape=(self.embedding.bottleneck_dim, sentence_shape[-1]),
            initializer="glorot_uniform",
        )
        self.body_weight = self.add_weight(
            name="body_weight", shape=(1,), initializer="ones"
        )

    def call(self, token_ids: Any, padding_mask: Any, sentence: Any) -> Any:
        """Return the sum of both directions."""
        rows = masked_mean(self.embedding.word_rows(token_ids), padding_mask)
        branch = ops.matmul(rows, ops.cast(self.projection, "float32"))
        weight = ops.cast(self.body_weight, "float32")
        return l2_normalize(branch) + weight * l2_normalize(sentence)

    def compute_output_spec(
        self, token_ids: Any, padding_mask: Any, sentence: Any
    ) -> Any:
        """Return the shape and dtype of the result: float32 whatever the policy."""
        return keras.KerasTensor(sentence.shape, "float32")
