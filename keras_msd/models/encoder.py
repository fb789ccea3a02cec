"""An encoder: a tokenizer and a network that turn sentences into vectors.

Its folder holds `encoder.json`, `weights.safetensors` and `tokenizer/`.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from keras_msd import checks
from keras_msd.arrays import pad_batch, unit_rows
from keras_msd.checks import InputError
from keras_msd.files import atomic_path, digest, read_json, write_json
from keras_msd.models.config import EncoderConfig
from keras_msd.models.network import build_model, forward_pass, use_xla
from keras_msd.progress import track
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.kinds import load_tokenizer

FORMAT = 1
CONFIG, WEIGHTS, TOKENIZER = "encoder.json", "weights.safetensors", "tokenizer"
CHUNK = 65_536  # sentences tokenised at a time, so that any number fits in memory


class Encoder:
    """Maps sentences to vectors.

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
        self.model, self.tokenizer, self.config = model, tokenizer, config
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

    @property
    def dim(self) -> int:
        """Width of a sentence vector."""
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
        parts: list[str | bytes] = [
            self.config.model_dump_json(),
            self.tokenizer.fingerprint,
        ]
        for path, value in sorted(self.weights().items()):
            parts += [path, np.ascontiguousarray(value).tobytes()]
        return digest(*parts)

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
        if missing := sorted(weights.keys() - values.keys()):
            raise InputError(f"{origin} lacks the weight `{missing[0]}`.".strip())
        if unknown := sorted(values.keys() - weights.keys()):
            raise InputError(f"{origin} has an unknown weight `{unknown[0]}`.".strip())
        for path, weight in weights.items():
            if tuple(weight.shape) != values[path].shape:
                raise InputError(
                    f"{origin}: `{path}` must have the shape {tuple(weight.shape)}. "
                    f"Received: {values[path].shape}."
                )
            weight.assign(values[path])

    def encode(
        self,
        texts: Iterable[str],
        batch_size: int = 64,
        normalize: bool = False,
        progress: bool = True,
    ) -> np.ndarray:
        """Turn sentences into vectors.

        Args:
            texts: Sentences; any iterable of any length, empty strings included.
            batch_size: Sentences in a forward pass.
            normalize: Scale the vectors to length one, if the model does not.
            progress: Show a bar when it takes longer than a second.

        Returns:
            float32 `(n, dim)`, in the order of `texts`.

        Raises:
            InputError: `texts` is a single string or holds something else,
                `batch_size` is below 1, or JAX trains the network at this moment.
        """
        self._check_values()
        checks.at_least(1, batch_size=batch_size)
        texts = checks.sentences(texts)
        vectors = np.empty((len(texts), self.dim), np.float32)
        batches = self._batches(texts, batch_size)
        if progress:
            total = -(-len(texts) // batch_size)
            batches = track(batches, total=total, what="Encoding")
        for rows, batch in batches:
            output = self._forward(batch)
            vectors[rows] = unit_rows(output) if normalize else output
        return vectors

    def _check_values(self) -> None:
        try:
            _ = [weight.value for weight in self.model.weights[:1]]
        except TypeError as error:  # `fit` under JAX took it
            raise InputError(
                "The network is in training, and JAX has its values. In a callback "
                "read `self.model` first, or use `evaluate.ScoreCallback`."
            ) from error

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

    def embedding_guide(self, per_token: bool = False) -> Any:
        """Return stage 2's guide: the embedding block alone, pooled (or per token)."""
        from keras_msd.teachers.guides import EmbeddingGuide

        return EmbeddingGuide(self, per_token=per_token)

    def save(self, folder: str | Path) -> None:
        """Write the encoder's folder; it appears complete or not at all."""
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            config = self.config.model_dump()
            write_json(temporary / CONFIG, {"format": FORMAT, "config": config})
            weights = {
                path: np.ascontiguousarray(value)
                for path, value in sorted(self.weights().items())
            }
            save_file(weights, temporary / WEIGHTS)
            self.tokenizer.save(temporary / TOKENIZER)

    def export(
        self,
        path: str | Path,
        format: str = "saved_model",
        quantize: str | None = None,
        **options: Any,
    ) -> Path:
        """Write an artefact that needs no keras_msd, and prove it in its runtime.

        Args:
            path: Folder of the artefact.
            format: "saved_model", "litert", "litert_text", "onnx" or "onnx_text".
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


def is_saved_encoder(folder: str | Path) -> bool:
    """Tell whether a folder holds an encoder of ours."""
    return (Path(folder) / CONFIG).is_file()


def load_saved(folder: str | Path, pooling: str | None = None) -> Encoder:
    """Read an encoder's folder.

    Only known fields are read and no class or path in the files is followed.

    Args:
        folder: Where `Encoder.save` wrote it.
        pooling: Takes the place of the encoder's own.

    Raises:
        InputError: A file is missing, truncated or does not fit the others.
    """
    folder = checks.existing_folder(folder, "encoder folder")
    origin = str(folder / CONFIG)
    record = read_json(folder / CONFIG)
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(
            f"`{origin}` is not an encoder of format {FORMAT}. Save the encoder anew."
        )
    fields = record.get("config", {}) | ({"pooling": pooling} if pooling else {})
    tokenizer = load_tokenizer(folder / TOKENIZER)
    encoder = Encoder.from_config(tokenizer, fields, origin)
    path = checks.existing_file(folder / WEIGHTS, "weights file")
    damaged = "`{}` is not a whole safetensors file ({}). Copy it anew.".format
    with checks.explained(partial(damaged, path), SafetensorError):
        encoder.set_weights(load_file(path), origin=f"`{path}`")
    return encoder
