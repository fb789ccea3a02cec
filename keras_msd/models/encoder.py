"""An encoder: a tokenizer and a network that turn sentences into vectors."""

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from keras_msd import checks, light
from keras_msd.arrays import TextEncoder, pad_batch
from keras_msd.checks import InputError
from keras_msd.files import digest
from keras_msd.models.config import EncoderConfig
from keras_msd.models.encoder_folder import check_paths, read_folder, write_folder
from keras_msd.models.network import (
    WORD,
    build_model,
    check_own_model,
    forward_pass,
    use_xla,
)
from keras_msd.progress import track
from keras_msd.teachers.guides import EmbeddingGuide
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.kinds import make_tokenizer

CHUNK = 65_536  # sentences tokenised at a time, so that any number fits in memory


class Encoder(TextEncoder):
    """A sentence encoder: a tokenizer and a Keras model.

    Pickled or copied it takes its weights, tokenizer and settings along, as `save`
    does, and is compared with its fingerprint when it is made anew.

    Args:
        model: Functional model with inputs `token_ids`, `padding_mask`.
        tokenizer: Gives the ids that `model` was made for.
        config: The fields that `model` was built from.

    Raises:
        InputError: The parts do not belong together, or `model` was built in a name
            scope.

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
        # Published word tables may have spare rows at the end, tokenizers may not.
        if tokenizer.vocabulary_size > config.vocabulary_size:
            raise InputError(
                "The word table must have a row for every token. Received: "
                f"tokenizer {tokenizer.vocabulary_size}, `vocabulary_size` "
                f"{config.vocabulary_size}. Take both from the same encoder."
            )
        layers = {layer.name for layer in model.layers}
        for weight in model.weights:
            if weight.path.split("/")[0] not in layers:
                raise InputError(
                    "The path of a weight must begin with its layer. Received: "
                    f"`{weight.path}`. Build encoders outside `keras.name_scope`."
                )
        self._config = config
        self._take(model, tokenizer)

    def __repr__(self) -> str:
        kind, rows = self.tokenizer.kind, self.tokenizer.vocabulary_size
        return (
            f"<{type(self).__name__.lstrip('_')}: dim={self.dim}, "
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
            tokenizer: Gives the ids.
            fields: All fields of `EncoderConfig` that have no default, and others.
            origin: Where the fields come from, named in errors.

        Raises:
            InputError: A field is unknown, missing or does not fit the others.
        """
        config = EncoderConfig.from_dict(fields, origin)
        return cls(build_model(config), tokenizer, config)

    def with_config(
        self,
        tokenizer: Tokenizer | None = None,
        origin: str = "with_config",
        **fields: Any,
    ) -> Self:
        """Return an encoder with random weights that differs in some fields.

        Args:
            tokenizer: Takes the place of the encoder's own, with its pad id and as many
                rows in the word table as it has pieces.
            origin: Who asks, named in errors.
            **fields: Fields of `EncoderConfig` and their new values.

        Raises:
            InputError: A field is unknown or does not fit the others.
        """
        if tokenizer is not None:
            fields = _vocabulary(tokenizer) | fields
        fields = self.config.model_dump() | fields
        return self.from_config(tokenizer or self.tokenizer, fields, origin)

    @staticmethod
    def from_preset(preset: str | Path, pooling: str | None = None) -> Any:
        """Load an encoder: another name of `load_encoder`, as keras-hub has it.

        Args:
            preset: The `source` of `load_encoder`.
            pooling: As for `load_encoder`.

        Raises:
            InputError: As `load_encoder`.
        """
        from keras_msd.checkpoints import load_encoder

        return load_encoder(preset, pooling)

    @staticmethod
    def from_model(
        model: keras.Model, tokenizer: Tokenizer, max_length: int = 128
    ) -> "Encoder":
        """Make an encoder from your own functional Keras model.

        It is a teacher, a guide, what a stage trains and what is scored, like any
        other, and is exported as `saved_model`, or as `onnx` with an `opset` below 23.
        It has no `config`, so that it is not saved, pickled, shrunk or grown: save
        `model` as Keras does and the tokenizer beside it.

        Args:
            model: Inputs `token_ids` and `padding_mask`, int32 `(n, length)` with any
                length; output float `(n, dim)`. It is not copied.
            tokenizer: Gives the ids that `model` was made for.
            max_length: Longest sentence in tokens, start and end included.

        Raises:
            InputError: `model` is not functional, has other inputs or outputs, two
                weights of one path, or fails for the tokenizer's last id; or
                `max_length` is below 2.

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
        return _OwnModelEncoder(model, tokenizer, max_length)

    @property
    def config(self) -> EncoderConfig:
        """The fields that the model was built from."""
        return self._config

    @property
    def has_body(self) -> bool:
        """Whether the model has the layer `body` of `build_model`."""
        return self.config.num_layers > 0

    @property
    def normalized(self) -> bool | None:
        """Whether vectors have length one; None where that is not known."""
        return self.config.normalize

    @property
    def prefix(self) -> str:
        """Text that `encode` puts before every sentence."""
        return self.config.prefix

    @property
    def dim(self) -> int:
        """Dimension of an embedding."""
        return self.config.dim

    @property
    def max_length(self) -> int:
        """Longest sentence in tokens, start and end included; longer ones are cut."""
        return self.config.max_length

    @property
    def num_parameters(self) -> int:
        """Parameters, each shared one counted once."""
        return sum(int(np.prod(weight.shape)) for weight in self.model.weights)

    @property
    def fingerprint(self) -> str:
        """Hash of the weights, the tokenizer and the settings."""
        parts: list[str | bytes] = [self._settings(), self.tokenizer.fingerprint]
        for path, value in sorted(self.weights().items()):
            parts += [path, np.ascontiguousarray(value).tobytes()]
        return digest(*parts)

    def _settings(self) -> str:
        return self.config.model_dump_json()

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
        """Return how many tokens the model reads of each text."""
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
                    "are damaged, or its training diverged: take it from before."
                )
        return vectors

    def _check_values(self) -> None:
        try:
            _ = [weight.value for weight in self.model.weights[:1]]
        except TypeError as error:  # `fit` under JAX took it
            raise InputError(
                "The network is in training, and JAX has its values. In a callback "
                "read `self.model` first, or use `evaluate.ScoreCallback`."
            ) from error

    def _bag_of_words(self) -> Callable[[list[list[int]]], np.ndarray] | None:
        """Return what computes in NumPy what a linear bag of words gives, if it is one.

        It takes a third of the processor's time of the network on padded batches.
        """
        config = getattr(self, "_config", None)
        if config is None or config.num_layers or config.pooling != "mean":
            return None
        if config.embedding_layer_norm or config.word_branch:
            return None
        values = {weight.path: weight for weight in self.model.weights}
        table = values.pop(WORD)
        small = {p: keras.ops.convert_to_numpy(value) for p, value in values.items()}
        added = small["embedding/position"].any() or small["embedding/type"].any()
        if added or config.projection_activation != "linear":
            return None
        names = ("embedding/projection", "projection/kernel")
        matrices = [small[name] for name in names if name in small]

        def vectors(ids: list[list[int]]) -> np.ndarray:
            # Only the rows that these sentences take leave the backend, and at once.
            used = np.unique(np.fromiter(chain.from_iterable(ids), np.int32))
            rows = keras.ops.convert_to_numpy(keras.ops.take(table, used, axis=0))
            places = np.zeros(table.shape[0], np.int32)
            places[used] = np.arange(len(used))
            return light.sentence_vectors(
                lambda block: rows[places[block]],
                ids,
                table.shape[1],
                matrices,
                small.get("projection/bias"),
                config.normalize,
            )

        return vectors

    def _id_lists(self, texts: list[str]) -> Any:
        """Yield (rows, ids of their texts)."""
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
                batch = pad_batch(
                    [ids[row] for row in rows],
                    self.tokenizer.pad_id,
                    longest=self.max_length,
                )
                yield start + rows, batch

    def embedding_guide(self, per_token: bool = False) -> EmbeddingGuide:
        """Return stage 2's guide: the embedding block alone, pooled (or per token)."""
        return EmbeddingGuide(self, per_token=per_token)

    def save(self, folder: str | Path, quantize: str | None = None) -> None:
        """Write the encoder's folder; it appears complete or not at all.

        Args:
            folder: Where it goes.
            quantize: None for float32; or "int8" for about a quarter of the bytes: the
                word table in whole numbers with a scale for each row, matrices with
                one for each output, all else float32. `load_encoder` makes float32
                of it, with which computing is as fast as ever.

        Raises:
            InputError: A weight is not finite, or `quantize` is something else.
        """
        write_folder(folder, self.config, self._tensors(), self.tokenizer, quantize)

    def _tensors(self) -> dict[str, np.ndarray]:
        weights = sorted(self.weights().items())
        return {path: np.ascontiguousarray(value) for path, value in weights}

    def __reduce__(self) -> tuple[Callable[..., "Encoder"], tuple[Any, ...]]:
        """Return what a pickle holds: one function of ours, and texts and bytes."""
        tokenizer = self.tokenizer
        parts = tokenizer.kind, tokenizer.definition, tokenizer.settings
        fields, content = self.config.model_dump(), save(self._tensors())
        return _from_pickle, (fields, parts, content, self.fingerprint)

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
            format: "saved_model", "litert", "litert_text", "onnx", "onnx_text",
                "huggingface" or "model2vec".
            quantize: How weights are stored, None for float32: "fp16", "int8",
                "int4_table" or "int4", as far as the format offers it.
            **options: Languages, licences, sentences, thresholds, options of one
                format such as `opset`: the other arguments of
                `keras_msd.export.export`.

        Returns:
            `path`.

        Raises:
            InputError: An argument does not fit, or a package is not installed.
            ExportError: The artefact differs more from the encoder than it may.
        """
        from keras_msd.export import export

        return export(self, path, format, quantize, **options)


def new_encoder(tokenizer: Tokenizer, **fields: Any) -> Encoder:
    """Make an encoder with random weights for a tokenizer.

    Args:
        tokenizer: Gives the vocabulary size and the pad id.
        **fields: Fields of `EncoderConfig`: `num_layers`, `hidden_dim`, `num_heads`,
            `intermediate_dim` and the optional ones.

    Raises:
        InputError: A field is unknown, missing or does not fit the others.

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
        folder: Where `Encoder.save` wrote it.
        **fields: Fields of `EncoderConfig` in place of the encoder's own.

    Raises:
        InputError: A file is missing, damaged or does not fit the others.
    """
    config, weights, tokenizer = read_folder(folder, fields)
    encoder = Encoder(build_model(config), tokenizer, config)
    encoder.set_weights(weights)
    return encoder


def _from_pickle(
    fields: dict[str, Any],
    tokenizer: tuple[str, bytes, dict[str, Any]],
    content: bytes,
    fingerprint: str,
) -> Encoder:
    """Make the encoder that `Encoder.__reduce__` took apart; follows no class or path.

    Raises:
        InputError: A part is damaged, or does not fit the others.
    """
    origin = "a pickled encoder"
    encoder = Encoder.from_config(make_tokenizer(*tokenizer, origin), fields, origin)
    damaged = (
        origin + " has weights that are cut short or damaged ({}). Pickle it anew."
    )
    with checks.explained(damaged.format, SafetensorError):
        encoder.set_weights(load(content), origin)
    if encoder.fingerprint != fingerprint:
        raise InputError(
            "A pickled encoder must have the fingerprint that it had. Received: "
            f"{encoder.fingerprint}, not {fingerprint}. Pickle it anew."
        )
    return encoder


class _OwnModelEncoder(Encoder):
    """An encoder of a model that no `EncoderConfig` describes; see `from_model`."""

    def __init__(
        self, model: keras.Model, tokenizer: Tokenizer, max_length: int
    ) -> None:
        checks.at_least(2, max_length=max_length)
        self._max_length = max_length
        self._take(check_own_model(model), tokenizer)
        last = np.array([[tokenizer.vocabulary_size - 1]], np.int32)
        rows = (
            f"The model must take every id below {tokenizer.vocabulary_size}, the "
            "tokenizer's vocabulary, at any length. Received: {}."
        )
        # No backend promises a kind of error for an id without a row.
        with checks.explained(lambda error: rows.format(f"{error}"[:200]), Exception):
            self._forward({"token_ids": last, "padding_mask": np.ones_like(last)})

    @property
    def config(self) -> EncoderConfig:
        """Raise `InputError`: there is none."""
        raise InputError(
            "This needs an encoder with an `EncoderConfig`, whose network is ours. "
            f"Received: one of your own model `{self.model.name}`. Keep it with "
            '`encoder.model.save("model.keras")` and `encoder.tokenizer.save`, and '
            'make it anew by `Encoder.from_model`; export it as "saved_model", or as '
            '"onnx" with opset=18, both without `quantize`.'
        )

    @property
    def has_body(self) -> bool:
        """False: layers of that name are none of ours."""
        return False

    @property
    def prefix(self) -> str:
        """Empty: put it before the texts yourself."""
        return ""

    @property
    def normalized(self) -> None:
        """None: that is not known."""

    @property
    def dim(self) -> int:
        """Dimension of an embedding."""
        return self.model.output.shape[-1]

    @property
    def max_length(self) -> int:
        """Longest sentence in tokens, start and end included; longer ones are cut."""
        return self._max_length

    def _settings(self) -> str:
        # What Keras calls a shared object by is its place in memory.
        network = re.sub(r', "shared_object_id": \d+', "", self.model.to_json())
        return f"{self.max_length} {network}"
