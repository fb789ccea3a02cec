"""Is tiny12 the same model in model2vec and in sentence-transformers?

Exports it with `keras-msd export tiny12 --format model2vec`, loads the folder with
`StaticModel.from_pretrained`, with `SentenceTransformer` and with `load_encoder`, and
compares ids and vectors of real sentences in 13 languages with those of tiny12; texts
over the encoder's limit and names of special tokens are among them. In an environment
with tiny12:

    python benchmarks/model2vec_check.py --data DATA --peer-python PYTHON

`--peer-python` names the Python of an environment with model2vec and
sentence-transformers.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from corpora import sentences

RESULT = Path(__file__).parent / "results" / "model2vec_check.json"
PACKAGES = ("model2vec", "sentence-transformers", "tokenizers", "torch")
SENTENCES = 20_000
TOLERANCE = 1e-5


def run_peer(folder: str, scratch: str) -> None:
    """Encode with both libraries; write ids and vectors, print the versions."""
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer

    texts = json.loads(Path(scratch, "texts.json").read_text(encoding="utf-8"))
    model = StaticModel.from_pretrained(folder)
    Path(scratch, "ids.json").write_text(json.dumps(model.tokenize(texts)))
    np.save(Path(scratch, "model2vec.npy"), model.encode(texts))
    other = SentenceTransformer(folder, device="cpu")
    np.save(Path(scratch, "sentence_transformers.npy"), other.encode(texts))
    print(json.dumps({name: version(name) for name in PACKAGES}))


def main() -> int:
    """Compare, write the result; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--peer-job", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer_job:
        run_peer(*options.peer_job)
        return 0

    from keras_msd import load_encoder
    from keras_msd.export.model2vec import compared
    from keras_msd.io.files import write_json

    encoder = load_encoder("tiny12")
    texts = sentences(options.data / "parallel/train", SENTENCES)
    texts += [" ".join(texts[i : i + 5]) for i in range(0, SENTENCES, 100)]
    texts += [f"{name} in a {name}text" for name in encoder.tokenizer.pieces()[:4]]
    within = compared(encoder, texts)
    left_out, texts = len(texts) - len(within), within
    room = encoder.max_length - 2
    plain = encoder.tokenizer.encode_plain(texts)
    long = sum(len(row) > room for row in plain)
    plain = [row[:room] for row in plain]
    with tempfile.TemporaryDirectory() as scratch:
        folder = f"{scratch}/tiny12"
        encoder.export(folder, format="model2vec")
        Path(scratch, "texts.json").write_text(json.dumps(texts), encoding="utf-8")
        job = [options.peer_python, __file__, "--peer-job", folder, scratch]
        done = subprocess.run(job, check=True, stdout=subprocess.PIPE, text=True)
        ids = json.loads(Path(scratch, "ids.json").read_text())
        again = load_encoder(folder)
        vectors = {
            "model2vec": np.load(Path(scratch, "model2vec.npy")),
            "sentence-transformers": np.load(
                Path(scratch, "sentence_transformers.npy")
            ),
            "load_encoder": again.encode(texts, progress=False),
        }
        own = again.tokenizer.encode(texts, again.max_length)
    known = encoder.encode(texts, progress=False)
    marker = encoder.tokenizer.vocabulary_size
    unknown = encoder.tokenizer.unknown_id
    renamed = [[unknown if i == marker + 1 else i for i in row] for row in ids]
    # Of splits that are equally likely each library takes one: "0000 000", "000 0000".
    wanted = [[marker, *row] for row in plain]
    same_ids = [sorted(a) == sorted(b) for a, b in zip(renamed, wanted, strict=True)]
    same_order = sum(a == b for a, b in zip(renamed, wanted, strict=True))
    result = {
        "texts": len(texts),
        "cut_at_the_limit": long,
        "left_out": left_out,
        "with_unknown_characters": sum(unknown in row for row in plain),
        "other_ids_in_model2vec": same_ids.count(False),
        "ids_in_another_order": sum(same_ids) - same_order,
        "other_ids_read_back": sum(a != b for a, b in zip(ids, own, strict=True)),
        "largest_difference": {
            name: float(np.abs(rows - known).max()) for name, rows in vectors.items()
        },
        "versions": json.loads(done.stdout.splitlines()[-1]),
    }
    write_json(RESULT, result)
    print(json.dumps(result, indent=2))
    same = not result["other_ids_in_model2vec"] and not result["other_ids_read_back"]
    return int(not (same and max(result["largest_difference"].values()) < TOLERANCE))


if __name__ == "__main__":
    sys.exit(main())
