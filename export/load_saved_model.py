"""Find the sentences nearest to a query, with an exported SavedModel.

Needs only tensorflow and tensorflow-text:

    python load_saved_model.py ARTEFACT --query "Wo ist die Katze?" \
        --sentences sentences.txt --top 5

The sentences file is UTF-8, one sentence a line. Every file is compared with its
checksum in card.json first; a damaged one ends the script with exit code 2. A
SavedModel is a program: load only one from a source you trust.
"""

import argparse
import hashlib
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np

BATCH = 64
VERSION = "1"  # TensorFlow Serving's name of the folder that holds the model


def check(folder: Path) -> None:
    """Compare the files of an artefact with their checksums in its card.

    Raises:
        ValueError: It is no SavedModel, or a file is missing or damaged.
    """
    card = folder / "card.json"
    if not card.is_file():
        raise ValueError(f"{folder} holds no artefact (no card.json)")
    try:
        facts = json.loads(card.read_text(encoding="utf-8"))
        format, files = facts["format"], facts["files"]
        sums = {name: files[name]["sha256"] for name in files}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{card} is damaged: {error!r}") from error
    if format != "saved_model" or f"{VERSION}/saved_model.pb" not in sums:
        raise ValueError(f"{folder} holds no SavedModel but the format {format!r}")
    for name in sums:
        if name.startswith(f"{VERSION}/"):
            if not (folder / name).is_file():
                raise ValueError(f"{folder} lacks {name}; take a whole copy")
            with open(folder / name, "rb") as handle:
                found = hashlib.file_digest(handle, "sha256").hexdigest()
            if found != sums[name]:
                raise ValueError(
                    f"{folder / name} differs from its checksum; take a whole copy"
                )


def load(folder: Path, threads: int | None = None) -> Callable[[list[str]], np.ndarray]:
    """Return a function from sentences to vectors of length one, `(n, dim)`.

    Raises:
        ValueError: TensorFlow cannot load the model.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # tensorflow_text brings a layer for Keras. Nothing here uses it, and an empty
    # module in its place keeps Keras from being imported.
    unused = "tensorflow_text.python.keras"
    sys.modules.setdefault(unused, types.ModuleType(unused))
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

    try:
        if threads is not None:  # only before TensorFlow's first operation
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
        model = tf.saved_model.load(str(folder / VERSION))
        serve = model.signatures["serving_default"]
    except Exception as error:  # TensorFlow promises no kind of error
        raise ValueError(f"{folder} does not load: {error!r}") from error

    def encode(sentences: list[str]) -> np.ndarray:
        _ = model  # owns the variables that `serve` reads, so it must stay alive
        parts = [
            serve(text=tf.constant(sentences[start : start + BATCH]))["embedding"]
            for start in range(0, len(sentences), BATCH)
        ]
        vectors = np.concatenate(parts)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(norms, 1e-12)

    return encode


def main() -> None:
    """Print `cosine TAB sentence`, nearest first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("artefact", type=Path, help="folder with card.json")
    parser.add_argument("--query", required=True, help="text to look for")
    parser.add_argument("--sentences", type=Path, required=True, help="UTF-8 file")
    parser.add_argument("--top", type=int, default=5, help="sentences to print")
    parser.add_argument("--threads", type=int, help="threads of TensorFlow")
    options = parser.parse_args()
    if not options.sentences.is_file():
        parser.error(f"{options.sentences} does not exist")
    if options.top < 1 or (options.threads is not None and options.threads < 1):
        parser.error("--top and --threads must be at least 1")

    try:
        lines = options.sentences.read_text(encoding="utf-8").split("\n")
        sentences = [line.strip() for line in lines if line.strip()]
        if not sentences:
            raise ValueError(f"{options.sentences} holds no sentence")
        options.query.encode()  # half of a surrogate pair is no text
        check(options.artefact)
        encode = load(options.artefact, options.threads)
        similarity = encode(sentences) @ encode([options.query])[0]
    except ValueError as error:
        parser.error(str(error))
    for row in np.argsort(-similarity, kind="stable")[: options.top]:
        print(f"{similarity[row]:.4f}\t{sentences[row]}")


if __name__ == "__main__":
    main()
