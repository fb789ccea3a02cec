"""Find the sentences nearest to a query, in MediaPipe's own TextEmbedder.

Needs only mediapipe and numpy:

    python load_litert_text.py ARTEFACT --query "Wo ist die Katze?" \
        --sentences sentences.txt --top 5

The sentences file is UTF-8, one sentence a line. The model is compared with its
checksum in card.json first: MediaPipe trusts what it reads. A damaged one ends the
script with exit code 2. A model is a program: load only one from a source you trust.
"""

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
from mediapipe.tasks.python.text import TextEmbedder


def load(path: Path) -> TextEmbedder:
    """Return the embedder of an artefact's folder.

    Raises:
        ValueError: The model is missing, damaged, or MediaPipe cannot load it.
    """
    model, card = path / "model.tflite", path / "card.json"
    try:
        facts = json.loads(card.read_text(encoding="utf-8"))["files"][model.name]
        if facts["sha256"] != hashlib.sha256(model.read_bytes()).hexdigest():
            raise ValueError(f"{model} differs from its checksum; take a whole copy")
        return TextEmbedder.create_from_model_path(str(model))
    except (OSError, ValueError, LookupError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} holds no such model: {error!r}") from error


def main() -> None:
    """Print `cosine TAB sentence`, nearest first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("artefact", type=Path, help="folder with card.json")
    parser.add_argument("--query", required=True, help="text to look for")
    parser.add_argument("--sentences", type=Path, required=True, help="UTF-8 file")
    parser.add_argument("--top", type=int, default=5, help="sentences to print")
    options = parser.parse_args()
    if not options.sentences.is_file():
        parser.error(f"{options.sentences} does not exist")
    if options.top < 1:
        parser.error("--top must be at least 1")

    try:
        lines = options.sentences.read_text(encoding="utf-8").split("\n")
        sentences = [line.strip() for line in lines if line.strip()]
        if not sentences:
            raise ValueError(f"{options.sentences} holds no sentence")
        options.query.encode()  # half of a surrogate pair is no text
        with load(options.artefact) as embedder:
            texts = [options.query, *sentences]
            made = [embedder.embed(text).embeddings[0].embedding for text in texts]
    except ValueError as error:
        parser.error(str(error))
    vectors = np.array(made)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    similarity = vectors[1:] @ vectors[0]
    for row in np.argsort(-similarity, kind="stable")[: options.top]:
        print(f"{similarity[row]:.4f}\t{sentences[row]}")


if __name__ == "__main__":
    main()
