"""Find the sentences nearest to a query, with a folder of the format `model2vec`.

Needs only tokenizers, safetensors and numpy:

    python load_model2vec.py FOLDER --query "Wo ist die Katze?" \
        --sentences sentences.txt --top 5

The sentences file is UTF-8, one sentence a line. model2vec and sentence-transformers
load the folder by its path alone, and do this.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer


def load(folder: Path) -> Callable[[list[str]], np.ndarray]:
    """Return a function from sentences to vectors of length one, `(n, dim)`."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    table = load_file(folder / "model.safetensors")["embeddings"].astype(np.float32)

    def encode(sentences: list[str]) -> np.ndarray:
        rows = tokenizer.encode_batch(sentences, add_special_tokens=False)
        vectors = np.array([table[row.ids].sum(axis=0) for row in rows])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(norms, 1e-12)

    return encode


def main() -> None:
    """Print `cosine TAB sentence`, nearest first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with model.safetensors")
    parser.add_argument("--query", required=True, help="text to look for")
    parser.add_argument("--sentences", type=Path, required=True, help="UTF-8 file")
    parser.add_argument("--top", type=int, default=5, help="sentences to print")
    options = parser.parse_args()
    for path in (options.sentences, options.folder / "model.safetensors"):
        if not path.is_file():
            parser.error(f"{path} does not exist")
    lines = options.sentences.read_text(encoding="utf-8").split("\n")
    sentences = [line.strip() for line in lines if line.strip()]
    if not sentences:
        parser.error(f"{options.sentences} holds no sentence")
    encode = load(options.folder)
    similarity = encode(sentences) @ encode([options.query])[0]
    for row in np.argsort(-similarity, kind="stable")[: options.top]:
        print(f"{similarity[row]:.4f}\t{sentences[row]}")


if __name__ == "__main__":
    main()
