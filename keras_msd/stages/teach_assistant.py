"""Stage 1: the assistant learns the teacher's vectors in both languages."""

from typing import Any

from keras_msd.stages.base import Stage


class TeachAssistant(Stage):
    """Both languages land where the teacher puts the English sentence.

    `mse(source, teacher) + mse(target, teacher)`. The teacher reads English only, so
    the vector of the English side is the goal of both terms.

    Targets: `teacher` `(n, dim)`, vectors of the English side.
    Terms: `source_mse`, `target_mse`, means over batch and dims.
    Arguments: as for `Stage`.

    Source: Ding et al. 2022, eq. 2; Reimers & Gurevych 2020.
    """

    targets = ("teacher",)
    terms = ("source_mse", "target_mse")

    def loss_terms(self, x: Any, y: Any, embeddings: Any) -> dict[str, Any]:
        """Return both terms."""
        return {
            "source_mse": self.mse(y["teacher"], embeddings["source"]),
            "target_mse": self.mse(y["teacher"], embeddings["target"]),
        }
