"""The network of an encoder: its settings, its Keras model, its forward pass.

The forward pass is written once more, in operations that every runtime of an artefact
has of its own.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import keras
import numpy as np
import pydantic

from keras_msd import choices
from keras_msd.checks import InputError, divides, findings, one_of
from keras_msd.io.files import DEPTH
from keras_msd.layers import (
    POOLINGS,
    BottleneckEmbedding,
    L2Normalize,
    Pooling,
    RecurrentEncoder,
)
from keras_msd.runtimes import begin
from keras_msd.usage import Usage

WORD = "embedding/word"  # the table
POSITION = "embedding/position"
KERNELS = ("/kernel", "/projection")  # ends of the paths of matrices
MASKED = 1e9  # taken from an attention score, or a value, that does not count
SMALLEST_COUNT = 1e-9  # tokens that a mean divides by, as in `masked_mean`


class EncoderConfig(Usage):
    """Fields of an encoder: `embedding` -> `body` -> pooling -> projection -> norm.

    `num_layers` counts layers that own weights; depth is `num_layers * repeats`.
    With `num_layers=0` there is no body: the vector is the pooled embedding.
    `head_dim` is the dimension of an attention head, None for `hidden_dim / num_heads`.
    `bottleneck_dim` is the width of the word table, None for `hidden_dim`.
    `max_length` is the longest sentence in tokens, start and end included;
    `max_positions` the tokens that the position table has room for, None for
    `max_length` (a published checkpoint often has more rows than it uses).
    `prompts`, `default_prompt_name` and `similarity_fn_name` are those of `Usage`.

    Example:
        >>> config = msd.models.EncoderConfig(
        ...     vocabulary_size=90, hidden_dim=16, num_layers=2, num_heads=2,
        ...     intermediate_dim=32, repeats=3, pad_id=1,
        ... )
        >>> config.depth, config.pooling
        (6, 'mean')
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    vocabulary_size: int = pydantic.Field(ge=1)
    hidden_dim: int = pydantic.Field(ge=1)
    num_layers: int = pydantic.Field(ge=0)
    num_heads: int = pydantic.Field(ge=1)
    intermediate_dim: int = pydantic.Field(ge=1)
    repeats: int = pydantic.Field(default=1, ge=1)
    bottleneck_dim: int | None = pydantic.Field(default=None, ge=1)
    max_length: int = pydantic.Field(default=choices.MAX_LENGTH, ge=2)
    max_positions: int | None = pydantic.Field(default=None, ge=2)
    num_types: int = pydantic.Field(default=1, ge=1)
    pad_id: int = pydantic.Field(ge=0)
    position_offset: int = pydantic.Field(default=0, ge=0)
    layer_norm_epsilon: float = pydantic.Field(default=1e-12, gt=0)
    activation: choices.Activation = "gelu_erf"
    normalize_first: bool = False
    zero_residuals: bool = False
    embedding_layer_norm: bool = True
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    pooling: choices.Pooling = "mean"
    projection_dim: int | None = pydantic.Field(default=None, ge=1)
    projection_bias: bool = True
    projection_activation: Literal["linear", "tanh"] = "linear"
    normalize: bool = True
    # Absent without a value, so that fingerprints of encoders without one stay.
    head_dim: int | None = pydantic.Field(
        default=None, ge=1, exclude_if=lambda head_dim: head_dim is None
    )

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> "EncoderConfig":
        if self.head_dim is None:
            divides({"num_heads": self.num_heads}, {"hidden_dim": self.hidden_dim})
        DEPTH.check(self.depth, "`num_layers` x `repeats`", "Give fewer.")
        if self.pad_id >= self.vocabulary_size:
            raise ValueError(
                "`pad_id` must be below `vocabulary_size`. Received: "
                f"pad_id={self.pad_id}, vocabulary_size={self.vocabulary_size}."
            )
        if (self.max_positions or self.max_length) < self.max_length:
            raise ValueError(
                "`max_positions` must be at least `max_length`. Received: "
                f"max_positions={self.max_positions}, max_length={self.max_length}."
            )
        return self

    @property
    def dim(self) -> int:
        """Dimension of an embedding."""
        return self.projection_dim or self.hidden_dim

    @property
    def key_dim(self) -> int:
        """Dimension of a head's queries, keys and values."""
        return self.head_dim or self.hidden_dim // self.num_heads

    @property
    def depth(self) -> int:
        """Number of layers that a sentence passes through, repeats included."""
        return self.num_layers * self.repeats

    @classmethod
    def from_dict(cls, values: dict[str, Any], origin: str = "encoder") -> Any:
        """Make a config from plain values.

        Args:
            values: Field names and values.
            origin: Where they come from, named in the error.

        Raises:
            InputError: A key is unknown or missing, or a value does not fit.
        """
        try:
            return cls(**values)
        except pydantic.ValidationError as error:
            lines = findings(error, cls.model_fields)
            raise InputError(f"{origin}: " + " ".join(lines)) from error


def use_xla() -> bool:
    """Return the value of `jit_compile` for encoder networks.

    XLA compiles every padded length and every number of rows anew, where Keras chooses
    it by itself. JAX has no other way to run a whole network at a time.
    """
    return keras.backend.backend() == "jax"


def forward_pass(
    model: keras.Model,
) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """Return a function from a batch, int32 `(n, length)` each, to the output.

    Raises:
        InputError: See `runtimes.begin`; the function raises it too.
    """
    backend = keras.backend.backend()
    begin(backend)
    if backend == "tensorflow":
        import tensorflow as tf

        # Keras' own traces a network anew for a second length and again for the last
        # batch, before it takes any shape.
        ids = tf.TensorSpec([None, None], tf.int32)
        signature = [{"token_ids": ids, "padding_mask": ids}]

        @tf.function(input_signature=signature, autograph=False, jit_compile=False)
        def output(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
            return model(inputs, training=False)

        def forward(batch: Mapping[str, np.ndarray]) -> np.ndarray:
            begin(backend)
            return output(dict(batch)).numpy()

        return forward

    def padded(batch: Mapping[str, np.ndarray]) -> np.ndarray:
        begin(backend)
        count = len(batch["token_ids"])
        more = ((0, power_of_two(count) - count), (0, 0))
        filled = {name: np.pad(rows, more) for name, rows in batch.items()}
        return np.asarray(model.predict_on_batch(filled))[:count]

    return padded


def power_of_two(count: int) -> int:
    """Return the next power of two, so that few shapes are compiled."""
    return 1 << max(count - 1, 0).bit_length()


def weight_shapes(config: EncoderConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight that `build_model` makes, by its path.

    Example:
        >>> config = msd.testing.tiny_encoder().config
        >>> from keras_msd.models.network import weight_shapes
        >>> weight_shapes(config)["embedding/type"]
        (1, 16)
    """
    hidden, heads = config.hidden_dim, config.num_heads
    inner, width = config.intermediate_dim, config.bottleneck_dim or hidden
    positions = (config.max_positions or config.max_length) + config.position_offset
    norm: dict[str, tuple[int, ...]] = {"gamma": (hidden,), "beta": (hidden,)}
    shapes: dict[str, tuple[int, ...]] = {
        "embedding/word": (config.vocabulary_size, width),
        POSITION: (positions, hidden),
        "embedding/type": (config.num_types, hidden),
    }
    if config.bottleneck_dim is not None:
        shapes["embedding/projection"] = (width, hidden)
    if config.embedding_layer_norm:
        shapes |= {f"embedding/layer_norm/{name}": norm[name] for name in norm}
    head = config.key_dim
    block: dict[str, tuple[int, ...]] = {
        "self_attention_layer/attention_output/kernel": (heads, head, hidden),
        "self_attention_layer/attention_output/bias": (hidden,),
        "feedforward_intermediate_dense/kernel": (hidden, inner),
        "feedforward_intermediate_dense/bias": (inner,),
        "feedforward_output_dense/kernel": (inner, hidden),
        "feedforward_output_dense/bias": (hidden,),
    }
    for name in ("query", "key", "value"):
        block[f"self_attention_layer/{name}/kernel"] = (hidden, heads, head)
        block[f"self_attention_layer/{name}/bias"] = (heads, head)
    for layer in ("self_attention_layer_norm", "feedforward_layer_norm"):
        block |= {f"{layer}/{name}": norm[name] for name in norm}
    for index in range(config.num_layers):
        shapes |= {f"body/block_{index}/{name}": block[name] for name in block}
    if config.projection_dim is not None:
        shapes["projection/kernel"] = (hidden, config.dim)
        if config.projection_bias:
            shapes["projection/bias"] = (config.dim,)
    return shapes


def outputs(path: str, shape: tuple[int, ...]) -> int:
    """Return the output dimension of a kernel, also if heads have an axis."""
    joined = "/attention_output/" not in path  # which side stands in two axes
    return math.prod(shape[1:]) if joined else shape[-1]


def matrix(path: str, kernel: np.ndarray) -> np.ndarray:
    """Return a kernel as `(in, out)`."""
    return kernel.reshape(-1, outputs(path, kernel.shape))


def build_model(config: EncoderConfig) -> keras.Model:
    """Build an encoder's network with random weights.

    Inputs `token_ids` and `padding_mask`, int32 `(batch, length)`; output float32
    `(batch, config.dim)`. Layers are found by name: `embedding`, `body`, `pooling`,
    `projection`, `normalize`. Without a body the tables of positions and types are not
    trained.

    Args:
        config: What to build.

    Example:
        >>> config = msd.testing.tiny_encoder().config
        >>> model = msd.models.build_model(config)
        >>> model.output.shape, model.get_layer("pooling").mode
        ((None, 16), 'mean')
    """
    begin(keras.backend.backend())
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    padding_mask = keras.Input((None,), dtype="int32", name="padding_mask")

    embedding = BottleneckEmbedding(
        config.vocabulary_size,
        config.bottleneck_dim,
        config.hidden_dim,
        config.max_positions or config.max_length,
        num_types=config.num_types,
        pad_id=config.pad_id,
        position_offset=config.position_offset,
        layer_norm=config.embedding_layer_norm,
        layer_norm_epsilon=config.layer_norm_epsilon,
        dropout=config.dropout,
        name="embedding",
    )
    hidden = embedding(token_ids)
    if not config.num_layers:
        # Without a body, positions and types only add the same vector to everything.
        embedding.position.trainable = embedding.type.trainable = False
    else:
        hidden = RecurrentEncoder(
            config.num_layers,
            config.repeats,
            config.num_heads,
            config.intermediate_dim,
            activation=config.activation,
            layer_norm_epsilon=config.layer_norm_epsilon,
            normalize_first=config.normalize_first,
            zero_residuals=config.zero_residuals,
            dropout=config.dropout,
            head_dim=config.head_dim,
            name="body",
        )(hidden, padding_mask)
    vector = Pooling(config.pooling, name="pooling")(hidden, padding_mask)
    if config.projection_dim is not None:
        vector = keras.layers.Dense(
            config.projection_dim,
            use_bias=config.projection_bias,
            activation=config.projection_activation,
            dtype="float32",
            name="projection",
        )(vector)
    if config.normalize:
        vector = L2Normalize(dtype="float32", name="normalize")(vector)
    inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
    return keras.Model(inputs, vector, name="encoder")


def check_own_model(model: keras.Model) -> keras.Model:
    """Return a user's functional model as one whose inputs are given by name.

    Raises:
        InputError: It is not functional, its inputs are not `token_ids` and
            `padding_mask`, integers `(n, length)` of any length, its output is not one
            tensor of floats `(n, dim)`, or two of its weights have one path.
    """
    given = getattr(model, "inputs", None) if isinstance(model, keras.Model) else None
    if not given:
        raise InputError(
            "`model` must be a functional Keras model. Received: "
            f"{type(model).__name__}. Make one with keras.Model(inputs, outputs)."
        )
    named = {tensor.name: tensor for tensor in given}
    fits = named.keys() == {"token_ids", "padding_mask"} and len(model.outputs) == 1
    fits &= all(it.shape == (None, None) and "int" in it.dtype for it in given)
    output = model.outputs[0]
    fits &= "float" in output.dtype and len(output.shape) == 2
    if not fits or output.shape[1] is None:
        inputs, outputs = (
            ", ".join(f"{it.name} {it.dtype} {tuple(it.shape)}" for it in tensors)
            for tensors in (given, model.outputs)
        )
        raise InputError(
            "`model` must take `token_ids` and `padding_mask`, int32 (None, None), and "
            f"give one tensor of floats (None, dim). Received: {inputs} -> {outputs}. "
            'Make inputs with keras.Input((None,), dtype="int32", name=...), and pool '
            'token vectors with msd.layers.Pooling("mean")(vectors, padding_mask).'
        )
    paths = [weight.path for weight in model.weights]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise InputError(
            "Each weight of `model` must have a path of its own. Received: "
            f"`{twice[0]}` more than once. Give its layers names."
        )
    return keras.Model(dict(sorted(named.items())), output, name=model.name)


def plain_weights(encoder: Any) -> dict[str, np.ndarray]:
    """Return an encoder's weights by their paths, in the form that `states` needs.

    Kernels are `(in, out)` and biases `(out,)`. The word table has zeros for padding.
    The position table begins with the first token's row and includes that of the type,
    which is 0 for every token; there is no table of types.
    """
    config = encoder.config
    values = encoder.weights().items()
    weights = {path: np.asarray(value, np.float32) for path, value in values}
    kind = weights.pop("embedding/type")[0]
    weights[POSITION] = weights[POSITION][config.position_offset :] + kind
    weights[WORD] = weights[WORD].copy()
    weights[WORD][config.pad_id] = 0
    for path, value in weights.items():
        if path.endswith("/kernel"):
            weights[path] = matrix(path, value)
        elif path.endswith("/bias"):
            weights[path] = value.reshape(-1)
    return weights


def states(ops: Any, config: EncoderConfig) -> tuple[Any, Any]:
    """Return the vectors of tokens and of sentences, as `build_model`'s network does.

    The forward pass is written once for the runtimes of LiteRT and ONNX.

    Args:
        ops: The operations of the runtime, for one batch of token ids and their mask,
            on its values: tensors, or names in a graph. `word_rows()` `(batch, length,
            width)`, `positions()` (with token types), `add(a, b)`, `activate(x)`,
            `tanh(x)`, `unit(x)` (length one; a zero vector stays zero), and over real
            tokens `mean(x)`, `max(x)` and `first(x)`. With the path of a weight, such
            as `body/block_0/feedforward_output_dense`: `product(x, path)`, `dense(x,
            path)`, `norm(x, path)` and `attend(x, path)`, multi-head attention after
            its output projection.
        config: The encoder's.

    Returns:
        `(batch, length, hidden_dim)` and `(batch, dim)`.

    Raises:
        InputError: The pooling is none that is written here.
    """
    one_of(POOLINGS, pooling=config.pooling)
    hidden = ops.word_rows()
    if config.bottleneck_dim is not None:
        hidden = ops.product(hidden, "embedding/projection")
    hidden = ops.add(hidden, ops.positions())
    if config.embedding_layer_norm:
        hidden = ops.norm(hidden, "embedding/layer_norm")
    for index in [*range(config.num_layers)] * config.repeats:
        hidden = _block(ops, hidden, f"body/block_{index}", config.normalize_first)
    pools = {"mean": ops.mean, "cls": ops.first, "max": ops.max}
    vector = pools[config.pooling](hidden)
    if config.projection_dim is not None:
        vector = ops.dense(vector, "projection")
        if config.projection_activation == "tanh":
            vector = ops.tanh(vector)
    return hidden, ops.unit(vector) if config.normalize else vector


def _block(ops: Any, hidden: Any, path: str, first: bool) -> Any:
    """Return a transformer block, which normalises first or last."""

    def feed(inputs: Any, path: str) -> Any:
        wide = ops.dense(inputs, f"{path}_intermediate_dense")
        return ops.dense(ops.activate(wide), f"{path}_output_dense")

    sublayers = (ops.attend, "self_attention_layer"), (feed, "feedforward")
    for sublayer, name in sublayers:
        norm = f"{path}/{name.removesuffix('_layer')}_layer_norm"
        inputs = ops.norm(hidden, norm) if first else hidden
        hidden = ops.add(hidden, sublayer(inputs, f"{path}/{name}"))
        hidden = hidden if first else ops.norm(hidden, norm)
    return hidden
