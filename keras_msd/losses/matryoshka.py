"""A loss of embeddings and their prefixes."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.losses.base import Float32Loss
from keras_msd.losses.table import loss_class


@keras.saving.register_keras_serializable(package="keras_msd")
class Matryoshka(Float32Loss):
    """A loss summed over whole embeddings and their prefixes.

    With `loss(m)[i]` row i of the loss of the first m numbers of all embeddings, row i
    is `loss(d)[i] + sum_m loss(m)[i]`, so that `encode(truncate_dim=m)` gives vectors
    that were trained. Goals stay whole: what compares embeddings with goals number by
    number, such as `EmbeddingMSE`, cannot be used. Computed in float32 whatever the
    dtype policy.

    Shapes: `y_true` as for the loss; `y_pred` a pair of source and target embeddings,
    `(n, d)` each; `call` returns `(n,)`.

    Args:
        loss: A loss whose `call` returns a number per row, or its name in `LOSSES`.
        dims: Widths m of the prefixes, each once. The whole width always counts, and
            once, whether it is named or not.
        reduction: Over the rows, as for every Keras loss.
        name: Name of the loss.

    Raises:
        InputError: There is no width, or one is below 1 or given twice.

    Source: Kusupati et al. 2022, eq. 1, with all weights 1.

    Example:
        >>> soft = msd.losses.MultilingualContrastive("soft")
        >>> loss = msd.losses.Matryoshka(soft, dims=[1])
        >>> guide, rows = np.eye(2, dtype="float32"), np.float32([[1, 0], [1, 1]])
        >>> apart = [float(soft(guide, (it, it))) for it in (rows, rows[:, :1])]
        >>> abs(float(loss(guide, (rows, rows))) - sum(apart)) < 1e-6
        True
    """

    def __init__(
        self,
        loss: keras.losses.Loss | str,
        dims: Sequence[int],
        reduction: str | None = "sum_over_batch_size",
        name: str = "matryoshka",
    ) -> None:
        super().__init__(reduction, name, dims=tuple(dims))
        if isinstance(loss, str):
            loss = loss_class(loss)()
        self.loss = loss
        if not self.dims or len(set(self.dims)) < len(self.dims):
            raise InputError(
                "`dims` must name the width of every prefix once, such as (64, 128). "
                f"Received: {self.dims}."
            )
        for width in self.dims:
            checks.at_least(1, dims=width)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: A prefix is wider than the embeddings.
        """
        whole = min(part.shape[-1] for part in y_pred)
        if max(self.dims) > whole:
            raise InputError(
                f"A prefix of embeddings of {whole} numbers has at most as many. "
                f"Received: {max(self.dims)}. Take it out of the widths."
            )
        widths = {whole, *self.dims}
        prefixes = ([part[:, :width] for part in y_pred] for width in sorted(widths))
        return sum(self.loss.call(y_true, prefix) for prefix in prefixes)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this loss again."""
        loss = keras.saving.serialize_keras_object(self.loss)
        return super().get_config() | {"loss": loss}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Matryoshka":
        """Make a loss from its config."""
        loss = keras.saving.deserialize_keras_object(config["loss"])
        return cls(**config | {"loss": loss})
