"""Squared distance between the cosine of two embeddings and a gold similarity."""

from typing import Any

import keras
from keras import ops

from keras_msd import checks
from keras_msd.layers.l2_normalize import l2_normalize
from keras_msd.losses.pairs import pair_of


@keras.saving.register_keras_serializable(package="keras_msd")
class CosineSimilarityMSE(keras.losses.Loss):
    """Regression of cosines on gold similarities.

    With the default reduction `mean_i (cos(u_i, v_i) - y_i)^2`. The cosine is raw, in
    [-1, 1]; it is the gold scores that are scaled, see `data.scored_rows.scale_gold`. A
    zero vector has cosine 0. Computed in float32 whatever the dtype policy.

    Shapes: `y_true` gold similarities `(n,)`; `y_pred` a pair of embeddings, `(n, d)`
    each; `call` returns `(n,)`.

    Args:
        reduction: Over the batch, as for every Keras loss.
        name: Name of the loss.

    Source: Reimers and Gurevych 2019, section 3 (regression objective).
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str = "cosine_similarity_mse",
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype="float32")

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per pair of sentences.

        Raises:
            InputError: `y_pred` is not a pair, or `y_true` not one number per row.
        """
        pair = pair_of(y_pred, "y_pred", "embeddings of first and second sentences")
        if len(y_true.shape) != 1:
            raise checks.InputError(
                "`y_true` must be one gold similarity per pair, `(n,)`. Received: "
                f"shape {tuple(y_true.shape)}."
            )
        first, second = (l2_normalize(vectors) for vectors in pair)
        return ops.square(ops.sum(first * second, axis=-1) - y_true)
