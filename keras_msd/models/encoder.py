"""Encoders: a tokenizer and a Keras model; and a guide, their embedding block alone."""

import re
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
from safetensors.numpy import load, save

from keras_msd import checks, light
from keras_msd.arrays import TextEncoder, pad_batch
from keras_msd.checks import InputError
from keras_msd.choices import MAX_LENGTH
from keras_msd.io.files import digest
from keras_msd.layers import Pooling
from keras_msd.lazy import METHODS
from keras_msd.models.encoder_folder import check_paths, read_folder, write_folder
from keras_msd.models.network import (
    WORD,
    EncoderConfig,
    build_model,
    check_own_model,
    forward_pass,
    power_of_two,
    use_xla,
)
from keras_msd.progress import track
from keras_msd.runtimes import is_forked
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.loading import make_tokenizer

CHUNK = 65_536  # sentences tokenised at a time, so that any number fits in memory


class Encoder(TextEncoder):
    """A sentence encoder: a tokenizer and a Keras model.

    Pickling and copying include the weights, the tokenizer and the settings, as `save`
    does.

    Args:
        model: Functional model with inputs `token_ids`, `padding_mask`.
        tokenizer: The tokenizer that `model` was built with.
        config: The `EncoderConfig` that `model` was built from.

    Raises:
        InputError: The tokenizer has more tokens than the embedding table has rows.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> encoder.encode(["The cat sleeps.", "Die Katze schläft."]).shape
        (2, 16)
        >>> encoder.with_config(pooling="max", projection_dim=8).dim
        8
        >>> encoder.save("encoder")
        >>> msd.load_encoder("encoder").fingerprint == encoder.fingerprint
        True
    """

    def __init__(
        self, model: keras.Model, tokenizer: Tokenizer, config: EncoderConfig
    ) -> None:
        # Published tables may have unused rows at the end, so only check for too few.
        if tokenizer.vocabulary_size > config.vocabulary_size:
            raise InputError(
                "The embedding table must have a row for every token. Received: "
                f"tokenizer {tokenizer.vocabulary_size}, `vocabulary_size` "
                f"{config.vocabulary_size}. Take both from the same encoder."
            )
        self._config: EncoderConfig | None = config
        self._usage = config
        self._max_length = config.max_length
        self._take(model, tokenizer)

    def __repr__(self) -> str:
        kind, rows = self.tokenizer.kind, self.tokenizer.vocabulary_size
        return (
            f"<{type(self).__name__}: dim={self.dim}, "
            f"parameters={self.num_parameters:,}, max_length={self.max_length}, "
            f"{kind} tokenizer of {rows:,} tokens>"
        )

    def _take(self, model: keras.Model, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        model.jit_compile = use_xla()
        self._forward = forward_pass(model)

    @classmethod
    def from_config(
        cls, tokenizer: Tokenizer, fields: dict[str, Any], origin: str = "encoder"
    ) -> Self:
        """Make an encoder with random weights.

        Args:
            tokenizer: The encoder's tokenizer.
            fields: Fields of `EncoderConfig`. Those without a default are required.
            origin: Source of the fields, for error messages.

        Raises:
            InputError: A field is unknown, missing or contradicts another one.
        """
        config = EncoderConfig.from_dict(fields, origin)
        return cls(build_model(config), tokenizer, config)

    def with_config(
        self,
        tokenizer: Tokenizer | None = None,
        origin: str = "with_config",
        **fields: Any,
    ) -> Self:
        """Return a new encoder with random weights and a changed configuration.

        Args:
            tokenizer: Replaces the encoder's tokenizer. The pad id and the size of the
                embedding table follow the new tokenizer.
            origin: Name of the caller, for error messages.
            **fields: Fields of `EncoderConfig` and their new values.

        Raises:
            InputError: A field is unknown or contradicts another one.
        """
        if tokenizer is not None:
            fields = _vocabulary(tokenizer) | fields
        fields = self.config.model_dump() | fields
        return self.from_config(tokenizer or self.tokenizer, fields, origin)

    @staticmethod
    def from_model(
        model: keras.Model, tokenizer: Tokenizer, max_length: int = MAX_LENGTH
    ) -> "Encoder":
        """Make an encoder from your own functional Keras model.

        You can use it as a teacher, train it in a stage, and evaluate it, like any
        other encoder. You can export it as `saved_model`. It has no `config`, so you
        cannot save or pickle it, or make a smaller or larger encoder from it. Save
        `model` with Keras and the tokenizer separately.

        Args:
            model: Inputs `token_ids` and `padding_mask`, int32 `(n, length)` with any
                length; output float `(n, dim)`. The model is not copied.
            tokenizer: The tokenizer that `model` was built with.
            max_length: Maximum number of tokens per sentence, including the start and
                end tokens.

        Raises:
            InputError: `model` is not functional, has the wrong inputs or outputs, has
                two weights with the same path, or fails on the tokenizer's largest id;
                or `max_length` is below 2.

        Example:
            >>> import keras
            >>> tokenizer = msd.testing.tiny_tokenizer()
            >>> ids = keras.Input((None,), dtype="int32", name="token_ids")
            >>> mask = keras.Input((None,), dtype="int32", name="padding_mask")
            >>> words = keras.layers.Embedding(tokenizer.vocabulary_size, 8)(ids)
            >>> mean = msd.layers.Pooling("mean")(words, mask)
            >>> model = keras.Model([ids, mask], mean)
            >>> encoder = msd.Encoder.from_model(model, tokenizer)
            >>> encoder.encode(["A cat.", "Eine Katze."]).shape
            (2, 8)
        """
        checks.at_least(2, max_length=max_length)
        encoder = object.__new__(Encoder)
        encoder._config, encoder._max_length = None, max_length
        encoder._take(check_own_model(model), tokenizer)
        last = np.array([[tokenizer.vocabulary_size - 1]], np.int32)
        rows = (
            f"The model must accept every id below {tokenizer.vocabulary_size}, the "
            "tokenizer's vocabulary size, at any length. Received: {}."
        )
        # Backends raise different errors for an out-of-range id, so catch all.
        with checks.explained(lambda error: rows.format(f"{error}"[:200]), Exception):
            encoder._forward({"token_ids": last, "padding_mask": np.ones_like(last)})
        return encoder

    @property
    def config(self) -> EncoderConfig:
        """The settings that the model was built from.

        Raises:
            InputError: The encoder is from `from_model`.
        """
        if self._config is None:
            raise InputError(
                "This operation needs an encoder built by keras-msd. Received: an "
                f"encoder with your own model `{self.model.name}`. To save it, call "
                '`encoder.model.save("model.keras")` and `encoder.tokenizer.save`; '
                "later pass both to `Encoder.from_model`. To export it, use "
                '"saved_model" without `quantize`.'
            )
        return self._config

    @property
    def normalized(self) -> bool | None:
        """Whether the output vectors have length 1; None if unknown."""
        return None if self._config is None else self._config.normalize

    @property
    def dim(self) -> int:
        """Dimension of the sentence embeddings."""
        return self.model.output.shape[-1]

    @property
    def max_length(self) -> int:
        """Maximum number of tokens; longer sentences are truncated."""
        return self._max_length

    @property
    def num_parameters(self) -> int:
        """Number of parameters; shared parameters count once."""
        return sum(int(np.prod(weight.shape)) for weight in self.model.weights)

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides the vectors: weights, tokenizer, settings."""
        parts: list[str | bytes] = [self._settings(), self.tokenizer.fingerprint]
        for path, value in sorted(self.weights().items()):
            parts += [path, np.ascontiguousarray(value).tobytes()]
        return digest(*parts)

    def _settings(self) -> str:
        if self._config is not None:
            return self._config.model_dump_json(exclude={"similarity_fn_name"})
        # Keras writes memory addresses as shared object ids: not stable, so not hashed.
        network = re.sub(r', "shared_object_id": \d+', "", self.model.to_json())
        return f"{self.max_length} {network}"

    def weights(self) -> dict[str, np.ndarray]:
        """Return every weight by its path, such as `embedding/word`."""
        return {
            weight.path: keras.ops.convert_to_numpy(weight)
            for weight in self.model.weights
        }

    def set_weights(self, values: dict[str, np.ndarray], origin: str = "") -> None:
        """Assign every weight by its path.

        Raises:
            InputError: A path is missing or unknown, or a shape differs.
        """
        weights = {weight.path: weight for weight in self.model.weights}
        check_paths(weights, values, origin)
        for path, weight in weights.items():
            if tuple(weight.shape) != values[path].shape:
                raise InputError(
                    f"{origin}: `{path}` must have the shape {tuple(weight.shape)}. "
                    f"Received: {values[path].shape}."
                )
            weight.assign(values[path])

    def count_tokens(self, texts: list[str]) -> list[int]:
        """Return the number of tokens that the model reads from each text."""
        return [len(ids) for ids in self.tokenizer.encode(texts, self.max_length)]

    def _vectors(self, texts: list[str], batch_size: int, progress: bool) -> np.ndarray:
        self._check_values()
        vectors = np.empty((len(texts), self.dim), np.float32)
        bag_of_words = self._bag_of_words()
        if bag_of_words is not None:
            batch_size = light.CHUNK
        forward: Callable[[Any], np.ndarray] = bag_of_words or self._forward
        batches = (
            self._id_lists(texts) if bag_of_words else self._batches(texts, batch_size)
        )
        if progress:
            total = -(-len(texts) // batch_size)
            batches = track(batches, total=total, what="Encoding")
        for rows, batch in batches:
            vectors[rows] = forward(batch)
            finite = np.isfinite(vectors[rows]).all(axis=1)
            if not finite.all():
                raise InputError(
                    "Vectors must be finite. Received: NaN or infinity for "
                    f"{texts[rows[np.argmin(finite)]]!r:.100}. The encoder's weights "
                    "are damaged, or training diverged. Load an earlier checkpoint."
                )
        return vectors

    def _check_values(self) -> None:
        donated = (
            "An encoder cannot be used while `fit` runs under JAX. In a callback, "
            "access `self.model` first (this copies the weights back), or use "
            "`evaluate.ScoreCallback`."
        )
        with checks.explained(donated, TypeError):  # raised where JAX has the weights
            _ = [weight.value for weight in self.model.weights[:1]]

    def _bag_of_words(self) -> Callable[[list[list[int]]], np.ndarray] | None:
        """Return a NumPy version of the encoder if it is a linear bag of words.

        It takes a third of the CPU time that the Keras model takes on padded batches.
        """
        config = self._config
        if config is None or config.num_layers:
            return None
        values = {weight.path: weight for weight in self.model.weights}
        table = values.pop(WORD)
        small = {p: keras.ops.convert_to_numpy(value) for p, value in values.items()}
        parts = light.linear_parts(config.model_dump(), small)
        if parts is None:
            return None

        def vectors(ids: list[list[int]]) -> np.ndarray:
            # Copy only the rows that these sentences use, in one call.
            used = np.unique(np.fromiter(chain.from_iterable(ids), np.int32))
            if is_forked(keras.backend.backend()):  # without the threads of `take`
                rows = keras.ops.convert_to_numpy(table)[used]
            else:
                rows = keras.ops.convert_to_numpy(keras.ops.take(table, used, axis=0))
            places = np.zeros(table.shape[0], np.int32)
            places[used] = np.arange(len(used))
            return light.sentence_vectors(
                lambda block: rows[places[block]],
                ids,
                table.shape[1],
                *parts,
                config.normalize,
            )

        return vectors

    def _id_lists(self, texts: list[str]) -> Any:
        """Yield (row indices, token ids of those texts)."""
        for start in range(0, len(texts), light.CHUNK):
            chunk = texts[start : start + light.CHUNK]
            rows = np.arange(start, start + len(chunk))
            yield rows, self.tokenizer.encode(chunk, self.max_length)

    def _batches(self, texts: list[str], batch_size: int) -> Any:
        """Yield (rows, inputs), sorted by length within a chunk."""
        for start in range(0, len(texts), CHUNK):
            chunk = texts[start : start + CHUNK]
            ids = self.tokenizer.encode(chunk, self.max_length)
            lengths = np.array([len(row) for row in ids])
            order = np.argsort(-lengths, kind="stable")
            for first in range(0, len(order), batch_size):
                rows = order[first : first + batch_size]
                multiple = power_of_two(int(lengths[rows[0]])) if use_xla() else 8
                batch = pad_batch(
                    [ids[row] for row in rows],
                    self.tokenizer.pad_id,
                    self.max_length,
                    multiple,
                )
                yield start + rows, batch

    def embedding_guide(self, per_token: bool = False) -> "EmbeddingGuide":
        """Return the encoder's embedding block as a teacher for `AlignEmbedding`.

        Args:
            per_token: Whether to return one vector per token instead of their mean.
        """
        return EmbeddingGuide(self, per_token=per_token)

    def save(self, folder: str | Path, quantize: str | None = None) -> None:
        """Save the encoder to a folder. The write is atomic.

        Args:
            folder: Path of a new folder, or of an encoder's, which is replaced.
            quantize: None for float32. "int8" quantises the embedding table per row and
                matrices per output channel: about a quarter of the bytes. "int4_table"
                stores the table in 4 bits, "int4" the matrices too. `load_encoder`
                converts back to float32, so speed does not change.

        Raises:
            InputError: `folder` holds something else, a weight is not finite, or
                `quantize` is unknown.
        """
        write_folder(folder, self.config, self._tensors(), self.tokenizer, quantize)

    def _tensors(self) -> dict[str, np.ndarray]:
        weights = sorted(self.weights().items())
        return {path: np.ascontiguousarray(value) for path, value in weights}

    def __reduce__(self) -> tuple[Callable[..., "Encoder"], tuple[Any, ...]]:
        """Pickle as a call of one keras-msd function with strings and bytes."""
        tokenizer = self.tokenizer
        parts = tokenizer.kind, tokenizer.definition, tokenizer.settings
        fields, content = self.config.model_dump(), save(self._tensors())
        return _from_pickle, (fields, parts, content)

    def export(
        self,
        path: str | Path,
        format: str = "saved_model",
        quantize: str | None = None,
        **options: Any,
    ) -> Path:
        """Export to a file that runs without keras_msd; see `msd.export.export`.

        Args:
            path: Folder of the artefact.
            format: A key of `msd.export.FORMATS`.
            quantize: None (float32), "fp16", "int8", "int4_table" or "int4"; of GGUF
                files "f16", "q8_0" or "q4_0". Not every format supports every scheme.
            **options: Other arguments of `keras_msd.export.export`, such as
                `languages`.

        Returns:
            `path`.

        Raises:
            InputError: The format does not support the encoder or an argument, or a
                package is not installed.
            ExportError: The vectors of the artefact differ too much from the encoder's.
        """
        exported: Path = METHODS["Encoder.export"](
            self, path, format, quantize, **options
        )
        return exported


class EmbeddingGuide:
    """The embedding block of an encoder, without a transformer layer.

    `encode` returns the masked mean of the token vectors, `(n, hidden_dim)`, as in the
    authors' code. With `per_token`, it returns the token vectors joined in a row and
    padded with zeros, `(n, max_length * hidden_dim)`.

    Args:
        encoder: The assistant.
        per_token: Whether to return every token vector instead of their mean.

    Source: Ding et al. 2022, eq. 3.

    Example:
        >>> guide = msd.testing.tiny_encoder().embedding_guide()
        >>> guide.encode(["The cat sleeps."]).shape
        (1, 16)
    """

    def __init__(self, encoder: Any, per_token: bool = False) -> None:
        config = encoder.config
        self.encoder, self.per_token = encoder, per_token
        self.dim = config.hidden_dim * (config.max_length if per_token else 1)
        block = encoder.model.get_layer("embedding")
        inputs = encoder.model.input
        hidden = block(inputs["token_ids"])
        mask = inputs["padding_mask"]
        if per_token:
            hidden = hidden * keras.ops.cast(mask, hidden.dtype)[..., None]
        else:
            hidden = Pooling("mean", name="mean")(hidden, mask)
        self.model = keras.Model(inputs, hidden)
        self.model.jit_compile = use_xla()
        self._forward = forward_pass(self.model)

    @property
    def fingerprint(self) -> str:
        """Hash of the encoder and of the way it is pooled."""
        kind = "per token" if self.per_token else "pooled"
        return digest("embedding guide", kind, self.encoder.fingerprint)

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return one row per sentence, float32 `(n, dim)`.

        Raises:
            InputError: `texts` is a single string or holds something else.
        """
        texts = [self.encoder.default_prompt + text for text in checks.sentences(texts)]
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for rows, batch in self.encoder._batches(texts, 256):
            block = self._forward(batch).reshape(len(rows), -1)
            vectors[rows, : block.shape[1]] = block
        return vectors


def new_encoder(tokenizer: Tokenizer, **fields: Any) -> Encoder:
    """Make an encoder with random weights for a tokenizer.

    Args:
        tokenizer: Determines the vocabulary size and the pad id.
        **fields: Fields of `EncoderConfig`: `num_layers`, `hidden_dim`, `num_heads`,
            `intermediate_dim` and the optional ones.

    Raises:
        InputError: A field is unknown, missing or contradicts another one.

    Example:
        >>> encoder = msd.new_encoder(
        ...     msd.testing.tiny_tokenizer(),
        ...     num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16,
        ... )
        >>> encoder.dim, encoder.num_parameters
        (8, 2368)
    """
    return Encoder.from_config(
        tokenizer, _vocabulary(tokenizer) | fields, origin="new_encoder"
    )


def _vocabulary(tokenizer: Tokenizer) -> dict[str, Any]:
    return {"vocabulary_size": tokenizer.vocabulary_size, "pad_id": tokenizer.pad_id}


def load_saved(folder: str | Path, **fields: Any) -> Encoder:
    """Read an encoder's folder.

    Args:
        folder: Path that was passed to `Encoder.save`.
        **fields: Fields of `EncoderConfig` that replace the saved ones.

    Raises:
        InputError: A file is missing, damaged or contradicts another one.
    """
    config, weights, tokenizer = read_folder(folder, fields)
    encoder = Encoder(build_model(config), tokenizer, config)
    encoder.set_weights(weights)
    return encoder


def _from_pickle(
    fields: dict[str, Any], tokenizer: tuple[str, bytes, dict[str, Any]], content: bytes
) -> Encoder:
    """Rebuild a pickled encoder.

    For safety, it loads no classes and opens no files named in the pickle.

    Raises:
        InputError: A part contradicts another one.
    """
    origin = "a pickled encoder"
    encoder = Encoder.from_config(make_tokenizer(*tokenizer, origin), fields, origin)
    encoder.set_weights(load(content), origin)
    return encoder
