"""Find the sentences nearest to a query, with an exported LiteRT model of token ids.

Needs only ai-edge-litert, numpy and portable_tokenizer.py, which lies beside this file:

    python load_litert.py ARTEFACT --query "Wo ist die Katze?" \
        --sentences sentences.txt --top 5

The sentences file is UTF-8, one sentence a line. The model is first compared with its
checksum in card.json, if that lies beside it: the runtime trusts what it reads. A
damaged one ends the script with exit code 2. A model is a program: load only one from a
source you trust.
"""

import argparse
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from portable_tokenizer import PortableTokenizer

MODEL, TOKENIZER = "model.tflite", "tokenizer.json"


def check(path: Path) -> tuple[Path, bytes]:
    """Return the model file and its tokenizer's description, if both are whole.

    Args:
        path: The artefact's folder, or its model file, with or without a card beside.

    Raises:
        ValueError: It is no model of ours, or damaged.
    """
    file = path / MODEL if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{file} does not exist")
    content, card = file.read_bytes(), file.with_name("card.json")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            description = archive.read(TOKENIZER)
        whole = True
        if card.is_file():
            facts = json.loads(card.read_text(encoding="utf-8"))["files"][file.name]
            whole = facts["sha256"] == hashlib.sha256(content).hexdigest()
    except Exception as error:  # a damaged archive makes zipfile raise nearly anything
        raise ValueError(f"{file} is damaged or not ours: {error!r}") from error
    if not whole:
        raise ValueError(f"{file} differs from its checksum; take a whole copy")
    return file, description


def load(path: Path, threads: int = 1) -> Callable[[list[str]], np.ndarray]:
    """Return a function from sentences to vectors of length one, `(n, dim)`.

    Raises:
        ValueError: The model is damaged, or LiteRT cannot load it.
    """
    file, description = check(path)
    tokenizer = PortableTokenizer(description)
    try:
        interpreter = Interpreter(str(file), num_threads=threads)
        embed = interpreter.get_signature_runner("serving_default")
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"{file} does not load: {error}") from error

    # An interpreter has one set of tensors: threads take turns.
    lock = threading.Lock()

    def encode(sentences: list[str]) -> np.ndarray:
        vectors = []
        # One sentence at a time: no padding is computed, and kernels stay in the cache.
        for row in tokenizer.encode(sentences):
            ids = np.array([row], np.int32)
            with lock:
                made = embed(token_ids=ids, padding_mask=np.ones_like(ids))["embedding"]
            vectors.append(made[0] / max(np.linalg.norm(made[0]), 1e-12))
        return np.array(vectors)

    return encode


def main() -> None:
    """Print `cosine TAB sentence`, nearest first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("artefact", type=Path, help="folder, or the model file in it")
    parser.add_argument("--query", required=True, help="text to look for")
    parser.add_argument("--sentences", type=Path, required=True, help="UTF-8 file")
    parser.add_argument("--top", type=int, default=5, help="sentences to print")
    parser.add_argument("--threads", type=int, default=1, help="threads of LiteRT")
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
