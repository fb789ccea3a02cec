"""Structured pruning: fewer heads and neurons in every layer, refitted."""

import abc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, above, at_least, sentences
from keras_msd.layers import ACTIVATIONS
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import WORD, EncoderConfig
from keras_msd.progress import track

Weights = dict[str, np.ndarray]
# Of the penalties 1e-4, 0.01, 0.1 and 1, this one leaves least error on other texts.
# With 1e-4 an output matrix becomes up to fifty times as large (experiments/refit.py),
# and a training made such a start worse.
RIDGE = 0.1
PRUNING_TEXTS = 960  # that decide which heads and neurons stay, in recipes and `distil`
SENTENCES = 32  # of equal length, that are run at a time
# What a student has in common with the assistant that its layers are refitted to.
SHARED = "num_layers hidden_dim activation normalize_first layer_norm_epsilon".split()


def prune_width(
    encoder: Encoder,
    texts: Iterable[str],
    num_heads: int | None = None,
    intermediate_dim: int | None = None,
    ridge: float = RIDGE,
) -> Encoder:
    """Remove attention heads and feed-forward neurons from every layer.

    The result is as deep as the encoder and has its `hidden_dim`. From the first layer
    to the last, the heads and then the neurons stay whose contribution to the residual
    stream varies most over the tokens of `texts`. Least squares then change the output
    matrix and bias of the sublayer, so that the residual stream of the pruned encoder,
    whose earlier layers are pruned too, comes near to that of the whole one. Nothing is
    trained.

    With the outputs `u_t` of the heads or neurons that stay, and `r_t` what the pruned
    residual stream lacks at token t, the changes D of the matrix and d of the bias
    minimise `sum_t ||u_t D + d - r_t||^2 + p ||D||^2`. Here p is `ridge` times the mean
    over the columns of u of their squared deviations, summed over the tokens.

    Memory: of all tokens at once two residual streams and the outputs that stay,
    `4 (2 hidden_dim + max(num_heads head_dim, intermediate_dim))` bytes a token.

    Args:
        encoder: An encoder with layers and `repeats=1`; it is not changed.
        texts: Some hundred sentences like those that will be encoded, with the prompt
            if there is one.
        num_heads: Heads of each layer that stay. Default: all.
        intermediate_dim: Neurons of each feed-forward layer that stay. Default: all.
        ridge: Weight of the penalty.

    Raises:
        InputError: `encoder` has no layers, repeats them or is an artefact; there are
            more heads or neurons to keep than it has; there are no texts; or a number
            is not positive.

    Source: ours; structured pruning of heads after Michel et al. 2019, least squares
        for the outputs of what stays after He et al. 2017.

    Example:
        >>> encoder = msd.testing.tiny_encoder(num_heads=4)
        >>> texts = ["The cat sleeps.", "Die Katze schläft."]
        >>> thin = msd.starts.prune_width(encoder, texts, 3, intermediate_dim=8)
        >>> thin.config.num_heads, thin.config.head_dim, thin.config.intermediate_dim
        (3, 4, 8)
    """
    above(0, ridge=ridge)
    texts = some_texts(texts)
    fields = _fields(encoder, num_heads, intermediate_dim)
    pruned = encoder.with_config(origin="prune_width", **fields)
    counts = pruned.config.num_heads, pruned.config.intermediate_dim
    values = encoder.weights()
    embedded = [*embedded_tokens(encoder, values, texts)]
    layers = _layers(encoder.config, "Pruning layers")
    _fit_layers(layers, values, values.copy(), embedded, embedded, ridge, counts)
    pruned.set_weights(values, origin="the pruned encoder")
    return pruned


def refit_layers(
    student: Encoder, assistant: Encoder, texts: Iterable[str], ridge: float = RIDGE
) -> None:
    """Refit a student's layers to an assistant that they were copied from, in place.

    A copied layer expects the residual stream of the assistant. A student whose token
    embeddings are narrower, or whose layers have fewer heads or neurons, gives it
    another one. From the first layer to the last, least squares change the output
    matrix and bias of each sublayer, as in `prune_width`, so that the student's
    residual stream comes near to the assistant's. Nothing is trained.

    Memory: as `prune_width`.

    Args:
        student: Encoder with as many layers as the assistant, each with weights of its
            own.
        assistant: Encoder with the same tokenizer and `hidden_dim`.
        texts: Some thousand sentences like those that will be encoded, with the prompt
            if there is one.
        ridge: Weight of the penalty.

    Raises:
        InputError: One of them has no layers, repeats them or is an artefact; their
            tokenizers, numbers or kinds of layers differ; there are no texts; or
            `ridge` is not positive.

    Source: ours, after He et al. 2017.

    Example:
        >>> assistant = msd.testing.tiny_encoder(bottleneck_dim=None)
        >>> student = msd.testing.tiny_encoder(bottleneck_dim=16)
        >>> texts = ["The cat sleeps.", "Die Katze schläft."]
        >>> msd.starts.refit_layers(student, assistant, texts)
    """
    above(0, ridge=ridge)
    texts = some_texts(texts)
    both = with_layers(student).config, with_layers(assistant).config
    differing = [name for name in SHARED if len({getattr(it, name) for it in both}) > 1]
    if student.tokenizer.fingerprint != assistant.tokenizer.fingerprint:
        differing.append("tokenizer")
    if differing:
        raise InputError(
            "`student` must have its assistant's tokenizer, hidden_dim and kind of "
            f"layers. Received others: {', '.join(differing)}. Give the assistant that "
            "it was made from."
        )
    given, values = assistant.weights(), student.weights()
    length = min(student.max_length, assistant.max_length)
    goals = [*embedded_tokens(assistant, given, texts, length)]
    own = [*embedded_tokens(student, values, texts, length)]
    layers = _layers(student.config, "Refitting layers")
    _fit_layers(layers, values, given, goals, own, ridge)
    student.set_weights(values, origin="the refitted layers")


def some_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts that a pruning is decided by; raise `InputError` for none."""
    texts = sentences(texts)
    if not texts:
        raise InputError(
            "`texts` must have sentences. Received: none. Give some hundred, such as "
            "the encoder will see."
        )
    return texts


def with_layers(encoder: Any) -> Encoder:
    """Return an encoder whose layers have weights of their own.

    Raises:
        InputError: It has none.
    """
    encoder = getattr(encoder, "keras_encoder", encoder)
    if not isinstance(encoder, Encoder):
        raise InputError(
            "`encoder` must be an encoder with weights. Received: "
            f"{type(encoder).__name__}. Load the encoder that it was exported from."
        )
    config = encoder.config
    if config.repeats != 1 or not config.num_layers:
        raise InputError(
            "`encoder` must have layers, each with weights of its own. Received: "
            f"num_layers={config.num_layers}, repeats={config.repeats}. Give the "
            "encoder whose layers were copied."
        )
    return encoder


def _fields(
    encoder: Encoder, num_heads: int | None, intermediate_dim: int | None
) -> dict[str, Any]:
    """Return the fields of `EncoderConfig` that differ in the pruned encoder."""
    config = with_layers(encoder).config
    given = {"num_heads": num_heads, "intermediate_dim": intermediate_dim}
    kept = {name: count for name, count in given.items() if count is not None}
    check_kept(config, kept)
    if kept.get("num_heads", config.num_heads) < config.num_heads:
        kept["head_dim"] = config.key_dim
    return kept


def check_kept(shape: Any, kept: Mapping[str, int]) -> None:
    """Raise `InputError` if more is to stay than a layer has.

    Args:
        shape: Has `num_heads` and `intermediate_dim`, such as an `EncoderConfig`.
        kept: How many of them stay, by these names.
    """
    at_least(1, **kept)
    for name, count in kept.items():
        if count > (most := getattr(shape, name)):
            raise InputError(
                f"`{name}` must be at most the encoder's, {most}. Received: "
                f"{name}={count}. Leave `{name}` out to keep all."
            )


def embedded_tokens(
    encoder: Encoder, weights: Weights, texts: list[str], max_length: int | None = None
) -> Iterator[np.ndarray]:
    """Yield the embedded tokens of sentences of one length, `(n, length, hidden)`."""
    config = encoder.config
    places = weights["embedding/position"][config.position_offset :]
    by_length: dict[int, list[list[int]]] = {}
    for row in encoder.tokenizer.encode(texts, max_length or encoder.max_length):
        by_length.setdefault(len(row), []).append(row)
    for length, rows in sorted(by_length.items()):  # so that nothing is padded
        for some in in_chunks(rows, SENTENCES):
            ids = np.array(some)
            hidden = weights[WORD][ids]
            hidden[ids == config.pad_id] = 0
            if config.bottleneck_dim is not None:
                hidden = hidden @ weights["embedding/projection"]
            hidden = hidden + places[:length] + weights["embedding/type"][0]
            if config.embedding_layer_norm:
                hidden = _normalized(config, weights, "embedding/layer_norm", hidden)
            yield hidden


def _normalized(
    config: EncoderConfig, weights: Weights, norm: str, hidden: np.ndarray
) -> np.ndarray:
    centred = hidden - hidden.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt(variance + config.layer_norm_epsilon)
    return scaled * weights[f"{norm}/gamma"] + weights[f"{norm}/beta"]


def _dense(weights: Weights, name: str, hidden: np.ndarray) -> np.ndarray:
    """Return a dense layer's outputs, `(tokens, ...)` as its bias has axes."""
    kernel, bias = weights[f"{name}/kernel"], weights[f"{name}/bias"]
    rows = hidden.reshape(-1, len(kernel)) @ kernel.reshape(len(kernel), -1)
    return rows.reshape(-1, *bias.shape) + bias


class _Sublayer(abc.ABC):
    """A half of a layer: units, which are heads or neurons, and their output matrix.

    Kernels of `inputs` have the units at axis 1; their biases, and the kernel of
    `output`, at axis 0.
    """

    inputs: tuple[str, ...]
    output: str
    norm: str

    def __init__(self, config: EncoderConfig) -> None:
        self.config = config

    @abc.abstractmethod
    def units(self, weights: Weights, hidden: np.ndarray) -> np.ndarray:
        """Return the units' outputs, `(tokens, units, width of a unit)`."""

    def weights(self, values: Weights, path: str) -> Weights:
        """Return the weights of the sublayer of a block."""
        dense = [*self.inputs, self.output]
        names = [f"{it}/{kind}" for it in dense for kind in ("kernel", "bias")]
        names += [f"{self.norm}/gamma", f"{self.norm}/beta"]
        return {name: values[path + name] for name in names}

    def of_units(self, weights: Weights, kept: np.ndarray) -> Weights:
        """Return the weights of some units."""
        taken = {f"{it}/kernel": weights[f"{it}/kernel"][:, kept] for it in self.inputs}
        taken |= {f"{it}/bias": weights[f"{it}/bias"][kept] for it in self.inputs}
        output = f"{self.output}/kernel"
        return weights | taken | {output: weights[output][kept]}

    def before(self, weights: Weights, hidden: np.ndarray) -> np.ndarray:
        """Return the units' inputs, given the residual stream."""
        if not self.config.normalize_first:
            return hidden
        return _normalized(self.config, weights, self.norm, hidden)

    def after(self, weights: Weights, hidden: np.ndarray) -> np.ndarray:
        """Return the residual stream for the next sublayer, given the sum."""
        if self.config.normalize_first:
            return hidden
        return _normalized(self.config, weights, self.norm, hidden)

    def summed(
        self, weights: Weights, hidden: np.ndarray, units: np.ndarray
    ) -> np.ndarray:
        """Return the residual stream plus what the units add to it."""
        kernel = weights[f"{self.output}/kernel"].reshape(-1, hidden.shape[-1])
        added = units.reshape(-1, len(kernel)) @ kernel + weights[f"{self.output}/bias"]
        return hidden + added.reshape(hidden.shape)


class _Attention(_Sublayer):
    inputs = tuple(f"self_attention_layer/{name}" for name in ("query", "key", "value"))
    output = "self_attention_layer/attention_output"
    norm = "self_attention_layer_norm"

    def units(self, weights: Weights, hidden: np.ndarray) -> np.ndarray:
        def split(name: str) -> np.ndarray:
            rows = _dense(weights, name, hidden)
            return rows.reshape(*hidden.shape[:2], *rows.shape[1:]).swapaxes(1, 2)

        query, key, value = map(split, self.inputs)
        scores = query @ key.swapaxes(2, 3) / math.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = shares / shares.sum(axis=-1, keepdims=True) @ value
        return mixed.swapaxes(1, 2).reshape(-1, *value.shape[1::2])


class _FeedForward(_Sublayer):
    inputs = ("feedforward_intermediate_dense",)
    output = "feedforward_output_dense"
    norm = "feedforward_layer_norm"

    def units(self, weights: Weights, hidden: np.ndarray) -> np.ndarray:
        neurons = _dense(weights, *self.inputs, hidden)
        activate = keras.activations.get(ACTIVATIONS[self.config.activation])
        return keras.ops.convert_to_numpy(activate(neurons))[:, :, np.newaxis]


def _layers(config: EncoderConfig, what: str) -> Iterator[tuple[str, _Sublayer, int]]:
    """Yield the path of each layer with each of its sublayers and that one's place."""
    sublayers = _Attention(config), _FeedForward(config)
    for index in track(range(config.num_layers), total=config.num_layers, what=what):
        for place, sublayer in enumerate(sublayers):
            yield f"body/block_{index}/", sublayer, place


def passed(
    config: EncoderConfig, values: Weights, layer: int, batches: list[np.ndarray]
) -> list[np.ndarray]:
    """Return the residual stream behind a layer.

    Args:
        config: The encoder's.
        values: Its weights.
        layer: Number of the layer.
        batches: The stream before it, `(n, length, hidden_dim)` each, without padding.
    """
    for sublayer in (_Attention(config), _FeedForward(config)):
        weights, found = sublayer.weights(values, f"body/block_{layer}/"), []
        for hidden in batches:
            units = sublayer.units(weights, sublayer.before(weights, hidden))
            summed = sublayer.summed(weights, hidden, units)
            found.append(sublayer.after(weights, summed))
        batches = found
    return batches


def _fit_layers(
    layers: Iterable[tuple[str, _Sublayer, int]],
    values: Weights,
    given: Weights,
    full: list[np.ndarray],
    own: list[np.ndarray],
    ridge: float,
    counts: Sequence[int] | None = None,
) -> None:
    """Fit the outputs of every sublayer, from the first to the last.

    Args:
        layers: What `_layers` yields.
        values: The smaller encoder's weights, changed in place.
        given: The whole encoder's.
        full: The whole encoder's embedded tokens, one array a batch.
        own: The smaller encoder's.
        ridge: Weight of the penalty.
        counts: Heads and neurons of the whole encoder that stay. None: the smaller
            encoder has its heads and neurons already.
    """
    for path, sublayer, place in layers:
        weights = sublayer.weights(given, path)
        moments, goals = [], []
        for hidden in full:
            units = sublayer.units(weights, sublayer.before(weights, hidden))
            goals.append(sublayer.summed(weights, hidden, units))
            if counts is not None:
                moments.append(_moments(units))
        if counts is None:
            start = sublayer.weights(values, path)
        else:
            variances = _variances(moments, weights[f"{sublayer.output}/kernel"])
            kept = np.argsort(-variances, kind="stable")[: counts[place]]
            start = sublayer.of_units(weights, np.sort(kept))
        own = _fit_outputs(sublayer, start, goals, own, ridge)
        values |= {path + name: value for name, value in start.items()}
        full = [sublayer.after(weights, goal) for goal in goals]


def _fit_outputs(
    sublayer: _Sublayer,
    weights: Weights,
    goals: list[np.ndarray],
    own: list[np.ndarray],
    ridge: float,
) -> list[np.ndarray]:
    """Change the output matrix and bias in `weights` so that the sums meet the goals.

    Returns:
        The residual stream behind the sublayer.
    """
    outputs, missing = [], []
    for goal, hidden in zip(goals, own, strict=True):
        units = sublayer.units(weights, sublayer.before(weights, hidden))
        lack = goal - sublayer.summed(weights, hidden, units)
        outputs.append(units.reshape(len(units), -1))
        missing.append(lack.reshape(len(units), -1))
    change, shift = _least_squares(outputs, missing, ridge)
    kernel, bias = f"{sublayer.output}/kernel", f"{sublayer.output}/bias"
    weights[kernel] = weights[kernel] + change.reshape(weights[kernel].shape)
    weights[bias] = weights[bias] + shift
    return [
        sublayer.after(weights, sublayer.summed(weights, hidden, units))
        for hidden, units in zip(own, outputs, strict=True)
    ]


def _moments(units: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of tokens, and the sum and products of each unit's outputs."""
    rows = np.ascontiguousarray(units.transpose(1, 2, 0))
    products = (rows @ rows.swapaxes(1, 2)).astype(np.float64)
    return len(units), units.sum(axis=0, dtype=np.float64), products


def _variances(
    moments: list[tuple[int, np.ndarray, np.ndarray]], kernel: np.ndarray
) -> np.ndarray:
    """Return the variance of what each unit adds to the residual stream.

    With a unit's covariance C and its rows W of the output `kernel` it is the trace of
    `W' C W`: the sum over the stream's dimensions.

    Args:
        moments: What `_moments` returns for each batch.
        kernel: The output matrix.
    """
    count, total, products = (
        np.sum(parts, axis=0) for parts in zip(*moments, strict=True)
    )
    mean = total / count
    covariance = products / count - mean[:, :, None] * mean[:, None, :]
    rows = kernel.reshape(*mean.shape, -1).astype(np.float64)
    return np.asarray(((covariance @ rows) * rows).sum(axis=(1, 2)))


def _least_squares(
    inputs: list[np.ndarray], goals: list[np.ndarray], ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix `(columns, hidden)` and the bias `(hidden,)`, float32.

    The bias has no penalty: it makes up for the means, which are subtracted first.
    """
    from scipy import linalg

    mean, goal_mean = (
        np.sum([part.sum(axis=0, dtype=np.float64) for part in parts], axis=0)
        / sum(map(len, parts))
        for parts in (inputs, goals)
    )
    gram = np.zeros((len(mean), len(mean)))
    right = np.zeros((len(mean), len(goal_mean)))
    for part, goal in zip(inputs, goals, strict=True):
        centred = part - mean.astype(np.float32)
        gram += centred.T @ centred
        right += centred.T @ (goal - goal_mean.astype(np.float32))
    spread = max(np.trace(gram) / len(gram), np.finfo(np.float32).tiny)  # never zero
    gram[np.diag_indices_from(gram)] += ridge * spread
    change = linalg.solve(gram, right, assume_a="pos")
    shift = goal_mean - mean @ change
    return change.astype(np.float32), shift.astype(np.float32)
