"""The format `huggingface`: a folder as sentence-transformers and the hub know it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_msd.arrays import pad_batch
from keras_msd.checkpoints.loading import load_checkpoint
from keras_msd.checks import InputError, one_of, require
from keras_msd.export.formats import Run
from keras_msd.export.huggingface.files import (
    check_bert,
    write_settings,
    write_tensors,
)
from keras_msd.export.onnx.files import (
    EXTRA,
    OPSET,
    PURPOSE,
    RUNTIMES,
    open_session,
    save,
)
from keras_msd.export.proof import THRESHOLDS, ExportError, parity, proof_sentences
from keras_msd.export.schemes import SCHEMES
from keras_msd.files import read_table
from keras_msd.tokenizers.base import CONFIG
from keras_msd.tokenizers.checkpoint import read_checkpoint_tokenizer

if TYPE_CHECKING:
    import onnx

FOLDER, QUANTIZED = "onnx", "model_quantized.onnx"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("last_hidden_state", "sentence_embedding")
LEAVE_OUT = ("weights", "int8")
AXES = ["batch_size", "sequence_length"]
ONNX_ONLY = """
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("FOLDER", backend="onnx")
vectors = model.encode(["A sentence."])  # float32 (n, dim)
"""


def write(
    encoder: Any,
    path: Path,
    quantize: str | None = None,
    leave_out: Sequence[str] = (),
    base_model: str | None = None,
    datasets: Sequence[str] = (),
) -> dict[str, Any]:
    """Write an encoder as a folder in sentence-transformers layout.

    Beside settings and tokenizer it holds `model.safetensors`, a BERT whose layers are
    those that a sentence passes through; `onnx/model.onnx`; and its int8 form
    `onnx/model_quantized.onnx`. Inputs of both are `input_ids`, `attention_mask` and
    `token_type_ids` (which changes nothing), int64 `(batch, length)`; outputs
    `last_hidden_state`, float32 `(batch, length, width)`, and `sentence_embedding`,
    float32 `(batch, dim)`, with pooling, projection and normalisation.

    Where `weights` are left out, the architecture may be any: `last_hidden_state` then
    has the sentence's vector in the place of each token, so that whoever pools by the
    mean gets it.

    Args:
        encoder: The encoder to write.
        path: A folder.
        quantize: None: the folder has float32 and int8 at once.
        leave_out: "weights" for no `model.safetensors`, "int8" for no
            `onnx/model_quantized.onnx`.
        base_model: Name of the teacher on the hub, for the README's header.
        datasets: Names of training data on the hub, for the same.

    Returns:
        Facts for the card.

    Raises:
        InputError: An option is unknown, the encoder is no BERT and its weights are not
            left out, no tokenizer.json gives the tokenizer's ids, or a package is not
            installed.
        ExportError: What was written differs too much from the encoder.
    """
    if isinstance(leave_out, str) or isinstance(datasets, str):
        raise InputError(
            "`leave_out` and `datasets` must be lists. Received: "
            f"{leave_out!r:.60}, {datasets!r:.60}. Put the name in a list."
        )
    for part in leave_out:
        one_of(LEAVE_OUT, leave_out=part)
    tokens = "weights" not in leave_out
    if tokens:
        check_bert(encoder.config)
    libraries = {
        name: require(name, EXTRA, PURPOSE).__version__
        for name in ("onnx", "onnxruntime")
    }
    from keras_msd.export.huggingface.tokenizer import check_ids, write_tokenizer

    path.mkdir(parents=True, exist_ok=True)
    write_settings(encoder.config, path, tokens)
    write_tokenizer(encoder.tokenizer, path, encoder.max_length)
    facts: dict[str, Any] = {
        "tokenizer_check": check_ids(encoder.tokenizer, path),
        "libraries": libraries,
        "opset": OPSET,
        "min_onnxruntime": RUNTIMES[OPSET],
        "base_model": base_model,
        "datasets": list(datasets),
    }
    save(_model(encoder, None, tokens), path / FOLDER)
    if tokens:
        write_tensors(encoder, path)
        again = load_checkpoint(path)
        facts["weights_parity"] = _proven(
            encoder, again.encode, None, "model.safetensors"
        )
    else:
        facts["how_to_load"] = ONNX_ONLY
    if "int8" not in leave_out:
        save(_model(encoder, "int8", tokens), path / FOLDER, QUANTIZED)
        run = _runner(path, name=QUANTIZED)
        facts["int8_parity"] = _proven(encoder, run, "int8", f"{FOLDER}/{QUANTIZED}")
    return facts


def load(path: str | Path, threads: int | None = None) -> Run:
    """Load `onnx/model.onnx` as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder that `write` wrote.
        threads: How many threads onnxruntime may use; by default its own choice.

    Raises:
        InputError: A file is missing, damaged or another one, or onnxruntime is not
            installed.
    """
    return _runner(path, threads=threads)


def _runner(path: str | Path, **session_options: Any) -> Run:
    folder = Path(path)
    session = open_session(folder / FOLDER, INPUTS, outputs=OUTPUTS, **session_options)
    tokenizer = read_checkpoint_tokenizer(folder)
    longest = read_table(folder / CONFIG).get("model_max_length")

    def run(texts: list[str]) -> np.ndarray:
        rows = tokenizer.encode(texts, longest)
        batch = pad_batch(rows, tokenizer.pad_id, longest, multiple=1)
        ids, mask = (batch[name].astype(np.int64) for name in batch)
        feeds = dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))
        return session.run([OUTPUTS[1]], feeds)[0]

    return run


def _model(encoder: Any, quantize: str | None, tokens: bool) -> "onnx.ModelProto":
    from keras_msd.export.onnx.graph import FLOAT, INT64, Graph
    from keras_msd.export.onnx.network import append_network

    config, graph = encoder.config, Graph()
    hidden, vector = append_network(graph, encoder, SCHEMES[quantize], *INPUTS[:2])
    if not tokens:
        length = graph.node("Shape", INPUTS[0], start=1, end=2)
        one = graph.numbers(1)
        shape = graph.node("Concat", one, length, one, axis=0)
        hidden = graph.node("Expand", graph.node("Unsqueeze", vector, one), shape)
    width = config.hidden_dim if tokens else encoder.dim
    return graph.model(
        dict.fromkeys(INPUTS, (INT64, AXES)),
        {
            OUTPUTS[0]: (hidden, FLOAT, [*AXES, width]),
            OUTPUTS[1]: (vector, FLOAT, [AXES[0], encoder.dim]),
        },
    )


def _proven(encoder: Any, run: Run, quantize: str | None, file: str) -> dict[str, Any]:
    """Compare the vectors of a part that the artefact's own proof does not see.

    Raises:
        ExportError: A cosine is smaller than it may be.
    """
    texts = list(dict.fromkeys(proof_sentences()))
    found = parity(texts, encoder.encode(texts, progress=False), run(texts))
    least = THRESHOLDS[quantize].min_cosine
    if found["min_cosine"] < least:
        part = "weights" if quantize is None else quantize
        raise ExportError(
            f"`{file}` must agree with the encoder to cosine {least}. Received: "
            f"{found['min_cosine']:.6f} for {found['worst']!r:.60}. Nothing was kept. "
            f"Leave it out with leave_out=[{part!r}] (--leave-out {part})."
        )
    return found
