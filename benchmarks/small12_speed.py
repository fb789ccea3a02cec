"""How fast is small12 in each runtime, and the same shape in 8 bits in onnxruntime?

paraphrase-multilingual-MiniLM-L12-v2 is not at hand. multilingual-e5-small has its
shape (12 layers of 384, 250,037 tokens) and so its speed: it is exported to ONNX,
quantised with onnxruntime's `quantize_dynamic`, and the `tokenizers` library reads its
text. All get one sentence, and 64 at a time, on one core and in turns; a time is the
median over all rounds.

    python benchmarks/small12_speed.py --json

It needs the packages of requirements-backbones.txt and of the extras litert, mediapipe,
onnx and gguf; `--only` leaves systems out.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).parent / "results" / "small12_speed.json"
SENTENCES = [
    "The children are playing football in the park behind the old school.",
    "Der Zug nach Zwolle fährt in zehn Minuten ab.",
    "この電車は正午に駅に着きます。",
]


Embed = Callable[[list[str]], Any]
MANY = [SENTENCES[row % 3] + " " * (row // 3) for row in range(64)]


def peer(folder: Path) -> Embed:
    """Return multilingual-e5-small in onnxruntime, int8: texts to vectors."""
    import onnxruntime
    from onnxruntime.quantization import quantize_dynamic
    from tokenizers import Tokenizer

    from keras_msd import load_encoder
    from keras_msd.checkpoints.packaged import backbone_files

    load_encoder("e5-small").export(folder / "exact", format="onnx")
    # Its version of Attention does not take all attributes of ours: it stays exact.
    quantize_dynamic(
        folder / "exact" / "model.onnx",
        folder / "model.onnx",
        op_types_to_quantize=["MatMul", "Gather"],
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options)
    tokenizer = Tokenizer.from_file(str(backbone_files("e5-small")[1]))
    tokenizer.enable_padding(pad_id=1)

    def embed(texts: list[str]) -> Any:
        rows = tokenizer.encode_batch(texts)
        feeds = {"token_ids": np.array([row.ids for row in rows], np.int32)}
        masks = [row.attention_mask for row in rows]
        feeds["padding_mask"] = np.array(masks, np.int32)
        return session.run(None, feeds)[0]

    return embed


def ours(folder: Path, format_: str, quantize: str) -> Embed:
    """Return small12 as an artefact in 4 bits: texts to vectors."""
    from keras_msd import load_encoder

    load_encoder("small12").export(folder, format=format_, quantize=quantize)
    return partial(load_encoder(folder).encode, progress=False)


def tensorflow(folder: Path) -> Embed:
    """Return small12 as keras-msd loads it, float32."""
    from keras_msd import load_encoder

    return partial(load_encoder("small12").encode, progress=False)


def package(folder: Path) -> Embed:
    """Return small12's own package, without keras-msd."""
    from keras_msd_small12 import load

    return load().encode


SYSTEMS: dict[str, Callable[[Path], Embed]] = {
    "peer": peer,
    "tensorflow": tensorflow,
    "package": package,
    "litert": partial(ours, format_="litert", quantize="int4"),
    "litert_text": partial(ours, format_="litert_text", quantize="int4"),
    "onnx": partial(ours, format_="onnx", quantize="int4"),
    "onnx_text": partial(ours, format_="onnx_text", quantize="int4"),
    "gguf": partial(ours, format_="gguf", quantize="q4_0"),
}


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=10, help="a round and sentence")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="print the result, too")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        systems = {}
        for system in given.only:
            folder = Path(name) / system
            folder.mkdir()
            systems[system] = SYSTEMS[system](folder)
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
    result = {
        "milliseconds": {name: round(value, 3) for name, value in found.items()},
        "milliseconds_of_64": {name: round(value, 1) for name, value in many.items()},
        "times_as_fast": {name: round(found[first] / found[name], 2) for name in rest},
        "cores": 1,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for system, value in result["milliseconds"].items():
        print(f"{system:12}{value:8.2f} ms, 64 sentences {many[system]:8.1f} ms")
    if given.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
