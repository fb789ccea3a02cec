"""Processor time of tiny12's `encode` beside a model2vec model with as many rows.

    python benchmarks/static_models.py --data DATA --peer-python PYTHON

PYTHON has model2vec installed. Its model has a random table of 40,000 x 384 and the
pieces of tiny12 in a tokenizer of the library `tokenizers`, with the table of
characters alone before it. Rounds of both, and of tiny12's light encoder, alternate in
processes of their own with one thread each; a number is the median of sentences a
second of processor time.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

from keras_msd import load_encoder
from keras_msd.checkpoints.packaged import packaged_folder
from keras_msd.export.huggingface_tokenizer import write_tokenizer
from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "static_models.json"
ONE_THREAD = (
    "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS TF_NUM_INTRAOP_THREADS "
    "TF_NUM_INTEROP_THREADS RAYON_NUM_THREADS".split()
)
TIMED = """
import json, sys, time
texts = json.load(open(sys.argv[1], encoding="utf-8"))
encode = make(sys.argv[2])
encode(texts[:2000])
began = time.process_time()
encode(texts)
print(len(texts) / (time.process_time() - began))
"""
OURS = """
def make(folder):
    import keras_msd
    encoder = keras_msd.load_encoder(folder)
    return lambda texts: encoder.encode(texts, progress=False)
"""
LIGHT = """
def make(folder):
    from keras_msd.light import LightEncoder
    return LightEncoder(folder).encode
"""
PEER = """
def make(folder):
    import numpy as np
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
    rows = tokenizer.get_vocab_size()
    table = np.random.default_rng(0).normal(size=(rows, 384)).astype(np.float32)
    model = StaticModel(table, tokenizer, normalize=True, max_length=64)
    return lambda texts: model.encode(texts, use_multiprocessing=False)
"""


def sentences(data: Path, count: int) -> list[str]:
    """Return real sentences, evenly from all files of pairs."""
    files = sorted((data / "parallel").rglob("*.tsv.gz"))
    texts: list[str] = []
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in islice(lines, -(-count // (2 * len(files)))):
                texts += line.rstrip("\n").split("\t")[:2]
    return texts[:count]


def main() -> None:
    """Print the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    environment = os.environ | dict.fromkeys(ONE_THREAD, "1")
    encoder = load_encoder("tiny12")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_tokenizer(encoder.tokenizer, place, encoder.max_length)
        path = place / "tokenizer.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        [content["normalizer"]] = [
            step
            for step in content["normalizer"]["normalizers"]
            if step["type"] == "Precompiled"
        ]
        path.write_text(json.dumps(content), encoding="utf-8")
        texts = sentences(options.data, options.sentences)
        (place / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
        tiny12 = str(packaged_folder("tiny12"))
        arms = {
            "keras_msd": (sys.executable, OURS, tiny12),
            "light": (sys.executable, LIGHT, tiny12),
            "model2vec": (options.peer_python, PEER, folder),
        }
        rates: dict[str, list[float]] = {name: [] for name in arms}
        for _ in range(options.rounds):
            for name, (python, code, source) in arms.items():
                out = subprocess.check_output(
                    [python, "-c", code + TIMED, str(place / "texts.json"), source],
                    env=environment,
                    text=True,
                )
                rates[name].append(float(out.split()[-1]))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    result = {
        "sentences": len(texts),
        "rounds": options.rounds,
        "load_average": round(os.getloadavg()[1], 1),
        "per_second_of_processor_time": {n: round(r) for n, r in medians.items()},
    }
    write_json(RESULT, result)
    for name, rate in medians.items():
        ratio = rate / medians["model2vec"]
        print(f"{name:10} {rate:>10,.0f} sentences a second {ratio:>6.2f}")


if __name__ == "__main__":
    main()
