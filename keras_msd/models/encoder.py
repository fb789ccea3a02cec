"""An encoder: a tokenizer and a network that turn sentences into vectors."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.data.padding import pad_batch
from keras_msd.files import digest
from keras_msd.models.config import EncoderConfig
from keras_msd.models.network import build_model, forward_pass, use_xla
from keras_msd.models.unit_rows import unit_rows
from keras_msd.progress import track
from keras_msd.tokenizers.base import Tokenizer

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
        own = {weight.path: weight for weight in self.model.weights}
        if missing := sorted(own.keys() - values.keys()):
            raise InputError(f"{origin} lacks the weight `{missing[0]}`.".strip())
        if unknown := sorted(values.keys() - own.keys()):
            raise InputError(f"{origin} has an unknown weight `{unknown[0]}`.".strip())
        for path, weight in own.items():
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
            made = self._forward(batch)
            vectors[rows] = unit_rows(made) if normalize else made
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
            lengths = np.array([len(one) for one in ids])
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
        from keras_msd.models.embedding_guide import EmbeddingGuide

        return EmbeddingGuide(self, per_token=per_token)

    def save(self, folder: str | Path) -> None:
        """Write `encoder.json`, `weights.safetensors` and `tokenizer/` to a folder."""
        from keras_msd.models.storage import save_encoder

        save_encoder(self, folder)

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
            **options: Languages, licences, sentences, thresholds: the other arguments
                of `keras_msd.export.export`.

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
    """
    own = {"vocabulary_size": tokenizer.vocabulary_size, "pad_id": tokenizer.pad_id}
    config = EncoderConfig.from_dict(own | fields, origin="new_encoder")
    return Encoder(build_model(config), tokenizer, config)
