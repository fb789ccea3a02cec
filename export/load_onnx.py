"""Find the sentences nearest to a query, with an exported ONNX model of token ids.

Needs only onnxruntime, numpy and portable_tokenizer.py, which lies beside this file:

    python load_onnx.py ARTEFACT --query "Wo ist die Katze?" \
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
from portable_tokenizer import PortableTokenizer

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
    try:
        session = onnxruntime.InferenceSession(content, options)
    except Exception as error:  # onnxruntime has no common class of errors
        raise ValueError(f"{file} does not load: {error}") from error
    metadata = session.get_modelmeta().custom_metadata_map
    if "tokenizer" not in metadata:
        raise ValueError(f"{file} holds no tokenizer; it takes no token ids")
    tokenizer = PortableTokenizer(metadata["tokenizer"].encode())

    def embed(sentences: list[str]) -> np.ndarray:
        rows = tokenizer.encode(sentences)
        mask = np.zeros((len(rows), max(map(len, rows))), np.int32)
        token_ids = np.full_like(mask, tokenizer.pad_id)
        for number, row in enumerate(rows):
            mask[number, : len(row)], token_ids[number, : len(row)] = 1, row
        inputs = {"token_ids": token_ids, "padding_mask": mask}
        return session.run(["embedding"], inputs)[0]

    def encode(sentences: list[str]) -> np.ndarray:
        starts = range(0, len(sentences), BATCH)
        vectors = np.concatenate(
            [embed(sentences[one : one + BATCH]) for one in starts]
        )
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
