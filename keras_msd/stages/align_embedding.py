"""Stage 2: the student's embedding block imitates the assistant's."""

from typing import Any

import keras
from keras import ops

from keras_msd.checks import InputError
from keras_msd.layers import masked_mean
from keras_msd.losses import EmbeddingMSE
from keras_msd.models.encoder import Encoder
from keras_msd.stages.settings import PairStageSettings
from keras_msd.stages.stage import Stage, StageRecord, both_sides
from keras_msd.training.chunks import Tensor, Tensors


class AlignSettings(PairStageSettings):
    """`[stages.align_embedding]`: `per_token` is the variant of `AlignEmbedding`."""

    per_token: bool = False


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
        self,
        encoder: Encoder | keras.Model,
        per_token: bool = False,
        dims: str = "mean",
        **options: Any,
    ) -> None:
        super().__init__(encoder, dims=dims, **options)
        self.per_token, self.pools = per_token, not per_token
        self.token_mse = EmbeddingMSE(dims, reduction="mean_with_sample_weight")

    def trained_part(self, model: keras.Model) -> keras.Layer:
        """Return the embedding block."""
        names = [layer.name for layer in model.layers]
        if "embedding" not in names:
            raise InputError(
                "`AlignEmbedding` needs a model with a layer named `embedding`. "
                f"Received: {', '.join(names)}."
            )
        return model.get_layer("embedding")

    def embed(
        self, token_ids: Tensor, padding_mask: Tensor, training: bool | None
    ) -> Tensor:
        """Return `(n, hidden_dim)`; with `per_token` `(n, length, hidden_dim)`."""
        hidden = self.network(token_ids, training=training)
        return hidden if self.per_token else masked_mean(hidden, padding_mask)

    def distance(
        self, goal: Tensor, embedding: Tensor, side: str, x: Tensors
    ) -> Tensor:
        """Return the MSE between means, or between token vectors."""
        if not self.per_token:
            return self.mse(goal, embedding)
        width = embedding.shape[-1]
        tokens = ops.reshape(goal, (-1, goal.shape[-1] // width, width))
        tokens = tokens[:, : ops.shape(embedding)[1]]
        return self.token_mse(
            tokens, embedding, sample_weight=x[f"{side}_padding_mask"]
        )

    def target_shape(self, target: Tensor, embedding: Tensor) -> tuple[int, ...]:
        """Return the shape that each row of a target must have.

        With `per_token`, a row holds whole token vectors, at least as many as the
        batch is long.
        """
        if not self.per_token:
            return super().target_shape(target, embedding)
        _, length, width = embedding.shape
        return (max(length or 1, target.shape[-1] // width) * width,)


def embedding_block(assistant: Encoder, settings: AlignSettings) -> Any:
    """Return the guide that the student's embedding block imitates."""
    return assistant.embedding_guide(per_token=settings.per_token)


RECORD = StageRecord(
    AlignEmbedding, AlignSettings, both_sides("embedding", embedding_block)
)
