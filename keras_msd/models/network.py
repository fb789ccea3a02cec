"""The functional Keras model that an `EncoderConfig` describes."""

import math
from collections.abc import Callable, Mapping

import keras
import numpy as np

from keras_msd.checks import InputError
from keras_msd.layers.bottleneck_embedding import BottleneckEmbedding
from keras_msd.layers.pooling import L2Normalize, Pooling
from keras_msd.layers.recurrent_encoder import RecurrentEncoder
from keras_msd.models.config import EncoderConfig
from keras_msd.processes import begin

WORD = "embedding/word"  # the table
KERNELS = ("/kernel", "/projection")  # ends of the paths of matrices


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
        InputError: See `processes.begin`; the function raises it too.
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
        "embedding/position": (positions, hidden),
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
