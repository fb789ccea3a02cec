"""Compare sentences with the first of them, in MediaPipe's own TextEmbedder.

Needs only mediapipe:

    python load_litert_text.py ARTEFACT "Where is the cat?" "Wo ist die Katze?"

The model is compared with its checksum in card.json first: MediaPipe trusts what it
reads. A damaged one ends the script with exit code 2. A model is a program: load only
one from a source you trust.
"""

import argparse
import hashlib
import json
from pathlib import Path

from mediapipe.tasks.python.text import TextEmbedder


def main() -> None:
    """Print the vectors' width, then `cosine TAB sentence` for each sentence."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("artefact", type=Path, help="folder with card.json")
    parser.add_argument("sentences", nargs="+")
    options = parser.parse_args()
    model, card = (options.artefact / name for name in ("model.tflite", "card.json"))
    try:
        facts = json.loads(card.read_text(encoding="utf-8"))["files"][model.name]
        if facts["sha256"] != hashlib.sha256(model.read_bytes()).hexdigest():
            raise ValueError(f"{model} differs from its checksum; take a whole copy")
        embedder = TextEmbedder.create_from_model_path(str(model))
    except (OSError, ValueError, LookupError, TypeError, RuntimeError) as error:
        parser.error(f"{options.artefact} holds no such model: {error!r}")
    try:
        with embedder:
            vectors = [embedder.embed(text).embeddings[0] for text in options.sentences]
    except UnicodeEncodeError as error:
        parser.error(f"a sentence is no Unicode: {error}")
    print(f"{len(vectors)} vectors of {len(vectors[0].embedding)} numbers")
    for text, vector in zip(options.sentences, vectors, strict=True):
        print(f"{TextEmbedder.cosine_similarity(vectors[0], vector):.4f}\t{text}")


if __name__ == "__main__":
    main()
