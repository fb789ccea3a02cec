"""The systems of the inference benchmark, and the files that they load."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from inference_tables import KINDS

WORKER = Path(__file__).with_name("inference_worker.py")
QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TOKENIZERS_PARALLELISM": "false",
}
FORMATS = {  # of ours: folder, format, quantisation
    "litert": ("litert", None),
    "litert_int8": ("litert", "int8"),
    "saved_model": ("saved_model", None),
}
REFERENCE = "sentence-transformers, torch float32"
OURS, THEIRS = "LiteRT int8", "onnxruntime int8"


class System(NamedTuple):
    """A system: the worker's name for it, its files, what it is timed on."""

    worker: str
    path: Path
    python: str
    files: tuple[Path, ...]
    kinds: tuple[str, ...] = ("ids", "text")


def make_files(work: Path, folder: Path, encoder: Any, python: str) -> str:
    """Write all artefacts that are not in `work` yet; return the int8 recipe's name."""
    from keras_msd.export import export

    for name, (format, quantize) in FORMATS.items():
        if not (work / name).exists():
            print(f"exporting {name}", file=sys.stderr)
            export(encoder, work / name, format=format, quantize=quantize)
    recipe = onnx_recipe()
    if not (work / "peer").exists():
        print(f"exporting the peer's ONNX files, recipe {recipe}", file=sys.stderr)
        command = [python, WORKER, "make_onnx", folder, work / "partial", recipe]
        subprocess.run(list(map(str, command)), check=True, env=os.environ | QUIET)
        (work / "partial").rename(work / "peer")
    return recipe


def onnx_recipe() -> str:
    """Return the name of sentence-transformers' int8 recipe for this processor."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "arm64"
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text().split() if cpu.is_file() else []
    known = {"avx512_vnni": "avx512_vnni", "avx512f": "avx512"}
    return next((name for flag, name in known.items() if flag in flags), "avx2")


def systems(work: Path, folder: Path, python: str) -> dict[str, System]:
    """Return every system by its name."""
    own = sys.executable

    def litert(name: str) -> System:
        return System("litert", work / name, own, (work / name / "model.tflite",))

    def peer(worker: str, file: str, kinds: Sequence[str] = tuple(KINDS)) -> System:
        (path,) = (work / "peer" / "onnx").glob(file)
        vocabulary = work / "peer" / "tokenizer.json"
        return System(worker, path, python, (path, vocabulary), tuple(kinds))

    full, small = "model.onnx", "model_q*.onnx"
    torch = (folder / "model.safetensors", folder / "tokenizer.json")
    model = work / "saved_model"
    return {
        "LiteRT float32": litert("litert"),
        OURS: litert("litert_int8"),
        "SavedModel float32": System("saved_model", model, own, (model / "1",)),
        REFERENCE: System("sentence_transformers", folder, python, torch),
        "sentence-transformers, ONNX float32": peer(
            "sentence_transformers", full, ["text"]
        ),
        "sentence-transformers, ONNX int8": peer(
            "sentence_transformers", small, ["text"]
        ),
        "onnxruntime float32": peer("onnxruntime", full),
        THEIRS: peer("onnxruntime", small),
    }


def megabytes(system: System) -> float:
    """Return what the model and its tokenizer take on disk."""
    files = [
        file
        for path in system.files
        for file in (path.rglob("*") if path.is_dir() else [path])
    ]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
