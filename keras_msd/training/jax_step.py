"""The training step under JAX and other backends than TensorFlow."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd.training.chunks import CachedGradients
from keras_msd.training.precision import all_finite


class JaxStep(CachedGradients):
    """Mix-in with the step of `fit` under JAX.

    Under `keras.distribution` a batch is one array on all devices, so the step needs no
    communication of its own. The other methods match those of `TensorFlowStep`.
    """

    @property
    def process(self) -> tuple[int, int]:
        """The number of this process, from 0, and how many train the stage."""
        if keras.distribution.distribution() is None:
            return 0, 1
        import jax

        return jax.process_index(), jax.process_count()

    def local_batches(self, batches: Any) -> Any:
        """Return batches with only the rows of this process."""
        distribution = keras.distribution.distribution()
        if distribution is None or not hasattr(batches, "of_process"):
            return batches
        process, processes = self.process
        each = int(np.prod(distribution.device_mesh.shape)) // processes
        return batches.of_process(process, processes, each)

    def gathered(self, parts: Any) -> Any:
        """Return rows as they are: those of the whole batch."""
        return parts

    def unscaled(self, value: Any) -> Any:
        """Return a loss as it is."""
        return value

    def scaled(self, loss: Any, value: Any) -> Any:
        """Return a loss as it is."""
        return value

    def to_numpy(self, variable: Any) -> np.ndarray:
        """Return the value of a variable."""
        return np.asarray(ops.convert_to_numpy(variable.value))

    def build_optimizer(self: Any) -> None:
        """Make the optimizer's variables."""
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    def train_step(self: Any, *given: Any) -> Any:
        """Update the encoder on one batch; skip a bad batch if the stage does that."""
        found = super().train_step(*given)  # type: ignore[misc]
        return found if self.bad_batches is None else self._good(given[0], *found)

    def _good(self: Any, old: Any, logs: Any, new: Any) -> tuple[Any, Any]:
        """Return logs and JAX's state: the old state if the new one is not finite."""
        trained, fixed, optimizer, means = new
        floats = [it for it in (*trained, *optimizer) if "float" in str(it.dtype)]
        good = all_finite([logs["loss"], *floats])

        def either(place: int) -> list[Any]:
            pairs = zip(new[place], old[place], strict=True)
            return [ops.where(good, one, other) for one, other in pairs]

        place = [it is self.bad_batches for it in self.non_trainable_variables].index(
            True
        )
        fixed = list(fixed)
        fixed[place] = fixed[place] + 1 - ops.cast(good, fixed[place].dtype)
        means = either(3)
        pairs = zip(self.metrics_variables, means, strict=True)
        with keras.StatelessScope(list(pairs)):
            logs = self.get_metrics_result() | {"bad_batches": fixed[place]}
        return logs, (either(0), fixed, either(2), means)
