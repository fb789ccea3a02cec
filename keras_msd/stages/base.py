"""What every stage shares: one encoder, stored targets, named loss terms."""

from typing import Any

import keras
from keras import ops

from keras_msd.checks import InputError, at_least, nearest
from keras_msd.losses.embedding_mse import EmbeddingMSE
from keras_msd.stages.cached_gradients import INPUTS, SIDES, CachedGradients


class _OneDevice(CachedGradients):
    def undivided(self, value: Any) -> Any:
        return value


def _step() -> Any:
    if keras.backend.backend() == "tensorflow":
        from keras_msd.stages._tensorflow import TensorFlowStep

        return TensorFlowStep
    return _OneDevice


class Stage(_step(), keras.Model):  # type: ignore[misc]
    """Fits one encoder to guide vectors; plain `compile`, `fit`, `evaluate`.

    A subclass names its `targets` and `terms` and writes `loss_terms`. It holds no
    guide: targets arrive in the batch. Logs hold every term, unweighted, by its name,
    and `loss`, their weighted sum.

    Batches: `(x, y)`; x holds `source_token_ids`, `source_padding_mask`,
    `target_token_ids`, `target_padding_mask`, int32 `(n, length)`, and `group`, int32
    `(n,)`; y holds a float32 `(n, dim)` for every name in `targets`. Sample weights are
    refused.

    Args:
        encoder: A keras_msd encoder, or a functional Keras model with the inputs
            `token_ids` and `padding_mask`. It is trained in place.
        dims: "mean" or "sum", see `EmbeddingMSE`.
        name: Name of the stage.
        chunk_size: Rows that pass through the network at a time, for batches that do
            not fit in memory, see `CachedGradients`; None for the whole batch.
        **weights: Factor of a term in the loss, by the term's name; 1 where not given.

    Raises:
        InputError: No term has the name of a weight, or `chunk_size` is below 1.
    """

    targets: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()

    def __init__(
        self,
        encoder: Any,
        dims: str = "mean",
        name: str | None = None,
        chunk_size: int | None = None,
        **weights: Any,
    ) -> None:
        if chunk_size is not None:
            at_least(1, chunk_size=chunk_size)
        network = self.trained_part(getattr(encoder, "model", encoder))
        super().__init__(name=name, dtype=network.dtype_policy)
        for unknown in sorted(weights.keys() - set(self.terms)):
            raise InputError(
                f"`{type(self).__name__}` has no argument or term `{unknown}`. "
                f"{nearest(unknown, self.terms)} Its terms: {', '.join(self.terms)}."
            )
        self.network, self.chunk_size = network, chunk_size
        self.built = network.built  # so that weights load before the first batch
        self.mse = EmbeddingMSE(dims)
        self.term_weights = {term: float(weights.get(term, 1)) for term in self.terms}
        self.trackers = {term: keras.metrics.Mean(name=term) for term in self.terms}

    def trained_part(self, model: keras.Model) -> Any:
        """Return the part of the encoder's model that this stage runs and trains."""
        return model

    def embed(self, token_ids: Any, padding_mask: Any, training: bool | None) -> Any:
        """Return the embeddings of one side, `(n, dim)`."""
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        return self.network(inputs, training=training)

    def loss_terms(self, x: Any, y: Any, embeddings: Any) -> dict[str, Any]:
        """Return a scalar for every name in `terms`, each from a `keras.losses.Loss`.

        Args:
            x: Inputs of the batch.
            y: Targets of the batch.
            embeddings: `source` and `target`, as `embed` gives them.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `loss_terms`.")

    def call(self, x: Any, training: bool | None = None) -> dict[str, Any]:
        """Embed both sides with the same encoder."""
        for name in INPUTS:
            if name not in x:
                raise InputError(
                    f"A batch must hold `{name}`. Received: {', '.join(x)}. Make "
                    "batches with `pair_dataset` or `PairBatches`."
                )
        if self.chunk_size is None:
            return self.both_sides(x, training)
        return self.embed_in_chunks(x, training)

    def both_sides(self, x: Any, training: bool | None) -> dict[str, Any]:
        """Return the embeddings of both sides of some rows, as `embed` gives them."""
        return {
            side: self.embed(
                x[f"{side}_token_ids"], x[f"{side}_padding_mask"], training
            )
            for side in SIDES
        }

    def compile(self, optimizer: Any, loss: None = None, **options: Any) -> None:
        """Set the optimizer; the loss is the stage's own.

        Raises:
            InputError: A loss is given.
        """
        if loss is not None:
            raise InputError(
                f"A stage has its own loss. Received: loss={loss!r}. Leave `loss` out; "
                "weights of the terms are arguments of the stage."
            )
        super().compile(optimizer=optimizer, **options)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Return the weighted sum of the terms and update the mean of each.

        Raises:
            InputError: A target is missing or has the wrong width, or the batch has
                sample weights.
        """
        if sample_weight is not None:
            raise InputError(
                f"`{type(self).__name__}` takes no sample weights. Received: a batch "
                "with a third part. Give `(x, y)`."
            )
        self._check_targets(y, y_pred)
        terms = self.loss_terms(x, y, y_pred)
        total = 0.0
        for name in self.terms:
            value = self.undivided(terms[name])
            self.trackers[name].update_state(value, sample_weight=self.rows(x))
            total = total + self.term_weights[name] * terms[name]
        if self.losses:  # regularisers of a user's own model
            total = total + super().compute_loss(x, y, y_pred, training=training)
        return total

    def rows(self, x: Any) -> Any:
        """Return the number of pairs in a batch."""
        return ops.shape(x["source_token_ids"])[0]

    def check_width(self, name: str, target: Any, embedding: Any) -> None:
        """Raise `InputError` unless a target is as wide as the embedding."""
        width = embedding.shape[-1]
        if tuple(target.shape)[1:] != (width,):
            raise InputError(
                f"The target `{name}` must be as wide as the encoder's output. "
                f"Received: `{name}` {_shape(target)}, encoder (n, {width}). Use a "
                f"guide of {width} numbers, or an encoder of the guide's width "
                "(`projection_dim`)."
            )

    def _check_targets(self, y: Any, embeddings: Any) -> None:
        given = y if isinstance(y, dict) else {}
        for name in self.targets:
            side = "target" if name.endswith("_target") else "source"
            if name not in given:
                raise InputError(
                    f"`{type(self).__name__}` needs the target `{name}`. Received: "
                    f"{', '.join(sorted(given)) or 'none'}. Give it to the batches: "
                    f'guides={{"{name}": (store, "{side}")}}.'
                )
            self.check_width(name, given[name], embeddings[side])


def _shape(tensor: Any) -> str:
    return f"({', '.join(['n', *map(str, tuple(tensor.shape)[1:])])})"
