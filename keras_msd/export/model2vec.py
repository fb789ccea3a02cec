"""The format `model2vec`: a table and a tokenizer.json for static embedding libraries.

model2vec and sentence-transformers (`StaticEmbedding`) average the rows of a text's
tokens, put no special tokens around it, and model2vec leaves out unknown ones. So that
their vectors are the encoder's, the tokenizer.json puts a marker before every text,
whose row is the sum of the start's and the end's, and a marker in the place of
characters that the vocabulary does not have, whose row is that of the unknown token.
"""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Regex, models, normalizers
from tokenizers import Tokenizer as Backend

from keras_msd.checkpoints.checkpoint import load_checkpoint
from keras_msd.checks import InputError, none_of
from keras_msd.export.formats import Run
from keras_msd.export.huggingface import (
    backend_of,
    control_pieces,
    write_module_list,
    write_usage,
)
from keras_msd.io.files import write_json
from keras_msd.models.network import WORD, EncoderConfig, plain_weights
from keras_msd.tokenizers.sentencepiece import BLANK
from keras_msd.tokenizers.tokenizer_json import median_length

# Code points that are no characters: no text has them once it is normalised here.
START, UNKNOWN = "\ufdd0", "\ufdd1"
DTYPES = {None: np.float32, "fp16": np.float16}


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write a bag-of-words encoder as a folder of model2vec.

    `StaticModel.from_pretrained(path)` of model2vec reads it, `SentenceTransformer
    (path)` and `load_encoder(path)`. All cut texts at the encoder's limit. Texts that
    `compared` leaves out may have other vectors.

    Args:
        encoder: The encoder to write.
        path: A folder.
        quantize: None for float32, "fp16" for half of the bytes.

    Returns:
        `warning`: the limits, for the card.

    Raises:
        InputError: The encoder is more than a table of token vectors and their mean.
    """
    config = encoder.config
    rows = _rows(config, plain_weights(encoder))[: encoder.tokenizer.vocabulary_size]
    tokenizer = encoder.tokenizer
    around = [*tokenizer.start_ids, *tokenizer.end_ids]
    tokens = _tokens(encoder)
    table = np.vstack([rows, rows[around].sum(axis=0), rows[tokenizer.unknown_id]])
    backend = _backend(tokenizer)
    backend.enable_truncation(tokens)
    path.mkdir(parents=True, exist_ok=True)
    backend.save(str(path / "tokenizer.json"))
    dtype = DTYPES[quantize]
    save_file({"embeddings": table.astype(dtype)}, path / "model.safetensors")
    settings = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "normalize": True,
        "max_length": tokens,
        "embedding_dtype": np.dtype(dtype).name,
        "hidden_dim": encoder.dim,
    }
    write_json(path / "config.json", settings)
    kinds = {".": "StaticEmbedding", "1_Normalize": "Normalize"}
    write_module_list(path, kinds)
    write_usage(encoder.config, path)
    return {
        "warning": "An empty text has a vector of zeros. model2vec cuts texts after "
        f"{_characters(encoder)} characters."
    }


def compared(encoder: Any, texts: Sequence[str]) -> list[str]:
    """Return the texts whose vectors are the encoder's in all three libraries.

    The others are empty once they are normalised, or so long that model2vec may cut
    characters: `max_length` times the median length of a token.
    """
    most = _characters(encoder)
    rows = encoder.tokenizer.encode_plain(texts)
    return [t for t, row in zip(texts, rows, strict=True) if row and len(t) <= most]


def _tokens(encoder: Any) -> int:
    """Return the most tokens of a text: one marker, and what fits between its two."""
    tokenizer = encoder.tokenizer
    return encoder.max_length - len(tokenizer.start_ids) - len(tokenizer.end_ids) + 1


def _characters(encoder: Any) -> int:
    return _tokens(encoder) * median_length(_pieces(encoder.tokenizer))


def load(path: str | Path, threads: int | None = None) -> Run:
    """Load a folder of model2vec as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder that `write` wrote.
        threads: Not used: one sentence is a few sums.

    Raises:
        InputError: A file is missing or damaged.
    """
    return partial(load_checkpoint(path).encode, progress=False, prompt="")


def _rows(config: EncoderConfig, weights: dict[str, np.ndarray]) -> np.ndarray:
    """Return what each token adds to a sentence's vector, float64 `(vocabulary, dim)`.

    Raises:
        InputError: The vector is not the direction of their sum.
    """
    positions = weights["embedding/position"]
    wrong = {
        f"a body of {config.num_layers} layers": config.num_layers,
        f"the pooling {config.pooling!r}": config.pooling != "mean",
        "a layer norm of the embedding": config.embedding_layer_norm,
        f"the activation {config.projection_activation!r}": (
            config.projection_activation != "linear"
        ),
        "a bias of the projection": weights.get("projection/bias", np.zeros(1)).any(),
        "vectors that are not of length one": not config.normalize,
        "position vectors that differ": (positions != positions[0]).any(),
    }
    rule = (
        "The format `model2vec` holds a table of token vectors, whose normalised mean "
        "is the sentence's vector."
    )
    none_of(wrong, rule, "Use another format, such as `onnx`.")
    rows = weights[WORD].astype(np.float64)
    if "embedding/projection" in weights:
        rows = rows @ weights["embedding/projection"]
    rows = rows + positions[0]
    return rows @ weights["projection/kernel"] if config.projection_dim else rows


def _backend(tokenizer: Any) -> Backend:
    """Return the tokenizer in the `tokenizers` library, with both markers."""
    backend = backend_of(tokenizer)
    scores = [score for _, score in json.loads(backend.to_str())["model"]["vocab"]]
    pieces = _pieces(tokenizer)
    vocabulary = list(zip(pieces, [*scores, 0.0, 0.0], strict=True))
    backend.model = models.Unigram(vocabulary, tokenizer.unknown_id, False)
    known = {" ", *"".join(p for p in pieces if UNKNOWN not in p)} - {START}
    if hidden := sorted(known - {" ", *pieces}):
        raise InputError(
            "The format `model2vec` takes a vocabulary with a token for each of its "
            f"characters. Received: none for {hidden[0]!r}. Use another format, such "
            "as `onnx`."
        )
    backend.normalizer = normalizers.Sequence(
        [
            backend.normalizer,
            normalizers.Replace(Regex(f"[^{_ranges(known)}]+"), UNKNOWN),
            normalizers.Prepend(START + " "),
        ]
    )
    return backend


def _pieces(tokenizer: Any) -> list[str]:
    """Return the tokens of the table's rows. No text can spell a special one."""
    pieces = tokenizer.pieces()
    special = {*control_pieces(tokenizer), pieces[tokenizer.unknown_id]}
    special.add(pieces[tokenizer.pad_id])
    names = [UNKNOWN + piece if piece in special else piece for piece in pieces]
    return [*names, BLANK + START, UNKNOWN]


def _ranges(characters: Iterable[str]) -> str:
    """Return characters as ranges in a class of a regular expression."""
    codes = sorted(map(ord, characters))
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(codes), 1) if b != a + 1)]
    parts = [codes[a:b] for a, b in pairwise([*breaks, len(codes)])]
    return "".join(f"\\x{{{part[0]:x}}}-\\x{{{part[-1]:x}}}" for part in parts)
