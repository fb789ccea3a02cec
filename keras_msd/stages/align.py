"""Stage 2: the student's embedding block imitates the assistant's."""

from typing import Any

import keras
from keras import ops

from keras_msd.checks import InputError
from keras_msd.layers.pooling import masked_mean
from keras_msd.losses.distances import EmbeddingMSE
from keras_msd.stages.stage import Stage


class AlignEmbedding(Stage):
    """The student's embedding block imitates the assistant's on the same sentence.

    The stage runs, trains and saves only the layer `embedding`, no transformer layer.
    As in the authors' code it compares masked means over the tokens: `mse(mean(source),
    embedding_source) + mse(mean(target), embedding_target)`. With `per_token`, our
    extension, it compares the vectors of all tokens except padding. Student and
    assistant must then share the tokenizer.

    Targets: `embedding_source` and `embedding_target`, from
        `assistant.embedding_guide()`: `(n, hidden_dim)`; with `per_token`, from
        `embedding_guide(per_token=True)`: `(n, max_length * hidden_dim)`.
    Terms: `source_mse`, `target_mse`.

    Args:
        encoder: The student.
        per_token: Whether to compare the vectors of all tokens instead of their mean.
        dims: "mean" or "sum", see `EmbeddingMSE`.
        **options: As for `Stage`.

    Raises:
        InputError: The model has no layer `embedding`.

    Source: Ding et al. 2022, eq. 3.

    Example:
        >>> stage = msd.stages.AlignEmbedding(msd.testing.tiny_encoder())
        >>> stage.network.name, stage.targets
        ('embedding', ('embedding_source', 'embedding_target'))
    """

    goals = {"source": "embedding_source", "target": "embedding_target"}

    def __init__(
        self, encoder: Any, per_token: bool = False, dims: str = "mean", **options: Any
    ) -> None:
        super().__init__(encoder, dims=dims, **options)
        self.per_token = per_token
        self.token_mse = EmbeddingMSE(dims, reduction="mean_with_sample_weight")

    def trained_part(self, model: keras.Model) -> Any:
        """Return the embedding block."""
        names = [layer.name for layer in model.layers]
        if "embedding" not in names:
            raise InputError(
                "`AlignEmbedding` needs a model with a layer named `embedding`. "
                f"Received: {', '.join(names)}."
            )
        return model.get_layer("embedding")

    def embed(self, token_ids: Any, padding_mask: Any, training: bool | None) -> Any:
        """Return `(n, hidden_dim)`; with `per_token` `(n, length, hidden_dim)`."""
        hidden = self.network(token_ids, training=training)
        return hidden if self.per_token else masked_mean(hidden, padding_mask)

    def distance(self, goal: Any, embedding: Any, side: str, x: Any) -> Any:
        """Return the MSE between means, or between token vectors."""
        if not self.per_token:
            return self.mse(goal, embedding)
        width = embedding.shape[-1]
        tokens = ops.reshape(goal, (-1, goal.shape[-1] // width, width))
        tokens = tokens[:, : ops.shape(embedding)[1]]
        return self.token_mse(
            tokens, embedding, sample_weight=x[f"{side}_padding_mask"]
        )

    def check_width(self, name: str, target: Any, embedding: Any) -> None:
        """Raise `InputError` unless a target has the dimension that is compared."""
        if not self.per_token:
            return super().check_width(name, target, embedding)
        _, length, width = embedding.shape
        if target.shape[-1] % width or target.shape[-1] // width < (length or 0):
            raise InputError(
                f"The target `{name}` must have {width} numbers for each of at least "
                f"{length or 'all'} tokens. Received: {target.shape[-1]} numbers. Use "
                "`embedding_guide(per_token=True)` of an assistant with the same "
                "`hidden_dim` and `max_length`."
            )
