"""Tiny data and encoders, and checks for your own layers, losses and stages."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_msd.checks import InputError
from keras_msd.data.pair import Pair
from keras_msd.models.encoder import Encoder, new_encoder
from keras_msd.tokenizers.base import Tokenizer

__all__ = [
    "SENTENCES",
    "run_layer_test",
    "run_loss_test",
    "run_stage_test",
    "tiny_encoder",
    "tiny_pairs",
    "tiny_tokenizer",
]

SENTENCES = [
    ("The cat sleeps on the chair.", "Die Katze schläft auf dem Stuhl.", "de"),
    ("A dog runs in the park.", "Ein Hund läuft im Park.", "de"),
    ("We drink coffee in the morning.", "Wir trinken am Morgen Kaffee.", "de"),
    ("The train arrives at noon.", "Der Zug kommt mittags an.", "de"),
    ("The cat sleeps on the chair.", "Le chat dort sur la chaise.", "fr"),
    ("A dog runs in the park.", "Un chien court dans le parc.", "fr"),
    ("She reads a long book.", "Elle lit un long livre.", "fr"),
    ("The house is very old.", "La maison est très vieille.", "fr"),
]


def tiny_pairs() -> list[Pair]:
    """Return eight pairs in two languages; two English lines occur twice.

    Example:
        >>> msd.testing.tiny_pairs()[0]
        Pair(source='The cat sleeps on the chair.',
             target='Die Katze schläft auf dem Stuhl.', language='de',
             source_language='en')
    """
    return [Pair(*sentence) for sentence in SENTENCES]


def tiny_tokenizer() -> Tokenizer:
    """Return a SentencePiece tokenizer trained on the tiny pairs.

    Example:
        >>> msd.testing.tiny_tokenizer().vocabulary_size
        90
    """
    from keras_msd.tokenizers.sentencepiece import train_unigram

    texts = [text for source, target, _ in SENTENCES for text in (source, target)]
    return train_unigram(texts, vocabulary_size=90)


def tiny_encoder(tokenizer: Tokenizer | None = None, **fields: Any) -> Encoder:
    """Return an encoder of a few thousand parameters with random weights.

    Args:
        tokenizer: By default the tiny one.
        **fields: Fields of `EncoderConfig` that shall differ.

    Example:
        >>> encoder = msd.testing.tiny_encoder(projection_dim=4)
        >>> encoder.dim, encoder.num_parameters
        (4, 6516)
    """
    small = {
        "num_layers": 2,
        "hidden_dim": 16,
        "num_heads": 2,
        "intermediate_dim": 32,
        "max_length": 32,
    }
    return new_encoder(tokenizer or tiny_tokenizer(), **small | fields)


def run_layer_test(layer: Any, *inputs: np.ndarray, weights: int) -> None:
    """Check a layer: config round trip, weight count, shapes, three dtype policies.

    Args:
        layer: A layer that is not built yet.
        *inputs: What its `call` takes.
        weights: How many weights it must have.

    Raises:
        AssertionError: One of the checks fails.

    Example:
        >>> hidden, mask = np.ones((2, 3, 4), "float32"), np.ones((2, 3), "int32")
        >>> layer = msd.layers.Pooling("max")
        >>> msd.testing.run_layer_test(layer, hidden, mask, weights=0)
    """
    config = layer.get_config()
    twin = type(layer).from_config(config)
    _check(twin.get_config() == config, "get_config does not survive a round trip")
    output = keras.ops.convert_to_numpy(layer(*inputs))
    _check(
        len(layer.weights) == weights, f"{len(layer.weights)} weights, not {weights}"
    )
    _check(bool(np.isfinite(output).all()), "the output is not finite")
    symbolic = layer(*[keras.KerasTensor(x.shape, str(x.dtype)) for x in inputs])
    _check(tuple(symbolic.shape) == output.shape, "symbolic and eager shapes differ")
    for policy in ("mixed_float16", "mixed_bfloat16"):
        other = type(layer).from_config(config | {"dtype": policy})
        result = keras.ops.convert_to_numpy(keras.ops.cast(other(*inputs), "float32"))
        _check(result.shape == output.shape, f"shape changes under {policy}")
        _check(bool(np.isfinite(result).all()), f"not finite under {policy}")


def run_loss_test(
    loss: Any, y_true: Any, y_pred: Any, rows: Any, rtol: float = 1e-5
) -> None:
    """Check a loss: values, reduction, config round trip, float32, zero vectors.

    Args:
        loss: A loss with the default reduction.
        y_true: Its goals: NumPy arrays, the first of `(n, d)`.
        y_pred: Its predictions: NumPy arrays.
        rows: What `call` must give, `(n,)`, from an independent computation.
        rtol: Relative tolerance.

    Raises:
        AssertionError: One of the checks fails.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> guide, student = rng.normal(size=(2, 5, 3)).astype("float32")
        >>> squares = ((guide - student) ** 2).mean(axis=1)
        >>> loss = msd.losses.EmbeddingMSE()
        >>> msd.testing.run_loss_test(loss, guide, student, squares)
    """
    rows = np.asarray(rows, "float32")

    def check(result: Any, expected: Any, what: str) -> None:
        dtype = keras.backend.standardize_dtype(result.dtype)
        result = keras.ops.convert_to_numpy(result)
        _check(dtype == "float32", f"{what}: {dtype}, not float32")
        _check(result.shape == np.shape(expected), f"{what}: shape {result.shape}")
        close = np.allclose(result, expected, rtol=rtol, atol=rtol * 0.1)
        _check(close, f"{what}: {result}, expected {expected}")

    each = keras.tree.map_structure
    tensors = each(
        lambda x: keras.ops.convert_to_tensor(x, "float32"), (y_true, y_pred)
    )
    check(loss.call(*tensors), rows, "call")
    check(loss(y_true, y_pred), rows.mean(), "default reduction")
    config = loss.get_config()
    summed = type(loss).from_config(config | {"reduction": "sum"})
    check(summed(y_true, y_pred), rows.sum(), 'reduction="sum"')
    twin = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loss)
    )
    _check(twin.get_config() == config, "the config does not survive a round trip")
    check(twin(y_true, y_pred), rows.mean(), "the loss after a round trip")

    half = each(lambda x: x.astype("float16"), y_pred)
    rounded = each(lambda x: x.astype("float32"), half)
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        mixed = type(loss).from_config(config)(y_true, half)
        check(mixed, loss(y_true, rounded), "float16 embeddings")
    finally:
        keras.config.set_dtype_policy(policy)
    zero = keras.ops.convert_to_numpy(loss(y_true, each(np.zeros_like, y_pred)))
    _check(bool(np.isfinite(zero).all()), "zero vectors: the loss is not finite")


def run_stage_test(
    make: Callable[[], Any],
    x: dict[str, np.ndarray],
    y: dict[str, np.ndarray],
    heads: int = 0,
) -> None:
    """Check a stage under XLA: logs, loss, update, errors; it must hold no guide.

    Args:
        make: Makes the stage anew, not compiled, with an encoder of its own and the
            same weights each time and dropout 0.
        x: Inputs of one batch, NumPy arrays.
        y: Targets of that batch.
        heads: Weights that the stage has beside the encoder's, for training only.

    Raises:
        AssertionError: One of the checks fails.

    Example:
        >>> import keras
        >>> def make():
        ...     keras.utils.set_random_seed(1)
        ...     encoder = msd.testing.tiny_encoder(num_layers=0, dropout=0.0)
        ...     return msd.stages.TeachAssistant(encoder)
        >>> names = ("source_token_ids", "source_padding_mask")
        >>> names += ("target_token_ids", "target_padding_mask")
        >>> x = {name: np.full((3, 4), 2, "int32") for name in names}
        >>> x["group"] = np.arange(3)
        >>> y = {"teacher": np.eye(3, 16, dtype="float32")}
        >>> msd.testing.run_stage_test(make, x, y)
    """
    count = len(x["group"])
    stage = make()
    _check(len(stage.terms) > 0 and len(stage.targets) > 0, "no terms or no targets")
    terms = _terms(stage, x, y)
    _check(set(terms) == {"loss", *stage.terms}, "`loss_terms` and `terms` differ")
    stage.compile(keras.optimizers.SGD(1e-4), jit_compile=True)
    owned = {id(weight) for weight in stage.network.weights}
    foreign = [weight.path for weight in stage.weights if id(weight) not in owned]
    what = f"the stage holds weights that are no encoder's: {foreign}"
    _check(len(foreign) == heads, what)

    before = [keras.ops.convert_to_numpy(weight) for weight in stage.weights]
    history = stage.fit(x, y, batch_size=count, shuffle=False, verbose=0).history
    _check(set(history) == set(terms), f"the logs hold {sorted(history)}")
    for name, expected in terms.items():
        close = np.isclose(history[name][0], expected, rtol=1e-5)
        _check(close, f"`{name}` is logged as {history[name][0]}, it is {expected}")
    after = [keras.ops.convert_to_numpy(weight) for weight in stage.weights]
    pairs = list(zip(before, after, strict=True))
    _check(any((a != b).any() for a, b in pairs), "a step changes nothing")
    _check(all(np.isfinite(b).all() for _, b in pairs), "a step is not finite")
    later = _terms(stage, x, y)["loss"]
    _check(later < terms["loss"], "a small step does not lower the loss")

    for name in stage.targets:
        rest = {key: value for key, value in y.items() if key != name}
        _refused(make(), x, rest, name)
        _refused(make(), x, y | {name: y[name][..., :-1]}, name)


def _terms(stage: Any, x: Any, y: Any) -> dict[str, float]:
    """Return each term of the loss, and their weighted sum as "loss"."""
    found = stage.loss_terms(x, y, stage(x, training=False))
    terms = {name: float(value) for name, value in found.items()}
    total = sum(stage.term_weights[name] * terms[name] for name in terms)
    return {"loss": total, **terms}


def _refused(stage: Any, x: Any, y: Any, name: str) -> None:
    try:
        stage.compute_loss(x, y, stage(x, training=False))
    except InputError as error:
        _check(f"`{name}`" in str(error), f"the error does not name `{name}`: {error}")
    else:
        raise AssertionError(f"a missing or narrow `{name}` is no error")


def _check(holds: Any, message: str) -> None:
    if not holds:
        raise AssertionError(message)
