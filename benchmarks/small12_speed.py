"""How fast is small12 beside what people use: the same shape in 8 bits in onnxruntime?

paraphrase-multilingual-MiniLM-L12-v2 is not at hand. multilingual-e5-small has its
shape (12 layers of 384, 250,037 tokens) and so its speed: it is exported to ONNX,
quantised with onnxruntime's `quantize_dynamic`, and the `tokenizers` library reads its
text. Both get one sentence at a time on one core, in turns; a time is the median over
all rounds.

    python benchmarks/small12_speed.py --json

It needs the packages of requirements-backbones.txt, onnxruntime and tokenizers.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).parent / "results" / "small12_speed.json"
SENTENCES = [
    "The children are playing football in the park behind the old school.",
    "Der Zug nach Zwolle fährt in zehn Minuten ab.",
    "この電車は正午に駅に着きます。",
]


def peer(folder: Path) -> Callable[[str], Any]:
    """Return multilingual-e5-small in onnxruntime, int8: text to vector."""
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
    names = [it.name for it in session.get_inputs()]

    def embed(text: str) -> Any:
        found = tokenizer.encode(text)
        values = {"token_ids": found.ids, "padding_mask": found.attention_mask}
        feeds = {name: np.array([values[name]], np.int32) for name in names}
        return session.run(None, feeds)[0]

    return embed


def ours(folder: Path, format_: str) -> Callable[[str], Any]:
    """Return small12 as an artefact in 4 bits: text to vector."""
    from keras_msd import load_encoder

    load_encoder("small12").export(folder, format=format_, quantize="int4")
    artefact = load_encoder(folder)
    return lambda text: artefact.encode([text])


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=10, help="a round and sentence")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="print the result, too")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        systems = {
            "onnxruntime, int8, the same shape": peer(folder),
            "small12, litert_text int4": ours(folder / "litert", "litert_text"),
            "small12, onnx_text int4": ours(folder / "onnx", "onnx_text"),
        }
        times: dict[str, list[float]] = {system: [] for system in systems}
        for _ in range(given.rounds):
            for system, embed in systems.items():
                for sentence in SENTENCES:
                    began = time.perf_counter()
                    for _ in range(given.calls):
                        embed(sentence)
                    times[system].append((time.perf_counter() - began) / given.calls)
    found = {name: 1000 * statistics.median(it) for name, it in times.items()}
    first, *rest = found
    result = {
        "milliseconds": {name: round(value, 3) for name, value in found.items()},
        "times_as_fast": {name: round(found[first] / found[name], 2) for name in rest},
        "cores": 1,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for system, value in result["milliseconds"].items():
        print(f"{system:40}{value:8.2f} ms")
    if given.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
