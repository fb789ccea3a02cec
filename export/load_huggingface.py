"""Find the sentences nearest to a query, with a folder in Hugging Face layout.

Needs only onnxruntime, tokenizers and numpy:

    python load_huggingface.py FOLDER --query "Wo ist die Katze?" \
        --sentences sentences.txt --top 5

The sentences file is UTF-8, one sentence a line. `--model model_quantized.onnx` takes
the int8 model. Libraries such as sentence-transformers load the folder by its path
alone, and do this. A model is a program: load only one from a source you trust.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

BATCH, MODEL = 64, "model.onnx"


def load(folder: Path, model: str = MODEL) -> Callable[[list[str]], np.ndarray]:
    """Return a function from sentences to vectors of length one, `(n, dim)`."""
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(settings["model_max_length"])
    pad = settings["pad_token"]
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad), pad_token=pad)
    session = onnxruntime.InferenceSession(folder / "onnx" / model)

    def embed(sentences: list[str]) -> np.ndarray:
        rows = tokenizer.encode_batch(sentences)
        ids, mask = (
            np.array([getattr(row, name) for row in rows], np.int64)
            for name in ("ids", "attention_mask")
        )
        inputs = {"input_ids": ids, "attention_mask": mask}
        inputs["token_type_ids"] = np.zeros_like(ids)
        return session.run(["sentence_embedding"], inputs)[0]

    def encode(sentences: list[str]) -> np.ndarray:
        starts = range(0, len(sentences), BATCH)
        vectors = np.concatenate([embed(sentences[i : i + BATCH]) for i in starts])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(norms, 1e-12)

    return encode


def main() -> None:
    """Print `cosine TAB sentence`, nearest first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with tokenizer.json, onnx/")
    parser.add_argument("--query", required=True, help="text to look for")
    parser.add_argument("--sentences", type=Path, required=True, help="UTF-8 file")
    parser.add_argument("--model", default=MODEL, help="name of a file under onnx/")
    parser.add_argument("--top", type=int, default=5, help="sentences to print")
    options = parser.parse_args()
    for path in (options.sentences, options.folder / "onnx" / options.model):
        if not path.is_file():
            parser.error(f"{path} does not exist")
    lines = options.sentences.read_text(encoding="utf-8").split("\n")
    sentences = [line.strip() for line in lines if line.strip()]
    if not sentences:
        parser.error(f"{options.sentences} holds no sentence")
    encode = load(options.folder, options.model)
    similarity = encode(sentences) @ encode([options.query])[0]
    for row in np.argsort(-similarity, kind="stable")[: options.top]:
        print(f"{similarity[row]:.4f}\t{sentences[row]}")


if __name__ == "__main__":
    main()
