"""Translations must be nearer than everything else in the batch, by a margin."""

from typing import Any

import keras
from keras import ops

from keras_msd.checks import InputError
from keras_msd.losses.cosine import cosine_matrix
from keras_msd.losses.pairs import pair_of, same_line, without_duplicates


@keras.saving.register_keras_serializable(package="keras_msd")
class AdditiveMarginSoftmax(keras.losses.Loss):
    """Translation ranking in both directions, with a margin on the right pairs.

    With `S[i, j]` the cosine of source i and target j, and `L = scale (S - margin I)`,
    row i is `-log softmax_j(L[i, :])[i] - log softmax_j(L[:, i])[i]`: the sum of both
    directions. The equation prints no scale, `scale=1`; but unscaled, perfect vectors
    still have a loss of `2 log(1 + (n - 1) e^(margin - 1))`, which trains nothing.

    Rows with the same English line are translations of each other. With `group` they
    are left out of each other's softmaxes; without it, as printed, they are negatives.
    A zero vector has cosine 0 with everything. Computed in float32 whatever the dtype
    policy.

    Shapes: `y_true` guide vectors `(n, d)`, which are not read, or a pair of them and
    `group` `(n,)`, equal numbers where the English line is the same; or `group` alone.
    `y_pred` a pair of source and target embeddings, `(n, e)` each; `call` returns
    `(n,)`.

    Args:
        margin: Taken off the cosine of a right pair, 0 or more.
        scale: Factor of the cosines, after the margin, above 0.
        reduction: Over the rows, as for every Keras loss.
        name: Name of the loss.

    Raises:
        InputError: `margin` or `scale` is out of its range.

    Source: Mao & Nakagawa 2023, eq. 1 and 2; Yang et al. 2019; margin and scale as in
        LaBSE's published configuration (Feng et al. 2022).
    """

    def __init__(
        self,
        margin: float = 0.3,
        scale: float = 100.0,
        reduction: str | None = "sum_over_batch_size",
        name: str = "additive_margin_softmax",
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype="float32")
        if not (margin >= 0 and scale > 0):
            raise InputError(
                "`margin` must be at least 0 and `scale` above 0. Received: "
                f"margin={margin}, scale={scale}."
            )
        self.margin, self.scale = margin, scale

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: `y_pred` is not a pair.
        """
        source, target = pair_of(y_pred, "y_pred", "source and target embeddings")
        group = y_true[1] if isinstance(y_true, tuple | list) else y_true
        known = group if len(group.shape) == 1 else None
        similarity = cosine_matrix(source, target)
        own = same_line(similarity)
        logits = ops.where(own, similarity - self.margin, similarity) * self.scale
        right = ops.diagonal(logits)
        logits = without_duplicates(logits, known)
        forward = ops.logsumexp(logits - ops.expand_dims(right, 1), axis=1)
        backward = ops.logsumexp(logits - ops.expand_dims(right, 0), axis=0)
        return forward + backward

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this loss again."""
        own = {"margin": self.margin, "scale": self.scale}
        return super().get_config() | own
