"""Squared distance of both sides of a batch from their guide vectors."""

from typing import Any

import keras
from keras import ops

from keras_msd import checks
from keras_msd.losses.pairs import pair_of


@keras.saving.register_keras_serializable(package="keras_msd")
class FeatureDistillation(keras.losses.Loss):
    """Squared distances from the teacher's vectors, the two sides added up.

    Row i is `sum_k (source[i, k] - teacher_source[i, k])^2 + sum_k (target[i, k] -
    teacher_target[i, k])^2`, as the equation prints it, with `dims="sum"`; with
    `dims="mean"` 1/d of that. The student's vectors come here at the teacher's width,
    from a dense layer that only training knows. Computed in float32 whatever the dtype
    policy.

    Shapes: `y_true` and `y_pred` each a pair of source and target vectors, all
    `(n, d)`; `call` returns `(n,)`.

    Args:
        dims: "mean" or "sum", over the d numbers of a vector.
        reduction: Over the rows, as for every Keras loss.
        name: Name of the loss.

    Raises:
        InputError: `dims` is neither.

    Source: Mao & Nakagawa 2023, eq. 3.
    """

    def __init__(
        self,
        dims: str = "mean",
        reduction: str | None = "sum_over_batch_size",
        name: str = "feature_distillation",
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype="float32")
        checks.one_of(("mean", "sum"), dims=dims)
        self.dims = dims

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: An argument is not a pair, or the vectors differ in width.
        """
        goals = pair_of(y_true, "y_true", "the teacher's source and target vectors")
        made = pair_of(y_pred, "y_pred", "source and target vectors")
        widths = [vectors.shape[-1] for vectors in (*goals, *made)]
        if len(set(widths)) > 1:
            raise checks.InputError(
                "The teacher's vectors and those beside them must have the same width. "
                f"Received: y_true {widths[0]} and {widths[1]}, y_pred {widths[2]} and "
                f"{widths[3]} numbers."
            )
        reduce = ops.mean if self.dims == "mean" else ops.sum
        return sum(
            reduce(ops.square(vectors - goal), axis=-1)
            for goal, vectors in zip(goals, made, strict=True)
        )

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this loss again."""
        return super().get_config() | {"dims": self.dims}
