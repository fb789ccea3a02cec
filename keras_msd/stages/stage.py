"""The base class of stages, and what a stage tells a recipe about itself."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_msd.checks import (
    InputError,
    at_least,
    explain_arguments,
    nearest,
    one_of,
    without_default_prompt,
)
from keras_msd.choices import SIDES
from keras_msd.losses import EmbeddingMSE, loss_class
from keras_msd.models.encoder import Encoder
from keras_msd.stages.settings import (
    PairStageSettings,
    StudentVectors,
    TeacherVectors,
    TrainingSettings,
)
from keras_msd.training.callbacks import FiniteLoss
from keras_msd.training.chunks import INPUTS, Tensor, Tensors, check_chunks
from keras_msd.training.rounding import Rounding

# Whose embeddings a target is: the teacher's (None), or those of what a function makes
# of the assistant and the stage's settings.
Guide = Callable[[Encoder, Any], Any] | None
# Target -> guide and side of a pair, "source" or "target".
Guides = Mapping[str, tuple[Guide, str]]
TEACHER: Guide = None
OF_SOURCE: Guides = {"teacher": (TEACHER, "source")}
OWN_LOSS = "A stage computes its own loss, which you choose when you make it."
OWN_METRICS = (
    "A stage logs its loss and each term of it. For scores on held-out texts, give "
    "`fit` a `callbacks.ScoreCallback`."
)


def _step() -> Any:
    if keras.backend.backend() == "tensorflow":
        from keras_msd.training.tensorflow_step import TensorFlowStep

        return TensorFlowStep
    from keras_msd.training.jax_step import JaxStep

    return JaxStep


class LossTerm(NamedTuple):
    """One term of a stage's loss, over both sides of a batch.

    The loss is called as `loss(vectors, (source, target))`, with `grouped` as
    `loss((vectors, group), (source, target))`. `vectors` are the entries of `y` that
    `goals` names. `source` holds the embeddings of the source sentences, `target` those
    of the translations.

    Attributes:
        name: Name of the term in the logs and in the stage's weights.
        loss: A `keras.losses.Loss`, or a name in `LOSSES`.
        goals: Key, or keys, of `y` whose vectors are passed to the loss.
        grouped: Whether to pass `group`, too. `group[i]` is the index of the first row
            in the batch with the same source sentence as row i.
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

    `target` alone is a side of a pair: the translation of `source`. `targets` are the
    names of the vectors in `y` that the encoder learns to reproduce. They are computed
    in advance (`guides=` of `PairBatches`): every batch contains them, and the stage
    does not hold the teacher.

    The loss is a weighted sum of two kinds of terms:

    - `goals` maps a side to a key of `y`. The MSE between the embeddings of that side
      and these vectors is the term `source_mse` or `target_mse`.
    - `losses` adds terms that are computed from both sides together.

    The logs contain every term by name, unweighted, and `loss`, the weighted sum.

    A subclass sets `goals`. If it has terms that `goals` and `losses` cannot express,
    it adds their names to `targets` and `terms`, and overrides `loss_terms`.

    Batches: `(x, y)`. x contains `source_token_ids`, `source_padding_mask`,
    `target_token_ids` and `target_padding_mask`, int32 `(n, length)`, and `group`,
    int32 `(n,)`, see `LossTerm`. y contains float32 `(n, dim)` for every name in
    `targets`. Sample weights raise an `InputError`.

    Args:
        encoder: A keras_msd encoder, or a functional Keras model with the inputs
            `token_ids` and `padding_mask`. It is trained in place.
        dims: Whether the MSE is the "mean" or the "sum" over the dimensions of a
            vector, see `EmbeddingMSE`.
        name: Name of the stage.
        chunk_size: Number of rows to run through the network at once. Set it if a batch
            does not fit in memory; see `training.chunks`. None runs the whole batch.
            With chunks, the network must not use activity regularisers, `add_loss` or
            batch statistics (such as BatchNormalization).
        losses: `LossTerm`s in addition to the stage's own.
        goals: For each side, the key of `y` to compare it with, for example `{"source":
            "teacher"}`. Default: the class attribute.
        quantize: "int8", "int4_table" or "int4": round the weights in every forward
            pass as an export with this `quantize` does, see `Rounding`. After `fit`,
            call `finish`, or the encoder keeps weights that are not rounded.
            `msd.training.fit` calls it for you.
        **weights: Weight of a term in the total loss, by the term's name; default 1. A
            term of weight 0 is neither computed nor logged.

    Raises:
        InputError: `encoder` is not an encoder, a weight is negative or names no term,
            all weights are 0, a loss or `quantize` is unknown, `chunk_size` is below 1,
            or the network does not support chunks.

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
    pools = True  # whether `embed` returns one vector for each sentence

    def __init__(
        self,
        encoder: Encoder | keras.Model,
        dims: str = "mean",
        name: str | None = None,
        chunk_size: int | None = None,
        losses: Iterable[LossTerm] = (),
        goals: Mapping[str, str] | None = None,
        quantize: str | None = None,
        **weights: float,
    ) -> None:
        at_least(1, chunk_size=chunk_size)
        without_default_prompt(encoder, "A stage trains")
        network = self.trained_part(_network(encoder))
        super().__init__(name=name, dtype=network.dtype_policy)
        if goals is not None:
            one_of(SIDES, **{f"side {side}": side for side in goals})
            self.goals = dict(goals)
        self.added = {term.name: term for term in map(complete, losses)}
        squares = {f"{side}_mse": side for side in self.goals}
        terms = _joined(squares, self.terms, self.added)
        weights = {name: term.weight for name, term in self.added.items()} | weights
        self._check_weights(weights, terms)
        self.terms = tuple(term for term in terms if weights.get(term, 1))
        self.added = {k: term for k, term in self.added.items() if k in self.terms}
        self.goals = {
            side: self.goals[side] for k, side in squares.items() if k in self.terms
        }
        of_added = (name for term in self.added.values() for name in term.goals)
        self.targets = _joined(self.goals.values(), self.targets, of_added)
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

    def _check_weights(self, weights: Mapping[str, Any], terms: Sequence[str]) -> None:
        for unknown in sorted(weights.keys() - set(terms)):
            raise InputError(
                f"`{type(self).__name__}` has no argument or term `{unknown}`. "
                f"{nearest(unknown, terms)} Its terms: {', '.join(terms)}."
            )
        for term, weight in weights.items():
            if not 0 <= weight < math.inf:
                raise InputError(
                    "The weight of a term must be finite and at least 0. Received: "
                    f"{term}={weight}."
                )
        if terms and not any(weights.get(term, 1) for term in terms):
            raise InputError(
                "A stage needs a term with a weight above 0. Received: 0 for "
                f"{', '.join(terms)}. Leave one of these weights out."
            )

    def trained_encoder(self) -> Encoder | keras.Model:
        """Return the encoder without training-only parts."""
        return self._encoder()

    def trained_part(self, model: keras.Model) -> keras.Layer:
        """Return the part of the encoder's model that this stage runs and trains."""
        return model

    def embed(
        self, token_ids: Tensor, padding_mask: Tensor, training: bool | None
    ) -> Tensor:
        """Return the embeddings of one side, `(n, dim)`."""
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        return self.network(inputs, training=training)

    def loss_terms(
        self, x: Tensors, y: Tensors, embeddings: Tensors
    ) -> dict[str, Tensor]:
        """Return a dict with one scalar loss per name in `terms`.

        The base class returns the terms of `goals` and `losses`. Subclasses add more.
        Compute each with a `keras.losses.Loss`: Keras divides its mean by the number of
        replicas, as the training step expects.

        Args:
            x: Inputs of the batch.
            y: Targets of the batch.
            embeddings: Embeddings of the sides `source` and `target`, from `embed`.
        """
        terms = {
            f"{side}_mse": self.distance(y[goal], embeddings[side], side, x)
            for side, goal in self.goals.items()
        }
        both = embeddings["source"], embeddings["target"]
        for name, term in self.added.items():
            goals: Any = tuple(y[goal] for goal in term.goals)
            goals = goals[0] if len(goals) == 1 else goals
            if term.grouped:
                goals = goals, input_of(x, "group")
            terms[name] = self.scaled(term.loss, term.loss(goals, both))
        return terms

    def distance(
        self, goal: Tensor, embedding: Tensor, side: str, x: Tensors
    ) -> Tensor:
        """Return the MSE between one side's embeddings and their target vectors."""
        return self.mse(goal, embedding)

    def call(self, x: Tensors, training: bool | None = None) -> dict[str, Tensor]:
        """Embed both sides with the same encoder."""
        for name in INPUTS:
            input_of(x, name)
        if self.chunk_size is None:
            return self.both_sides(x, training)
        return self.embed_in_chunks(x, training)

    def both_sides(self, x: Tensors, training: bool | None) -> dict[str, Tensor]:
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

    @explain_arguments(
        loss=f"{OWN_LOSS} Add terms with `losses=[LossTerm(...)]`.",
        loss_weights=f"{OWN_LOSS} Give the weights of its terms by name there.",
        metrics=OWN_METRICS,
        weighted_metrics=OWN_METRICS,
    )
    def compile(
        self,
        optimizer: keras.Optimizer | None,
        jit_compile: bool | str | None = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
    ) -> None:
        """Configure the optimizer. A stage defines its own loss, weights and metrics.

        Args:
            optimizer: As for every Keras model; None for `evaluate` alone.
            jit_compile: As for every Keras model; default True under JAX and on a GPU.
            run_eagerly: As for every Keras model.
            steps_per_execution: As for every Keras model.
        """
        if jit_compile is None:
            jit_compile = self.xla and not run_eagerly
        super().compile(
            optimizer=optimizer,
            jit_compile=jit_compile,
            run_eagerly=run_eagerly,
            steps_per_execution=steps_per_execution,
        )

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        callbacks: Iterable[keras.callbacks.Callback] | None = None,
        **options: Any,
    ) -> Any:
        """Train like any Keras model. To be able to resume, use `msd.training.fit`.

        Args:
            x: Batches.
            y: As for every Keras model.
            callbacks: As for every Keras model.
            **options: As for every Keras model.

        Raises:
            InputError: The loss is NaN or infinite.
        """
        own = self.local_batches(x)
        first: list[Any] = [FiniteLoss(x)]
        if hasattr(x, "of_process"):  # batches of ours: their order follows a seed
            options.setdefault("shuffle", False)
            # Under `tf.distribute` Keras has read a batch before, to build the model,
            # and TensorFlow others ahead, perhaps to the end of a pass.
            rewind = partial(setattr, x, "position", x.position)
            first.append(
                keras.callbacks.LambdaCallback(on_train_begin=lambda _: rewind())
            )
        return super().fit(own, y, callbacks=[*first, *(callbacks or ())], **options)

    def save(self, *arguments: Any, **options: Any) -> None:
        """Raise `InputError`: save the encoder instead."""
        raise InputError(
            "A stage cannot be saved as a Keras model. Call `trained_encoder().save("
            "folder)`, or `save_weights` (in `ModelCheckpoint`: "
            "`save_weights_only=True`)."
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
                "A stage takes batches of `(x, y)`. Received: sample weights, too."
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

    def rows(self, x: Tensors) -> Tensor:
        """Return the number of pairs in a batch."""
        return ops.shape(x["source_token_ids"])[0]

    def target_shape(self, target: Tensor, embedding: Tensor) -> tuple[int, ...]:
        """Return the shape of each row of a target; by default that of an embedding."""
        return tuple(embedding.shape[1:])

    def _check_targets(self, y: Tensors, embeddings: Tensors) -> None:
        given = y if isinstance(y, dict) else {}
        for name in self.targets:
            side = "target" if name.endswith("_target") else "source"
            if name not in given:
                raise InputError(
                    f"`{type(self).__name__}` needs the target `{name}`. Received: "
                    f"{', '.join(sorted(given)) or 'none'}. Make batches with "
                    f'guides={{"{name}": (store, "{side}")}}.'
                )
            if name not in (*self.goals.values(), *type(self).targets):
                continue
            target, embedding = given[name], embeddings[side]
            received = tuple(target.shape)
            wanted = embedding.shape[0], *self.target_shape(target, embedding)
            if None in (received[0], wanted[0]):
                received, wanted = ("n", *received[1:]), ("n", *wanted[1:])
            if received != wanted:
                raise InputError(
                    f"The target `{name}` must have the shape {wanted}. Received: "
                    f"{received}. Use a teacher whose vectors have the encoder's "
                    "dimension, or set `projection_dim` of the encoder to theirs."
                )


def input_of(x: Tensors, name: str) -> Tensor:
    """Return an input of a batch; raise `InputError` if the batch has none."""
    if name not in x:
        raise InputError(
            f"A batch must contain `{name}`. Received: {', '.join(x) or 'nothing'}. "
            "Make batches with `PairBatches`."
        )
    return x[name]


def _joined(*names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain(*names)))


def complete(term: LossTerm) -> LossTerm:
    """Return the term with its loss instantiated and its goals as a tuple."""
    goals = (term.goals,) if isinstance(term.goals, str) else tuple(term.goals)
    loss = loss_class(term.loss)() if isinstance(term.loss, str) else term.loss
    return term._replace(loss=loss, goals=goals)


def _network(encoder: Encoder | keras.Model) -> Any:
    model = getattr(encoder, "model", encoder)
    inputs = getattr(model, "inputs", None) if isinstance(model, keras.Model) else ()
    if not {"token_ids", "padding_mask"} <= {tensor.name for tensor in inputs or ()}:
        raise InputError(
            "A stage trains an encoder, or a functional Keras model with the inputs "
            f"`token_ids` and `padding_mask`. Received: {type(encoder).__name__}. "
            "Artefacts and teachers cannot be trained."
        )
    return model


class TeachAssistant(Stage):
    """Stage 1: both sides imitate the teacher's vector of the source side.

    The loss is `mse(source, teacher) + mse(target, teacher)`, where `target` is the
    translation. The teacher may read only English, so both terms use its vector of the
    source side. In another printing of equation 2, the second term has its vector of
    the translation. For that loss, give both terms the weight 0 and add a `LossTerm` of
    `FeatureDistillation` whose goals are the teacher's vectors of both sides.

    Targets: `teacher` `(n, dim)`, vectors of the source side.
    Terms: `source_mse`, `target_mse`, means over batch and dims.
    Arguments: as for `Stage`.

    Source: Ding et al. 2022, eq. 2; Reimers & Gurevych 2020.

    Example:
        >>> stage = msd.stages.TeachAssistant(msd.testing.tiny_encoder())
        >>> stage.targets
        ('teacher',)
    """

    goals = {"source": "teacher", "target": "teacher"}


class TeachStudent(Stage):
    """Stage 3: the student imitates the assistant's vector of the same sentence.

    The loss is `mse(source, assistant(source)) + mse(target, assistant(target))`, where
    `target` is the translation.

    Targets: `assistant_source` and `assistant_target` `(n, dim)`, the assistant's
        vectors of the source side and of the translation.
    Terms: `source_mse`, `target_mse`, means over batch and dims.
    Arguments: as for `Stage`.

    Source: Ding et al. 2022, eq. 4.

    Example:
        >>> stage = msd.stages.TeachStudent(msd.testing.tiny_encoder())
        >>> stage.targets
        ('assistant_source', 'assistant_target')
    """

    goals = {"source": "assistant_source", "target": "assistant_target"}


def the_assistant(assistant: Encoder, settings: Any) -> Encoder:
    """Return the guide of stages that imitate the assistant itself."""
    return assistant


def both_sides(name: str, guide: Guide) -> Guides:
    """Return the targets `<name>_source` and `<name>_target` of one guide."""
    return {f"{name}_{side}": (guide, side) for side in SIDES}


class ExtraStep(NamedTuple):
    """An array that is made before a stage, by a step of its own.

    Attributes:
        name: Name of the step, and of the argument of the stage's class.
        make: Makes the array.
    """

    name: str
    make: Callable[[TeacherVectors, StudentVectors], np.ndarray]


@dataclass(frozen=True)
class StageRecord:
    """A stage that recipes can have, as `[stages.<name>]`.

    Add your own to `STAGES`, under its name, before you load a recipe that has it.

    Attributes:
        make: The class of the stage, or a function that makes a `Stage` of an encoder
            and keyword arguments: `losses`, the factors of `weights`, what `arguments`
            of the settings returns, and the arrays of extra steps.
        settings: The class of its section.
        guides: Target -> guide and side.
        trains: What it trains; "last" is every student, or the assistant of a recipe
            without students.
        rows: What it learns from: parallel text, or labelled pairs of sentences.
        needs_assistant: Whether the recipe must have an assistant.
        needs_teacher_dim: Whether `make` takes `teacher_dim`.
        extra_step: Returns the extra step that some settings bring, or None.
        only_for: The one kind of students that has this stage, and must have it.
        label: What score rows call it, by default its name.

    Example:
        >>> msd.stages.STAGES["teach_student"].trains
        'student'
    """

    make: Callable[..., Stage]
    settings: type[TrainingSettings] = PairStageSettings
    guides: Guides = field(default_factory=dict)
    trains: Literal["assistant", "student", "last"] = "student"
    rows: Literal["pairs", "scored", "inference"] = "pairs"
    needs_assistant: bool = True
    needs_teacher_dim: bool = False
    extra_step: Callable[[Any], ExtraStep | None] = lambda settings: None
    only_for: str = ""
    label: str = ""

    def targets(self, settings: TrainingSettings) -> Guides:
        """Return `guides` without targets that only terms of weight 0 compare."""
        goals = getattr(self.make, "goals", {})
        used = settings.compared.union(getattr(self.make, "targets", ()))
        for side, target in goals.items():
            if settings.weights.get(f"{side}_mse", 1):
                used.add(target)
        unused = {*goals.values()} - used
        return {name: it for name, it in self.guides.items() if name not in unused}

    def build(
        self, encoder: Encoder, settings: TrainingSettings, **given: Any
    ) -> Stage:
        """Return the stage that some settings describe, to train an encoder.

        `given` are `teacher_dim` if it is needed, and the array of the extra step.
        """
        losses = []
        for name, it in settings.losses.items():
            losses.append(LossTerm(name, it.make(), it.goals, it.grouped, it.weight))
        arguments = settings.weights | settings.arguments() | given
        return self.make(encoder, losses=losses, **arguments)
