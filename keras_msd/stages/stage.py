"""Base class of all training stages."""

import inspect
import math
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from itertools import chain
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_msd.checks import InputError, at_least, nearest, one_of, without_prefix
from keras_msd.devices import device_settings
from keras_msd.losses.distances import EmbeddingMSE
from keras_msd.losses.table import loss_class
from keras_msd.training.callbacks import FiniteLoss
from keras_msd.training.chunks import INPUTS, SIDES, check_chunks
from keras_msd.training.rounding import Rounding

# Arguments of `compile` that a stage rejects.
OWN = ("loss", "loss_weights", "metrics", "weighted_metrics")


def _step() -> Any:
    if keras.backend.backend() == "tensorflow":
        from keras_msd.training.tensorflow_step import TensorFlowStep

        return TensorFlowStep
    from keras_msd.training.jax_step import JaxStep

    return JaxStep


class LossTerm(NamedTuple):
    """One term of a stage's loss, over both sides of a batch.

    The loss is called as `loss(goals, (source, target))`. `goals` are the target
    vectors from `y`. `source` holds the embeddings of the source sentences, `target`
    those of the translations.

    Attributes:
        name: Name of the term in the logs and in the stage's weights.
        loss: A `keras.losses.Loss`, or a name in `LOSSES`.
        goals: Key, or keys, of `y` whose vectors are passed to the loss.
        grouped: Whether to pass `(goals, group)` instead of `goals`. `group[i]` is the
            index of the first row in the batch with the same source sentence as row i.
        weight: Weight of this term in the total loss.

    Example:
        >>> msd.stages.LossTerm("rank", "additive_margin_softmax", "teacher").weight
        1.0
    """

    name: str
    loss: Any
    goals: str | tuple[str, ...]
    grouped: bool = False
    weight: float = 1.0


class Stage(_step(), keras.Model):  # type: ignore[misc]
    """Train an encoder to match the vectors of a teacher.

    Use `compile`, `fit` and `evaluate` as for any Keras model.

    The word "target" has two meanings here. The side `target` of a pair is the
    translation of the side `source`. The `targets` of a stage are the vectors in `y`
    that the encoder learns to reproduce. They are computed in advance: every batch
    contains them, and the stage does not hold the teacher.

    The loss is a weighted sum of two kinds of terms:

    - `goals` maps a side to a key of `y`. The MSE between the embeddings of that side
      and these vectors is the term `source_mse` or `target_mse`.
    - `losses` adds terms that are computed from both sides together.

    The logs contain every term by name, unweighted, and `loss`, the weighted sum.

    A subclass sets `goals`. If it needs other losses, it also lists their `targets` and
    `terms`, and overrides `loss_terms`.

    Batches: `(x, y)`. x contains `source_token_ids`, `source_padding_mask`,
    `target_token_ids` and `target_padding_mask`, int32 `(n, length)`, and `group`,
    int32 `(n,)`. y contains float32 `(n, dim)` for every name in `targets`. Sample
    weights raise an `InputError`.

    Args:
        encoder: A keras_msd encoder, or a functional Keras model with the inputs
            `token_ids` and `padding_mask`. It is trained in place.
        dims: Whether the MSE is the "mean" or the "sum" over the dimensions of a
            vector, see `EmbeddingMSE`.
        name: Name of the stage.
        chunk_size: Number of rows to run through the network at once. Set it if a batch
            does not fit in memory; see `CachedGradients`. None runs the whole batch.
            With it, the network must not use activity regularisers, `add_loss` or batch
            statistics (such as BatchNormalization).
        losses: `LossTerm`s in addition to the stage's own.
        goals: For each side, the key of `y` to compare it with, for example `{"source":
            "teacher"}`. Default: the class attribute.
        quantize: "int8", "int4_table" or "int4" trains with weights rounded as such an
            export stores them, see `Rounding`. After `fit`, call `finish`;
            `msd.training.fit` does.
        **weights: Weight of a term in the total loss, by the term's name; default 1.

    Raises:
        InputError: `encoder` is not an encoder, a weight is negative or names no term,
            a loss or `quantize` is unknown, `chunk_size` is below 1, or the network
            does not support chunks.

    Example:
        >>> stage = msd.stages.Stage(
        ...     msd.testing.tiny_encoder(),
        ...     goals={"source": "teacher", "target": "teacher"},
        ...     losses=[
        ...         msd.stages.LossTerm("rank", "additive_margin_softmax", "teacher")
        ...     ],
        ...     rank=0.1,
        ... )
        >>> stage.terms, stage.targets
        (('source_mse', 'target_mse', 'rank'), ('teacher',))
    """

    goals: Mapping[str, str] = {}
    targets: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    bad_batches: Any = None  # counter of skipped batches; None: no skipping
    most_bad_batches = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.targets = _joined(cls.goals.values(), cls.targets)
        cls.terms = _joined(map(_mse_name, cls.goals), cls.terms)

    def __init__(
        self,
        encoder: Any,
        dims: str = "mean",
        name: str | None = None,
        chunk_size: int | None = None,
        losses: Iterable[LossTerm] = (),
        goals: Mapping[str, str] | None = None,
        quantize: str | None = None,
        **weights: float,
    ) -> None:
        if chunk_size is not None:
            at_least(1, chunk_size=chunk_size)
        without_prefix(encoder, "A stage trains")
        network = self.trained_part(_network(encoder))
        super().__init__(name=name, dtype=network.dtype_policy)
        if goals is not None:
            one_of(SIDES, **{f"side {side}": side for side in goals})
            self.goals = dict(goals)
        self.added = {term.name: term for term in map(complete, losses)}
        self.terms = _joined(map(_mse_name, self.goals), self.terms, self.added)
        of_added = (name for term in self.added.values() for name in term.goals)
        self.targets = _joined(self.goals.values(), self.targets, of_added)
        weights = {name: term.weight for name, term in self.added.items()} | weights
        self._check_weights(weights)
        self.network, self.chunk_size, self.quantize = network, chunk_size, quantize
        # In a function: Keras would track an attribute that is a model as a sublayer.
        self._encoder = lambda: encoder
        if chunk_size is not None:
            check_chunks(network)
        self.rounding = Rounding(network, quantize) if quantize else None
        self.built = network.built  # lets `load_weights` work before the first batch
        self.mse = EmbeddingMSE(dims)
        self.term_weights = {term: float(weights.get(term, 1)) for term in self.terms}
        self.trackers = {term: keras.metrics.Mean(name=term) for term in self.terms}

    def _check_weights(self, weights: Mapping[str, Any]) -> None:
        for unknown in sorted(weights.keys() - set(self.terms)):
            raise InputError(
                f"`{type(self).__name__}` has no argument or term `{unknown}`. "
                f"{nearest(unknown, self.terms)} Its terms: {', '.join(self.terms)}."
            )
        for term, weight in weights.items():
            if not 0 <= weight < math.inf:
                raise InputError(
                    "The weight of a term must be finite and at least 0. Received: "
                    f"{term}={weight}."
                )

    def skip_bad_batches(self, at_most: int) -> None:
        """Skip a few batches whose loss or gradients are not finite.

        Call it before `compile`. A skipped batch changes neither the weights, nor the
        metrics, nor the optimizer. The logs count skipped batches as `bad_batches`.
        Training stops when there are more than `at_most`. If you do not call this
        method, the first bad batch stops training.

        Args:
            at_most: Maximum number of batches to skip.

        Raises:
            InputError: `at_most` is below 1. `fit` raises it if there are several
                replicas under TensorFlow, or the backend is not TensorFlow or JAX.

        Example:
            >>> stage = msd.stages.TeachAssistant(msd.testing.tiny_encoder())
            >>> stage.skip_bad_batches(at_most=3)
            >>> float(stage.bad_batches)
            0.0
        """
        at_least(1, at_most=at_most)
        self.most_bad_batches = at_most
        self.bad_batches = self.add_weight(
            name="bad_batches", shape=(), initializer="zeros", trainable=False
        )

    def trained_encoder(self) -> Any:
        """Return the encoder without training-only parts."""
        return self._encoder()

    def trained_part(self, model: keras.Model) -> Any:
        """Return the part of the encoder's model that this stage runs and trains."""
        return model

    def embed(self, token_ids: Any, padding_mask: Any, training: bool | None) -> Any:
        """Return the embeddings of one side, `(n, dim)`."""
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        return self.network(inputs, training=training)

    def loss_terms(self, x: Any, y: Any, embeddings: Any) -> dict[str, Any]:
        """Return a dict with one scalar loss per name in `terms`.

        The base class returns the terms of `goals` and `losses`. Subclasses add more.
        Compute each with a `keras.losses.Loss`: Keras divides its mean by the number of
        replicas, as the training step expects.

        Args:
            x: Inputs of the batch.
            y: Targets of the batch.
            embeddings: Embeddings of the sides `source` and `target`, from `embed`.
        """
        if not self.terms:
            raise NotImplementedError(
                f"{type(self).__name__} must define `loss_terms`, or have `goals` or "
                "`losses`."
            )
        terms = {
            _mse_name(side): self.distance(y[goal], embeddings[side], side, x)
            for side, goal in self.goals.items()
        }
        both = embeddings["source"], embeddings["target"]
        for name, term in self.added.items():
            goals: Any = tuple(y[goal] for goal in term.goals)
            goals = goals[0] if len(goals) == 1 else goals
            if term.grouped:
                goals = goals, self.group(x, f"the term `{name}`")
            terms[name] = self.scaled(term.loss, term.loss(goals, both))
        return terms

    def distance(self, goal: Any, embedding: Any, side: str, x: Any) -> Any:
        """Return the MSE between one side's embeddings and their target vectors."""
        return self.mse(goal, embedding)

    def group(self, x: Any, what: str, instead: str = "") -> Any:
        """Return `group`: for each row, the first row with the same source sentence.

        Args:
            x: Inputs of the batch.
            what: Name of the caller's feature, for the error message.
            instead: Alternative to suggest in the error message.

        Raises:
            InputError: The batch has no `group`.
        """
        if "group" not in x:
            raise InputError(
                f"`{type(self).__name__}` needs `group`, the index of the first row "
                f"with the same source sentence, for {what}. Received: "
                f"{', '.join(sorted(x))}. Make batches with `PairBatches`{instead}."
            )
        return x["group"]

    def call(self, x: Any, training: bool | None = None) -> dict[str, Any]:
        """Embed both sides with the same encoder."""
        for name in INPUTS:
            if name not in x:
                raise InputError(
                    f"A batch must contain `{name}`. Received: {', '.join(x)}. Make "
                    "batches with `PairBatches`."
                )
        if self.chunk_size is None:
            return self.both_sides(x, training)
        return self.embed_in_chunks(x, training)

    def both_sides(self, x: Any, training: bool | None) -> dict[str, Any]:
        """Return the embeddings of both sides, from `embed`."""
        weights = self.rounding.rounded_weights() if self.rounding else nullcontext()
        with weights:
            return {
                side: self.embed(
                    x[f"{side}_token_ids"], x[f"{side}_padding_mask"], training
                )
                for side in SIDES
            }

    def finish(self) -> None:
        """End the training: a stage with `quantize` rounds the weights."""
        if self.rounding:
            self.rounding.finish()

    def compile(
        self,
        optimizer: Any,
        loss: None = None,
        *,
        jit_compile: bool | str | None = None,
        **options: Any,
    ) -> None:
        """Configure the optimizer.

        Args:
            optimizer: As for every Keras model.
            loss: Must be None; the stage defines its own loss.
            jit_compile: As for every Keras model; default True under JAX and on a GPU.
            **options: As for every Keras model, except loss weights and metrics.

        Raises:
            InputError: A loss, loss weights or metrics are given.
        """
        for name, given in {"loss": loss, **options}.items():
            if name in OWN and given is not None:
                raise InputError(
                    "A stage has its own loss and logs every term. Received: "
                    f"{name}={given!r}. Leave `{name}` out. To weight a term, pass its "
                    "weight to the stage, for example `source_mse=0.5`."
                )
        if jit_compile is None:
            jit_compile = device_settings().xla and not options.get("run_eagerly")
        super().compile(optimizer=optimizer, jit_compile=jit_compile, **options)

    def fit(self, x: Any = None, *arguments: Any, **options: Any) -> Any:
        """Train like any Keras model. To be able to resume, use `msd.training.fit`.

        Args:
            x: Batches.
            *arguments: As for every Keras model.
            **options: As for every Keras model.

        Raises:
            InputError: The loss is NaN or infinite.
        """
        given = inspect.signature(super().fit).bind_partial(x, *arguments, **options)
        own = given.arguments["x"] = self.local_batches(x)
        if hasattr(x, "of_process"):  # batches of ours: their order follows a seed
            given.arguments.setdefault("shuffle", False)
        if updates := getattr(own, "updates", None):  # distributed datasets have none
            given.arguments.setdefault("steps_per_epoch", updates)
        others = given.arguments.get("callbacks")
        first = FiniteLoss(x)
        if isinstance(others, keras.callbacks.CallbackList):
            first.set_model(self)
            others.callbacks.insert(0, first)
        else:
            given.arguments["callbacks"] = [first, *(others or ())]
        return super().fit(*given.args, **given.kwargs)

    def make_train_function(self, force: bool = False) -> None:
        """Build the function that `fit` calls.

        Raises:
            InputError: The stage was compiled without an optimizer.
        """
        if self.optimizer is None:
            raise InputError(
                "`fit` needs an optimizer. Received: `compile(optimizer=None)`, which "
                "is only for `evaluate`. Pass one to `compile`, for example "
                "`make_optimizer(learning_rate=2e-4, steps=1000)`."
            )
        backend = keras.backend.backend()
        if self.bad_batches is not None and backend not in ("tensorflow", "jax"):
            raise InputError(
                "`skip_bad_batches` works with TensorFlow and JAX only. Received: "
                f"{backend}. Remove the call, or change the backend."
            )
        super().make_train_function(force)

    def save(self, filepath: Any, *arguments: Any, **options: Any) -> None:
        """Raise an error: save the encoder, not the stage.

        Raises:
            InputError: Always.
        """
        raise InputError(
            f"A stage is not saved as a Keras model. Received: `{filepath}`. Save the "
            "encoder (`encoder.save(folder)`), or the weights: `save_weights`, and "
            "`save_weights_only=True` for `ModelCheckpoint`."
        )

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
            InputError: A target is missing or has the wrong dimension, or the batch has
                sample weights.
        """
        if sample_weight is not None:
            raise InputError(
                f"`{type(self).__name__}` does not support sample weights. Received: a "
                "batch with three elements. Make batches of `(x, y)`."
            )
        self._check_targets(y, y_pred)
        x, y, y_pred = self.gathered((x, y, y_pred))
        terms = self.loss_terms(x, y, y_pred)
        total = 0.0
        for name in self.terms:
            value = self.unscaled(terms[name])
            self.trackers[name].update_state(value, sample_weight=self.rows(x))
            total = total + self.term_weights[name] * terms[name]
        if self.losses:  # the user's network may add regularisation losses
            total = total + super().compute_loss(x, y, y_pred, training=training)
        return total

    def rows(self, x: Any) -> Any:
        """Return the number of pairs in a batch."""
        return ops.shape(x["source_token_ids"])[0]

    def check_width(self, name: str, target: Any, embedding: Any) -> None:
        """Raise `InputError` unless a target has the dimension of the embedding."""
        width = embedding.shape[-1]
        if tuple(target.shape)[1:] != (width,):
            raise InputError(
                f"The target `{name}` must have the encoder's output dimension. "
                f"Received: `{name}` {_shape(target)}, encoder (n, {width}). Use a "
                f"teacher with {width} dimensions, or set `projection_dim` of the "
                "encoder to the teacher's dimension."
            )

    def _check_targets(self, y: Any, embeddings: Any) -> None:
        given = y if isinstance(y, dict) else {}
        for name in self.targets:
            side = "target" if name.endswith("_target") else "source"
            if name not in given:
                raise InputError(
                    f"`{type(self).__name__}` needs the target `{name}`. Received: "
                    f"{', '.join(sorted(given)) or 'none'}. Make batches with "
                    f'guides={{"{name}": (store, "{side}")}}.'
                )
            if name in self.goals.values() or name in type(self).targets:
                self.check_width(name, given[name], embeddings[side])


def _joined(*names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain(*names)))


def _mse_name(side: str) -> str:
    return f"{side}_mse"


def complete(term: LossTerm) -> LossTerm:
    """Return the term with its loss instantiated and its goals as a tuple."""
    goals = (term.goals,) if isinstance(term.goals, str) else tuple(term.goals)
    loss = loss_class(term.loss)() if isinstance(term.loss, str) else term.loss
    return term._replace(loss=loss, goals=goals)


def _network(encoder: Any) -> Any:
    model = getattr(encoder, "model", encoder)
    inputs = getattr(model, "inputs", None) if isinstance(model, keras.Model) else ()
    if not {"token_ids", "padding_mask"} <= {tensor.name for tensor in inputs or ()}:
        raise InputError(
            "A stage trains an encoder, or a functional Keras model with the inputs "
            f"`token_ids` and `padding_mask`. Received: {type(encoder).__name__}. "
            "Artefacts and teachers cannot be trained."
        )
    return model


def _shape(tensor: Any) -> str:
    return f"({', '.join(['n', *map(str, tuple(tensor.shape)[1:])])})"
