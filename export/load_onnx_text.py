"""Find the sentences nearest to a query, with an exported ONNX model of strings.

Needs only onnxruntime, onnxruntime-extensions and numpy:

    python load_onnx_text.py ARTEFACT --query "Wo ist die Katze?" \
        --sentences sentences.txt --top 5

The sentences file is UTF-8, one sentence a line. The model is first compared with its
checksum in card.json, if that lies beside it. A damaged one ends the script with exit
code 2. A model is a program: load only one from a source you trust.
"""

import argparse
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime_extensions

BATCH, MODEL = 64, "model.onnx"


def check(path: Path) -> tuple[Path, bytes]:
    """Return the model file and its content, if it is whole.

    Args:
        path: The artefact's folder, or its model file, with or without a card beside.

    Raises:
        ValueError: It is no model of ours, or damaged.
    """
    file = path / MODEL if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{file} does not exist")
    content, card = file.read_bytes(), file.with_name("card.json")
    if card.is_file():
        try:
            facts = json.loads(card.read_text(encoding="utf-8"))["files"][file.name]
            whole = facts["sha256"] == hashlib.sha256(content).hexdigest()
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{card} is damaged: {error!r}") from error
        if not whole:
            raise ValueError(f"{file} differs from its checksum; take a whole copy")
    return file, content


def load(path: Path, threads: int = 1) -> Callable[[list[str]], np.ndarray]:
    """Return a function from sentences to vectors of length one, `(n, dim)`.

    Raises:
        ValueError: The model is damaged, or onnxruntime cannot load it.
    """
    file, content = check(path)
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    try:
        session = onnxruntime.InferenceSession(content, options)
    except Exception as error:  # onnxruntime has no common class of errors
        raise ValueError(f"{file} does not load: {error}") from error
    if [one.name for one in session.get_inputs()] != ["text"]:
        raise ValueError(f"{file} takes token ids; load_onnx.py loads it")

    def encode(sentences: list[str]) -> np.ndarray:
        starts = range(0, len(sentences), BATCH)
        parts = [np.array(sentences[one : one + BATCH], object) for one in starts]
        made = [session.run(["embedding"], {"text": part})[0] for part in parts]
        vectors = np.concatenate(made)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(norms, 1e-12)

    return encode


def main() -> None:
    """Print `cosine TAB sentence`, nearest first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("artefact", type=Path, help="folder, or the model file in it")
    parser.add_argument("--query", required=True, help="text to look for")
    parser.add_argument("--sentences", type=Path, required=True, help="UTF-8 file")
    parser.add_argument("--top", type=int, default=5, help="sentences to print")
    parser.add_argument("--threads", type=int, default=1, help="of onnxruntime")
    options = parser.parse_args()
    if not options.sentences.is_file():
        parser.error(f"{options.sentences} does not exist")
    if min(options.top, options.threads) < 1:
        parser.error("--top and --threads must be at least 1")

    try:
        lines = options.sentences.read_text(encoding="utf-8").split("\n")
        sentences = [line.strip() for line in lines if line.strip()]
        if not sentences:
            raise ValueError(f"{options.sentences} holds no sentence")
        options.query.encode()  # half of a surrogate pair is no text
        encode = load(options.artefact, options.threads)
        similarity = encode(sentences) @ encode([options.query])[0]
    except ValueError as error:
        parser.error(str(error))
    for row in np.argsort(-similarity, kind="stable")[: options.top]:
        print(f"{similarity[row]:.4f}\t{sentences[row]}")


if __name__ == "__main__":
    main()
