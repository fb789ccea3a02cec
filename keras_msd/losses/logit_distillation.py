"""Similarities across languages imitate the teacher's across languages."""

from typing import Any

import keras
from keras import ops

from keras_msd.checks import InputError
from keras_msd.losses.cosine import cosine_matrix
from keras_msd.losses.pairs import pair_of


@keras.saving.register_keras_serializable(package="keras_msd")
class LogitDistillation(keras.losses.Loss):
    """Squared differences between the teacher's and the student's scaled cosines.

    Row i is `mean_j (scale (T[i, j] - S[i, j]) / temperature)^2`: `T[i, j]` is the
    teacher's cosine of source i and target j, so that the teacher must know both
    languages; `S[i, j]` is the student's. The equation prints no scale, `scale=1`; but
    with its temperature of 100 and its weight of 0.01 the term is then below 4e-6 and
    teaches nothing. Computed in float32 whatever the dtype policy.

    Shapes: `y_true` a pair of the teacher's source and target vectors, `(n, d)` each;
    `y_pred` a pair of source and target embeddings, `(n, e)` each; `call` returns
    `(n,)`.

    Args:
        temperature: Divides the logits, above 0.
        scale: Factor that makes logits of cosines, above 0.
        reduction: Over the rows, as for every Keras loss.
        name: Name of the loss.

    Raises:
        InputError: `temperature` or `scale` is not above 0.

    Source: Mao & Nakagawa 2023, eq. 4.
    """

    def __init__(
        self,
        temperature: float = 100.0,
        scale: float = 100.0,
        reduction: str | None = "sum_over_batch_size",
        name: str = "logit_distillation",
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype="float32")
        if not (temperature > 0 and scale > 0):
            raise InputError(
                "`temperature` and `scale` must be above 0. Received: "
                f"temperature={temperature}, scale={scale}."
            )
        self.temperature, self.scale = temperature, scale

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: An argument is not a pair.
        """
        goals = pair_of(y_true, "y_true", "the teacher's source and target vectors")
        made = pair_of(y_pred, "y_pred", "source and target embeddings")
        difference = cosine_matrix(*goals) - cosine_matrix(*made)
        factor = self.scale / self.temperature
        return ops.mean(ops.square(factor * difference), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this loss again."""
        own = {"temperature": self.temperature, "scale": self.scale}
        return super().get_config() | own
