"""Embed sentences in MediaPipe's own TextEmbedder, and compare with Keras.

    python benchmarks/mediapipe_check.py --data DATA --encoder runs/backbone/student

500 sentences: as many from `<data>/parallel/dev` in each of 13 languages, and some that
are empty, blank, too long, or full of emoji and marks. Without `--data` they are made
ones. Each quantisation is exported and read by another process, which has nothing but
mediapipe and numpy; `--python` names an environment's Python for it. Milliseconds a
sentence are of an idle machine, the model's own threads. Writes
benchmarks/results/mediapipe_check.json. Exit code 1: a vector of a float model has a
cosine under 0.999 with Keras', or another nearest neighbour.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.data import example_pairs
from keras_msd.export import export, quantizations
from keras_msd.export.proof import SENTENCES, parity
from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "mediapipe_check.json"
LANGUAGES = "en ar de es fr it ja nl pl pt ru tr zh".split()
COUNT, LEAST_COSINE = 500, 0.999
FLOAT = (None, "fp16")
FORMAT = quantizations("litert_text")
TRICKY = [
    "",
    "   ",
    "Good luck 🍀 and see you soon 👋🏽",
    "👩\u200d👩\u200d👧\u200d👦 ❤\ufe0f 🇩🇪",
    "Zażółć gęślą jaźń; e\u0301te\u0301, ﬁn, ＦＵＬＬ ½ ™",
    "A [SEP] and a </s> are only words here.",
    "all the way down the long and winding road " * 40,
]
# All that an application needs.
APPLICATION = """
import json, sys, time
from importlib.metadata import version
import numpy as np
from mediapipe.tasks.python.text import TextEmbedder
blocked = [name for name in ("keras", "keras_msd", "tensorflow") if name in sys.modules]
model, texts, vectors = sys.argv[1:]
with TextEmbedder.create_from_model_path(model) as embedder:
    texts = json.load(open(texts, encoding="utf-8"))
    start = time.perf_counter()
    rows = [embedder.embed(text).embeddings[0].embedding for text in texts]
    ms = 1000 * (time.perf_counter() - start) / len(texts)
    np.save(vectors, rows)
used = {"mediapipe": version("mediapipe"), "also imported": blocked}
print(json.dumps({"ms": round(ms, 3), "used": used}))
"""


def main() -> int:
    """Export, compare, print a table and write the result file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument(
        "--quantize",
        nargs="+",
        default=["none" if kind is None else kind for kind in FORMAT],
        help="the files to make; none is float32",
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    try:
        texts = examples() if options.data is None else real(options.data)
        encoder = load_encoder(options.encoder)
        ours, rows = encoder.encode(list(texts)), []
        with tempfile.TemporaryDirectory() as folder:
            for kind in options.quantize:
                quantize = None if kind == "none" else kind
                path = Path(folder) / str(quantize)
                export(encoder, path, "litert_text", quantize)
                theirs, told = embed(options.python, path, list(texts))
                found = parity(list(texts), ours, theirs)
                size = (path / "model.tflite").stat().st_size
                del found["worst"]  # a sentence of the data
                found |= {"quantize": quantize, "bytes": size, "ms": told["ms"]}
                rows.append(found)
                print(
                    f"{quantize or 'float32':10} {size:10,} bytes, cosine "
                    f"{found['min_cosine']:.6f} min {found['mean_cosine']:.6f} mean, "
                    f"{100 * found['neighbours_kept']:.1f} % of neighbours kept, "
                    f"{found['ms']:.3f} ms a sentence"
                )
    except InputError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    result = {
        "command": "python benchmarks/mediapipe_check.py --encoder ENCODER"
        + " --data DATA" * (options.data is not None)
        + " --python PYTHON" * (options.python != sys.executable),
        "sentences": len(texts),
        "languages": sorted({*texts.values()} - {""}),
        "encoder": {"fingerprint": encoder.fingerprint, "dim": encoder.dim},
        "runtime": told["used"],
        "rows": rows,
    }
    write_json(options.out, result)
    exact = [row for row in rows if row["quantize"] in FLOAT]
    return int(
        any(row["min_cosine"] < LEAST_COSINE for row in exact)
        or any(row["neighbours_kept"] < 1 for row in exact)
    )


def real(data: Path) -> dict[str, str]:
    """Return `COUNT` distinct held-out sentences, and the language of each.

    Raises:
        InputError: The folder has too few.
    """
    texts = dict.fromkeys(TRICKY, "")
    room = COUNT - len(texts)
    for number, language in enumerate(LANGUAGES):
        share = room // len(LANGUAGES) + (number < room % len(LANGUAGES))
        side = int(language != "en")
        files = data.glob(f"parallel/dev/*{language if side else ''}.tsv.gz")
        # Files take turns, so that every corpus is there.
        turns = zip(*map(lines, sorted(files)), strict=False)
        found = (line[side] for turn in turns for line in turn)
        new = (text for text in dict.fromkeys(found) if text not in texts)
        texts |= dict.fromkeys(islice(new, share), language)
    return checked(texts)


def lines(path: Path) -> list[list[str]]:
    """Return the two sides of every line of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        return [line.rstrip("\n").split("\t") for line in handle]


def examples() -> dict[str, str]:
    """Return `COUNT` distinct sentences, most of them of Tatoeba, in many languages."""
    texts = dict.fromkeys([*TRICKY, *SENTENCES], "")
    for pair in example_pairs(split="dev"):
        texts |= {pair.source: "en", pair.target: pair.language}
    return checked(dict(islice(texts.items(), COUNT)))


def checked(texts: dict[str, str]) -> dict[str, str]:
    """Return `texts`, or raise `InputError` if they are too few."""
    if len(texts) != COUNT:
        raise InputError(
            f"The check needs {COUNT} distinct sentences. Received: {len(texts)}. Give "
            f"a folder with parallel/dev/*.en-LANGUAGE.tsv.gz for {len(LANGUAGES)} "
            "languages."
        )
    return texts


def embed(python: str, path: Path, texts: list[str]) -> tuple[np.ndarray, Any]:
    """Return what MediaPipe gives in a process of its own, and what that process is."""
    given, out = path / "texts.json", path / "vectors.npy"
    given.write_text(json.dumps(texts), encoding="utf-8")
    command = [python, "-c", APPLICATION, str(path / "model.tflite"), given, out]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return np.load(out).astype(np.float32), json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
