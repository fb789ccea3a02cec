"""The format `model2vec`: a table and a tokenizer.json for static embedding libraries.

model2vec and sentence-transformers (`StaticEmbedding`) average the rows of a text's
tokens, put no special tokens around it, and model2vec leaves out unknown ones. So that
their vectors are the encoder's, the tokenizer.json puts a marker before every text,
whose row is the sum of the start's and the end's, and a marker in the place of
characters that the vocabulary does not have, whose row is that of the unknown token.
"""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Regex, models, normalizers
from tokenizers import Tokenizer as Backend

from keras_msd.checkpoints.loading import load_checkpoint
from keras_msd.checks import InputError
from keras_msd.export.formats import Run
from keras_msd.export.huggingface.tokenizer import backend_of, control_pieces
from keras_msd.files import write_json
from keras_msd.models.config import EncoderConfig

# Code points that are no characters: no text has them once it is normalised here.
START, UNKNOWN = "\ufdd0", "\ufdd1"
BLANK = "▁"
DTYPES = {None: np.float32, "fp16": np.float16}


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write a bag-of-words encoder as a folder of model2vec.

    `StaticModel.from_pretrained(path)` of model2vec reads it, `SentenceTransformer
    (path)` and `load_encoder(path)`. An empty text has a vector of zeros there. Long
    texts are cut at the encoder's limit by sentence-transformers alone.

    Args:
        encoder: The encoder to write.
        path: A folder.
        quantize: None for float32, "fp16" for half of the bytes.

    Returns:
        Facts for the card.

    Raises:
        InputError: The encoder is more than a table of token vectors and their mean.
    """
    config = encoder.config
    rows = _rows(config, encoder.weights())[: encoder.tokenizer.vocabulary_size]
    tokenizer = encoder.tokenizer
    around = [*tokenizer.start_ids, *tokenizer.end_ids]
    table = np.vstack([rows, rows[around].sum(axis=0), rows[tokenizer.unknown_id]])
    backend = _backend(tokenizer)
    # The marker stands for the tokens around a text.
    backend.enable_truncation(encoder.max_length - len(around) + 1)
    path.mkdir(parents=True, exist_ok=True)
    backend.save(str(path / "tokenizer.json"))
    dtype = DTYPES[quantize]
    save_file({"embeddings": table.astype(dtype)}, path / "model.safetensors")
    settings = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "normalize": True,
        # With a limit in tokens model2vec also cuts texts at so many characters.
        "max_length": None,
        "embedding_dtype": np.dtype(dtype).name,
        "hidden_dim": encoder.dim,
    }
    write_json(path / "config.json", settings)
    kinds = {".": "StaticEmbedding", "1_Normalize": "Normalize"}
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": place,
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, (place, kind) in enumerate(kinds.items())
    ]
    write_json(path / "modules.json", modules)
    return {"tokens_of_a_text": encoder.max_length - len(around)}


def load(path: str | Path, threads: int | None = None) -> Run:
    """Load a folder of model2vec as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder that `write` wrote.
        threads: Not used: one sentence is a few sums.

    Raises:
        InputError: A file is missing or damaged.
    """
    encoder = load_checkpoint(path)

    def run(texts: list[str]) -> np.ndarray:
        return encoder.encode(texts, progress=False)

    return run


def _rows(config: EncoderConfig, weights: dict[str, np.ndarray]) -> np.ndarray:
    """Return what each token adds to a sentence's vector, float64 `(vocabulary, dim)`.

    Raises:
        InputError: The vector is not the direction of their sum.
    """
    positions, types = weights["embedding/position"], weights["embedding/type"]
    wrong = {
        f"a body of {config.num_layers} layers": config.num_layers,
        f"the pooling {config.pooling!r}": config.pooling != "mean",
        "a layer norm of the embedding": config.embedding_layer_norm,
        "a word branch": config.word_branch,
        f"the activation {config.projection_activation!r}": (
            config.projection_activation != "linear"
        ),
        "a bias of the projection": weights.get("projection/bias", np.zeros(1)).any(),
        "vectors that are not of length one": not config.normalize,
        "position vectors that differ": (positions != positions[0]).any(),
    }
    if found := [what for what, is_so in wrong.items() if is_so]:
        raise InputError(
            "The format `model2vec` holds a table of token vectors, whose normalised "
            f"mean is the sentence's vector. Received: {' and '.join(found)}. Use "
            "another format, such as `onnx`."
        )
    rows = weights["embedding/word"].astype(np.float64)
    if "embedding/projection" in weights:
        rows = rows @ weights["embedding/projection"]
    rows = rows + positions[0] + types[0]
    return rows @ weights["projection/kernel"] if config.projection_dim else rows


def _backend(tokenizer: Any) -> Backend:
    """Return the tokenizer in the `tokenizers` library, with both markers."""
    backend = backend_of(tokenizer)
    control = {*control_pieces(tokenizer), tokenizer.pieces()[tokenizer.unknown_id]}
    control.add(tokenizer.pieces()[tokenizer.pad_id])
    # No text can spell the name of a special token.
    names = [UNKNOWN + p if p in control else p for p in tokenizer.pieces()]
    scores = [score for _, score in _vocabulary(backend)]
    pieces = [*names, BLANK + START, UNKNOWN]
    vocabulary = list(zip(pieces, [*scores, 0.0, 0.0], strict=True))
    backend.model = models.Unigram(vocabulary, tokenizer.unknown_id, False)
    known = {" ", *"".join(p for p in tokenizer.pieces() if p not in control)}
    backend.normalizer = normalizers.Sequence(
        [
            backend.normalizer,
            normalizers.Replace(Regex(f"[^{_ranges(known)}]+"), UNKNOWN),
            normalizers.Prepend(START + " "),
        ]
    )
    return backend


def _vocabulary(backend: Backend) -> list[tuple[str, float]]:
    return json.loads(backend.to_str())["model"]["vocab"]


def _ranges(characters: Iterable[str]) -> str:
    """Return characters as ranges in a class of a regular expression."""
    codes = sorted(map(ord, characters))
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(codes), 1) if b != a + 1)]
    parts = [codes[a:b] for a, b in pairwise([*breaks, len(codes)])]
    return "".join(f"\\x{{{part[0]:x}}}-\\x{{{part[-1]:x}}}" for part in parts)
