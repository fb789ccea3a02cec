"""Stage 3: the student learns the assistant's vectors."""

from typing import Any

from keras_msd.stages.base import Stage


class TeachStudent(Stage):
    """Each sentence lands where the assistant puts that same sentence.

    `mse(source, assistant(source)) + mse(target, assistant(target))`.

    Targets: `assistant_source` and `assistant_target` `(n, dim)`, the assistant's
        vectors of the English side and of the translation.
    Terms: `source_mse`, `target_mse`, means over batch and dims.
    Arguments: as for `Stage`.

    Source: Ding et al. 2022, eq. 4.
    """

    targets = ("assistant_source", "assistant_target")
    terms = ("source_mse", "target_mse")

    def loss_terms(self, x: Any, y: Any, embeddings: Any) -> dict[str, Any]:
        """Return both terms."""
        return {
            "source_mse": self.mse(y["assistant_source"], embeddings["source"]),
            "target_mse": self.mse(y["assistant_target"], embeddings["target"]),
        }
