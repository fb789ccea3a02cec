"""Find the sentences nearest to a query, with an exported GGUF model.

Needs only llama-cpp-python and numpy:

    python load_gguf.py FOLDER --query "Wo ist die Katze?" \
        --sentences sentences.txt --top 5

The sentences file is UTF-8, one sentence a line. llama-server and Ollama serve the file
`model.gguf` as it is.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from llama_cpp import Llama

ROOM = 256  # tokens; llama.cpp aborts if its room is no multiple


def load(folder: Path) -> Callable[[list[str]], np.ndarray]:
    """Return a function from sentences to vectors of length one, `(n, dim)`.

    A sentence that is too long for the model is cut.
    """
    path = str(folder / "model.gguf")
    known = Llama(path, vocab_only=True, n_ctx=8, verbose=False)
    longest = int(known.metadata["bert.context_length"])
    room = dict.fromkeys(("n_ctx", "n_batch", "n_ubatch"), -(-longest // ROOM) * ROOM)
    model = Llama(path, embedding=True, verbose=False, **room)

    def cut(text: str) -> str:
        ids = model.tokenize(text.encode(), special=False)
        if len(ids) <= longest:
            return text
        return model.detokenize(ids[1 : longest - 1]).decode(errors="ignore")

    def encode(sentences: list[str]) -> np.ndarray:
        # One by one: a context has room for one long text.
        vectors = [model.embed(cut(text), normalize=True) for text in sentences]
        return np.array(vectors, np.float32)

    return encode


def main() -> None:
    """Print `cosine TAB sentence`, nearest first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with model.gguf")
    parser.add_argument("--query", required=True, help="text to look for")
    parser.add_argument("--sentences", type=Path, required=True, help="UTF-8 file")
    parser.add_argument("--top", type=int, default=5, help="sentences to print")
    options = parser.parse_args()
    for path in (options.sentences, options.folder / "model.gguf"):
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
