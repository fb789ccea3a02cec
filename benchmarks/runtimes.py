"""How fast are small12, mini12 and tiny12 in each runtime, beside a peer?

The peer is in 8 bits, by onnxruntime's `quantize_dynamic`, and the `tokenizers` library
reads its text. That of small12 is multilingual-e5-small, which has the shape of
paraphrase-multilingual-MiniLM-L12-v2 (12 layers of 384, 250,037 tokens) and so its
speed; that of mini12 and tiny12 is all-MiniLM-L6-v2. All get one sentence,
and 64 at a time, on one core and in turns; a time is the median over all rounds.

    python benchmarks/runtimes.py small12

With --data they get a corpus, on all cores and in turns: sentences of mixed length in
13 languages, by length in batches of 64, and single texts of 64 and of 256 tokens.

    python benchmarks/runtimes.py small12 --data DATA --only peer package litert onnx

It needs the packages of requirements-backbones.txt and requirements-teacher.txt and of
the extras litert, mediapipe, onnx and gguf; `--only` leaves systems out.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from corpora import sentences

RESULT = Path(__file__).parent / "results" / "runtimes.json"
SENTENCES = [
    "The children are playing football in the park behind the old school.",
    "Der Zug nach Zwolle fährt in zehn Minuten ab.",
    "この電車は正午に駅に着きます。",
]


Embed = Callable[[list[str]], Any]
BATCH, LONG = 64, (64, 256)  # sentences; tokens of a single text
MANY = [SENTENCES[row % 3] + " " * (row // 3) for row in range(64)]


def as_peers_do(path: Path, target: Path) -> None:
    """Write an ONNX file in 8 bits by onnxruntime's own tool."""
    from onnxruntime.quantization import quantize_dynamic

    # Its version of Attention does not take all attributes of ours: it stays exact.
    quantize_dynamic(path, target, op_types_to_quantize=["MatMul", "Gather"])


def peer(name: str, folder: Path) -> Embed:
    """Return the peer in onnxruntime, int8, on the cores of this process."""
    import onnxruntime
    from tokenizers import Tokenizer

    from keras_msd.checkpoints.packaged import backbone_files
    from keras_msd.load import open_encoder
    from keras_msd.teachers.teacher import default_folder

    if name == "small12":
        source, description = "e5-small", backbone_files("e5-small")[1]
    else:
        source, description = "default", Path(default_folder()) / "tokenizer.json"
    encoder = open_encoder(source)
    encoder.export(folder / "exact", format="onnx")
    as_peers_do(folder / "exact" / "model.onnx", folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    if hasattr(os, "sched_getaffinity"):
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(folder / "model.onnx", options)
    tokenizer = Tokenizer.from_file(str(description))
    tokenizer.enable_padding(pad_id=encoder.tokenizer.pad_id)

    def embed(texts: list[str]) -> Any:
        rows = tokenizer.encode_batch(texts)
        feeds = {"token_ids": np.array([row.ids for row in rows], np.int32)}
        masks = [row.attention_mask for row in rows]
        feeds["padding_mask"] = np.array(masks, np.int32)
        return session.run(None, feeds)[0]

    return embed


def ours(name: str, folder: Path, format_: str, quantize: str = "") -> Embed:
    """Return an encoder as an artefact: texts to vectors."""
    from keras_msd import load_encoder

    quantize = quantize or STORED[name]
    load_encoder(name).export(folder, format=format_, quantize=quantize)
    return partial(load_encoder(folder).encode, progress=False)


def tensorflow(name: str, folder: Path) -> Embed:
    """Return an encoder as keras-msd loads it, float32."""
    from keras_msd import load_encoder

    return partial(load_encoder(name).encode, progress=False)


def package(name: str, folder: Path) -> Embed:
    """Return an encoder's own package, without keras-msd."""
    encode: Embed = import_module(f"keras_msd_{name}").load().encode
    return encode


def by_length(embed: Embed, texts: list[str]) -> None:
    """Embed texts in batches of about one length."""
    ordered = sorted(texts, key=len)
    for start in range(0, len(ordered), BATCH):
        embed(ordered[start : start + BATCH])


def of_tokens(count: int, texts: list[str], tokens: int, encoder: Any) -> list[str]:
    """Return texts of so many tokens, made of sentences one after the other."""
    found, rest = [], iter(texts)
    while len(found) < count:
        text = next(rest)
        while len(encoder.tokenizer.encode([text], tokens)[0]) < tokens:
            text += " " + next(rest)
        found.append(text)
    return found


def measure_corpus(systems: dict[str, Embed], given: argparse.Namespace) -> Any:
    """Return sentences a second and milliseconds of single long texts."""
    from keras_msd import load_encoder

    texts = sentences(given.data / "parallel/train", given.sentences, of_a_file=2000)
    encoder = load_encoder(given.encoder)
    single = {n: of_tokens(given.calls, texts, n, encoder) for n in LONG}
    blocks = [texts[number :: given.rounds] for number in range(given.rounds)]
    spent: dict[str, list[float]] = {name: [] for name in systems}
    alone: dict[str, dict[int, list[float]]] = {
        name: {tokens: [] for tokens in LONG} for name in systems
    }
    for number, block in enumerate(blocks):
        names = list(systems)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            embed = systems[name]
            by_length(embed, block[:BATCH])
            began = time.perf_counter()
            by_length(embed, block)
            spent[name].append(time.perf_counter() - began)
            for tokens, long in single.items():
                for text in long:
                    began = time.perf_counter()
                    embed([text])
                    alone[name][tokens].append(time.perf_counter() - began)
    return {
        name: {
            "sentences_per_second": round(len(texts) / sum(spent[name]), 1),
            "milliseconds": {
                tokens: round(1000 * statistics.median(times), 2)
                for tokens, times in alone[name].items()
            },
        }
        for name in systems
    }


STORED = {"small12": "int4", "mini12": "int4", "tiny12": "int8"}
SYSTEMS: dict[str, Callable[[str, Path], Embed]] = {
    "peer": peer,
    "tensorflow": tensorflow,
    "package": package,
    "litert": partial(ours, format_="litert"),
    "litert_text": partial(ours, format_="litert_text"),
    "onnx": partial(ours, format_="onnx"),
    "onnx_text": partial(ours, format_="onnx_text"),
    "gguf": partial(ours, format_="gguf", quantize="q4_0"),
}


def add(given: argparse.Namespace, name: str, result: Any) -> None:
    """Put a result into the result file and print it."""
    known = json.loads(given.out.read_text()) if given.out.is_file() else {}
    known[name] = result
    given.out.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoder", choices=STORED)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=10, help="a round and sentence")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS)
    parser.add_argument("--data", type=Path, help="measure a corpus of this folder")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    # llama.cpp runs no encoder without layers, or with heads of another width.
    every = [it for it in SYSTEMS if it != "gguf" or given.encoder == "small12"]
    if given.data is None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        systems = {}
        for system in given.only or every:
            folder = Path(name) / system
            folder.mkdir()
            systems[system] = SYSTEMS[system](given.encoder, folder)
        if given.data is not None:
            add(given, "corpus_of_" + given.encoder, measure_corpus(systems, given))
            return
        times: dict[str, list[float]] = {system: [] for system in systems}
        batches: dict[str, list[float]] = {system: [] for system in systems}
        for _ in range(given.rounds):
            for system, embed in systems.items():
                for sentence in SENTENCES:
                    began = time.perf_counter()
                    for _ in range(given.calls):
                        embed([sentence])
                    times[system].append((time.perf_counter() - began) / given.calls)
                began = time.perf_counter()
                embed(MANY)
                batches[system].append(time.perf_counter() - began)
    found = {name: 1000 * statistics.median(it) for name, it in times.items()}
    many = {name: 1000 * statistics.median(it) for name, it in batches.items()}
    first, *rest = found
    result: dict[str, Any] = {
        "milliseconds": {name: round(value, 3) for name, value in found.items()},
        "milliseconds_of_64": {name: round(value, 1) for name, value in many.items()},
        "times_as_fast": {name: round(found[first] / found[name], 2) for name in rest},
        "cores": 1,
        "rounds": given.rounds,
        "calls": given.calls,
    }
    add(given, given.encoder, result)


if __name__ == "__main__":
    main()
