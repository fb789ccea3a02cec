"""One system of the inference benchmark, in a process of its own.

It reads a JSON object a line and answers each with one. It needs the packages of its
system and NumPy, and nothing of keras_msd, so that peers may live in an environment of
their own and each system's memory is its own:

    python benchmarks/inference_worker.py SYSTEM PATH THREADS
"""

import importlib.util
import json
import os
import resource
import statistics
import sys
import time
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from workers import serve

PORTABLE = Path(__file__).parents[1] / "export" / "portable_tokenizer.py"
MEMORY_FIELD = "VmHWM"  # in /proc/self/status: the most that was ever resident


class Encoder:
    """An encoder or an artefact of ours, from Python."""

    packages = ("tensorflow", "keras", "keras-hub", "ai-edge-litert", "numpy")

    def __init__(self, path: Path, threads: int) -> None:
        from keras_msd import load_encoder

        self.encoder = load_encoder(path)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector a text, of any number of texts."""
        return self.encoder.encode(texts)


class LiteRT:
    """A token-id .tflite and the stand-alone tokenizer described in it."""

    packages = ("ai-edge-litert", "numpy")

    def __init__(self, path: Path, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        spec = importlib.util.spec_from_file_location("portable_tokenizer", PORTABLE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        model = path / "model.tflite"
        with zipfile.ZipFile(model) as archive:
            self.tokenizer = module.PortableTokenizer(archive.read("tokenizer.json"))
        self.interpreter = Interpreter(str(model), num_threads=threads)
        inputs = {
            one["name"]: one["index"] for one in self.interpreter.get_input_details()
        }
        self.ids, self.mask = (
            next(index for name, index in inputs.items() if part in name)
            for part in ("token_ids", "padding_mask")
        )
        self.output = self.interpreter.get_output_details()[0]["index"]
        self.length = 0

    def from_ids(self, rows: np.ndarray) -> np.ndarray:
        """Return one vector a row; the model takes one sentence a call."""
        if rows.shape[1] != self.length:
            self.length = rows.shape[1]
            for index in (self.ids, self.mask):
                self.interpreter.resize_tensor_input(index, [1, self.length])
            self.interpreter.allocate_tensors()
        vectors = []
        for row in rows.astype(np.int32):
            self.interpreter.set_tensor(self.ids, row[None])
            self.interpreter.set_tensor(self.mask, np.ones_like(row)[None])
            self.interpreter.invoke()
            vectors.append(self.interpreter.get_tensor(self.output)[0])
        return np.stack(vectors)

    def from_text(self, texts: list[str]) -> np.ndarray:
        """Return one vector a text."""
        return self.from_ids(np.array(self.tokenizer.encode(texts)))


class SavedModel:
    """A SavedModel with its tokenizer inside."""

    packages = ("tensorflow", "tensorflow-text")

    def __init__(self, path: Path, threads: int) -> None:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers the tokenizer's operations

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self.tf, self.model = tf, tf.saved_model.load(str(path / "1"))

    def from_ids(self, rows: np.ndarray) -> np.ndarray:
        """Return one vector a row."""
        ids = self.tf.constant(rows, self.tf.int32)
        run = self.model.signatures["token_ids"]
        made = run(token_ids=ids, padding_mask=self.tf.ones_like(ids))
        return made["embedding"].numpy()

    def from_text(self, texts: list[str]) -> np.ndarray:
        """Return one vector a text."""
        run = self.model.signatures["serving_default"]
        return run(text=self.tf.constant(texts))["embedding"].numpy()


class SentenceTransformers:
    """`SentenceTransformer(...).encode`, as its documentation calls it."""

    packages = ("sentence-transformers", "transformers", "torch", "numpy")

    def __init__(self, path: Path, threads: int) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(threads)
        options: dict[str, Any] = {}
        if path.suffix == ".onnx":
            import onnxruntime

            self.packages += ("optimum", "optimum-onnx", "onnxruntime")
            session = onnxruntime.SessionOptions()
            session.intra_op_num_threads = threads
            options["backend"] = "onnx"
            options["model_kwargs"] = {
                "file_name": f"{path.parent.name}/{path.name}",
                "provider": "CPUExecutionProvider",
                "session_options": session,
            }
            path = path.parents[1]
        self.torch = torch
        self.model = SentenceTransformer(str(path), device="cpu", **options)

    def from_ids(self, rows: np.ndarray) -> np.ndarray:
        """Return one vector a row: all modules of the model, without `encode`."""
        ids = self.torch.from_numpy(rows)
        ones = self.torch.ones_like(ids)
        zeros = self.torch.zeros_like(ids)
        inputs = {"input_ids": ids, "attention_mask": ones, "token_type_ids": zeros}
        with self.torch.inference_mode():
            return self.model(inputs)["sentence_embedding"].numpy()

    def from_text(self, texts: list[str]) -> np.ndarray:
        """Return one vector a text."""
        return self.model.encode(texts, batch_size=len(texts), show_progress_bar=False)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector a text, of any number of texts."""
        return self.model.encode(texts, show_progress_bar=False)


class ONNXRuntime:
    """The peers' ONNX file alone: `tokenizers`, a session, pooling in NumPy."""

    packages = ("onnxruntime", "tokenizers", "numpy")

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime
        import tokenizers

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(str(path), options, providers)
        self.names = {one.name for one in self.session.get_inputs()}
        definition = str(path.parents[1] / "tokenizer.json")
        self.tokenizer = tokenizers.Tokenizer.from_file(definition)
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def from_ids(self, rows: np.ndarray) -> np.ndarray:
        """Return one vector a row: the mean of its tokens, at length one."""
        inputs = {
            "input_ids": rows,
            "attention_mask": np.ones_like(rows),
            "token_type_ids": np.zeros_like(rows),
        }
        given = {name: inputs[name] for name in self.names}
        means = self.session.run(None, given)[0].mean(axis=1)
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def from_text(self, texts: list[str]) -> np.ndarray:
        """Return one vector a text."""
        rows = self.tokenizer.encode_batch(texts)
        return self.from_ids(np.array([row.ids for row in rows], np.int64))


SYSTEMS = {
    "encoder": Encoder,
    "litert": LiteRT,
    "saved_model": SavedModel,
    "sentence_transformers": SentenceTransformers,
    "onnxruntime": ONNXRuntime,
}


def peak_memory() -> float:
    """Return the most MiB of memory that this process has had resident."""
    status = Path("/proc/self/status")
    if status.is_file():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields[MEMORY_FIELD].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS: bytes


def milliseconds(run: Callable[[], Any], seconds: float) -> float:
    """Return the median time of a call, over as many as fit, one at least."""
    spent: list[float] = []
    while not spent or sum(spent) < seconds:
        began = time.perf_counter()
        run()
        spent.append(time.perf_counter() - began)
    return 1000 * statistics.median(spent)


def answer(system: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Do one job: `time`, `vectors`, `memory`, or `encode` from file to file."""
    if job["do"] == "memory":
        return {"peak": peak_memory()}
    if job["do"] == "encode":
        texts = json.loads(Path(job["texts"]).read_text(encoding="utf-8"))
        began = time.perf_counter()
        vectors = system.encode(texts)
        seconds = time.perf_counter() - began
        np.save(job["vectors"], vectors)
        return {"seconds": seconds}
    ids = np.array(job["ids"], np.int64)
    kinds = {
        "ids": lambda: system.from_ids(ids),
        "text": lambda: system.from_text(job["texts"]),
    }
    if job["do"] == "vectors":
        return {kind: run().tolist() for kind, run in kinds.items()}
    return {"ms": milliseconds(kinds[job["kind"]], job["seconds"])}


def make_onnx(folder: str, out: str, scheme: str) -> None:
    """Write a model's ONNX file and its int8 one as sentence-transformers does both."""
    from sentence_transformers import (
        SentenceTransformer,
        export_dynamic_quantized_onnx_model,
    )

    options = {"provider": "CPUExecutionProvider", "export": True}
    model = SentenceTransformer(folder, backend="onnx", model_kwargs=options)
    model.save_pretrained(out)
    export_dynamic_quantized_onnx_model(model, scheme, out)


def main() -> None:
    """Answer the jobs of standard input."""
    name, path, last = sys.argv[1:4]
    if name == "make_onnx":
        make_onnx(path, last, sys.argv[4])
        return

    def start() -> tuple[dict[str, Any], Callable[..., Any]]:
        threads = int(last)
        if hasattr(os, "sched_setaffinity"):  # not on macOS
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
        system = SYSTEMS[name](Path(path), threads)
        packages = {package: version(package) for package in system.packages}
        return {"packages": packages}, lambda job: answer(system, job)

    serve(start)


if __name__ == "__main__":
    main()
