"""A bag-of-pieces vector beside the body, from the same word table."""

from typing import Any

import keras
from keras import ops

from keras_msd.layers.l2_normalize import l2_normalize
from keras_msd.layers.masked_mean import masked_mean


@keras.saving.register_keras_serializable(package="keras_msd")
class WordBranch(keras.layers.Layer):
    """Add the direction of a sentence's mean word row to the body's vector.

    `unit(mean(E[ids]) P) + weight * unit(sentence)`: `E` is the bottleneck table of
    `embedding`, so the branch owns only `P` `(bottleneck_dim, dim)` and one weight.

    Shapes: `rows` `(batch, length, bottleneck_dim)`, what `BottleneckEmbedding` gives
    for `rows_only`; `padding_mask` `(batch, length)`; `sentence` `(batch, dim)`;
    returns `(batch, dim)` float32, and computes in it.

    Args:
        **kwargs: As for every Keras layer.

    Source: ours; a closed-form word model knows rare words long before a body does.
    """

    def __init__(self, **kwargs: Any) -> None:
        # Half precision would lose long and short vectors before they get here.
        super().__init__(autocast=False, **kwargs)

    def build(
        self, rows_shape: Any, padding_mask_shape: Any, sentence_shape: Any
    ) -> None:
        """Make the branch's projection and its weight."""
        self.projection = self.add_weight(
            name="projection",
            shape=(rows_shape[-1], sentence_shape[-1]),
            initializer="glorot_uniform",
        )
        self.body_weight = self.add_weight(
            name="body_weight", shape=(1,), initializer="ones"
        )

    def call(self, rows: Any, padding_mask: Any, sentence: Any) -> Any:
        """Return the sum of both directions."""
        mean = masked_mean(rows, padding_mask)
        branch = ops.matmul(mean, ops.cast(self.projection, "float32"))
        weight = ops.cast(self.body_weight, "float32")
        return l2_normalize(branch) + weight * l2_normalize(sentence)

    def compute_output_spec(self, rows: Any, padding_mask: Any, sentence: Any) -> Any:
        """Return the shape and dtype of the result: float32 whatever the policy."""
        return keras.KerasTensor(sentence.shape, "float32")
