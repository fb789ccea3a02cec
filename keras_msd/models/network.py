"""The functional Keras model that an `EncoderConfig` describes."""

from collections.abc import Callable, Mapping

import keras
import numpy as np

from keras_msd.layers.bottleneck_embedding import BottleneckEmbedding
from keras_msd.layers.pooling import L2Normalize, Pooling, WordBranch
from keras_msd.layers.recurrent_encoder import RecurrentEncoder
from keras_msd.models.config import EncoderConfig


def use_xla() -> bool:
    """Return what `jit_compile` shall be for networks that take sentences.

    XLA compiles every padded length and every number of rows anew, where Keras chooses
    it by itself. JAX has no other way to run a whole network at a time.
    """
    return keras.backend.backend() == "jax"


def forward_pass(
    model: keras.Model,
) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """Return a function from a batch of `token_ids`, `padding_mask` to the output."""
    if keras.backend.backend() != "tensorflow":
        return model.predict_on_batch
    from keras_msd.models._tensorflow import traced_once

    return traced_once(model)


def build_model(
    config: EncoderConfig,
    embedding_class: Callable[..., BottleneckEmbedding] = BottleneckEmbedding,
) -> keras.Model:
    """Build an encoder's network with random weights.

    Inputs `token_ids` and `padding_mask`, int32 `(batch, length)`; output float32
    `(batch, config.dim)`. Layers are found by name: `embedding`, `body`, `pooling`,
    `projection`, `word_branch`, `normalize`. Without a body the tables of positions and
    types are not trained.

    Args:
        config: What to build.
        embedding_class: Makes the embedding layer; an artefact's stores its table in
            fewer bits.

    Example:
        >>> config = msd.testing.tiny_encoder().config
        >>> model = msd.models.build_model(config)
        >>> model.output.shape, model.get_layer("pooling").mode
        ((None, 16), 'mean')
    """
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    padding_mask = keras.Input((None,), dtype="int32", name="padding_mask")

    embedding = embedding_class(
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
    if config.word_branch:
        branch = WordBranch(dtype="float32", name="word_branch")
        vector = branch(embedding(token_ids, rows_only=True), padding_mask, vector)
    if config.normalize:
        vector = L2Normalize(dtype="float32", name="normalize")(vector)
    inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
    return keras.Model(inputs, vector, name="encoder")
