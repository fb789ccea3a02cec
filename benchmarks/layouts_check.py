"""Load exported `huggingface` folders in the libraries they are for.

    python benchmarks/layouts_check.py --data DATA \
        --encoder runs/smoke/student runs/demo/student tiny12 --peer-python PYTHON

200 sentences in 11 languages, from all files of `<data>/parallel/dev`, go through
sentence-transformers (torch, and `backend="onnx"`), fastembed and transformers.js, in
Node and in headless Chromium, and their vectors are compared with Keras'; ids of
`transformers` with our own on 20,000 sentences of `<data>/parallel/train`. An encoder
that is no BERT is exported without weights. PYTHON has `sentence-transformers[onnx]`
and fastembed; Node with npm fetches @huggingface/transformers. Writes
benchmarks/results/layouts.json. Exit code 1: an id differs, or a float vector has a
cosine under 0.9999 with Keras'. Sentences longer than the encoder takes are counted
apart: transformers.js cuts off their end token.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from corpora import sentences
from javascript_check import (
    LANGUAGES,
    OF_A_FILE,
    SENTENCES,
    TRANSFORMERS,
    chromium,
    installed,
    output,
    program,
    transformers_in_chromium,
    write_transformers_app,
)

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.export.huggingface import check_bert
from keras_msd.export.proof import row_cosines
from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "layouts.json"
TEXTS, LEAST_COSINE = 20_000, 0.9999
FLOAT, INT8 = "onnx/model.onnx", "onnx/model_quantized.onnx"

TORCH = """
from sentence_transformers import SentenceTransformer, __version__
model = SentenceTransformer(folder, device="cpu")
vectors = model.encode(texts)
cut = {"truncation": True, "max_length": model.max_seq_length}
ids = model.tokenizer(many, **cut)["input_ids"]
"""
ONNX = """
from sentence_transformers import SentenceTransformer, __version__
named = {"file_name": file, "provider": "CPUExecutionProvider"}
model = SentenceTransformer(folder, backend="onnx", model_kwargs=named, device="cpu")
vectors = model.encode(texts)
"""
FASTEMBED = """
import json, pathlib
from fastembed import TextEmbedding, __version__
from fastembed.common.model_description import ModelSource, PoolingType
settings = json.loads((pathlib.Path(folder) / "config.json").read_text())
TextEmbedding.add_custom_model(
    model="local/encoder", pooling=PoolingType.MEAN, normalization=True,
    sources=ModelSource(hf="local/encoder"), dim=settings["hidden_size"],
    model_file=file,
)
model = TextEmbedding("local/encoder", specific_model_path=folder, cuda=False)
vectors = list(model.embed(texts))
"""
PEER = """
import json, sys
folder, file, place = sys.argv[1:]
texts, many = json.load(open(place + "/texts.json"))
ids = None
{code}
rows = [[float(number) for number in vector] for vector in vectors]
answer = dict(vectors=rows, ids=ids, version=__version__)
json.dump(answer, open(place + "/answer.json", "w"))
"""
CHECK = """
export async function check(library, texts, models, dtype, pooled) {
  const { AutoModel, AutoTokenizer, env, pipeline } = library;
  Object.assign(env, { allowRemoteModels: false, allowLocalModels: true });
  env.localModelPath = models + "/";
  const vectors = [];
  if (pooled) {
    const embed = await pipeline("feature-extraction", "folder", { dtype });
    for (const text of texts) {
      const found = await embed(text, { pooling: "mean", normalize: true });
      vectors.push(Array.from(found.data));
    }
  } else {
    const model = await AutoModel.from_pretrained("folder", { dtype });
    const tokenizer = await AutoTokenizer.from_pretrained("folder");
    for (const text of texts) {
      const { sentence_embedding } = await model(tokenizer(text, { truncation: true }));
      vectors.push(Array.from(sentence_embedding.data));
    }
  }
  return { vectors, ids: null };
}
"""


def main() -> int:
    """Run all, print a table and write the result file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--encoder", nargs="+", required=True, help="their folders")
    parser.add_argument("--peer-python", required=True, help="see above")
    options = parser.parse_args()
    texts = sentences(options.data / "parallel/dev", SENTENCES, LANGUAGES, OF_A_FILE)
    many = sentences(options.data / "parallel/train", TEXTS)
    rows, python = [], options.peer_python
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "texts.json").write_text(json.dumps([texts, many]))
        write_transformers_app(place, CHECK)
        for source in options.encoder:
            folder = place / (Path(source).parent.name or source) / "folder"
            rows += check(load_encoder(source), folder, texts, many, python, place)
        version = installed(place / "web", TRANSFORMERS)
    write_json(
        RESULT,
        {
            "languages": LANGUAGES,
            "sentences": len(texts),
            "sentences_tokenized": len(many),
            "versions": {
                "node": output(program("node"), "--version"),
                "chromium": output(chromium(), "--version"),
                TRANSFORMERS: version,
            },
            "rows": rows,
        },
    )
    return int(any(row["wrong"] for row in rows))


def check(
    encoder: Any,
    folder: Path,
    texts: list[str],
    many: list[str],
    python: str,
    place: Path,
) -> list[dict[str, Any]]:
    """Export an encoder and return a row for each library that loaded it."""
    try:
        check_bert(encoder.config)
        leave_out = []
    except InputError:
        leave_out = ["weights"]
    encoder.export(folder, format="huggingface", leave_out=leave_out, min_neighbours=0)
    config = encoder.config
    pooled = bool(leave_out) or (
        config.pooling == "mean" and config.projection_dim is None
    )
    expected = encoder.encode(texts)
    longest = encoder.max_length
    cut = np.array([len(row) > longest for row in encoder.tokenizer.encode(texts)])
    ours = encoder.tokenizer.encode(many, longest)
    runs = {} if leave_out else {"sentence-transformers": TORCH}
    runs |= {"sentence-transformers, onnx": ONNX}
    runs |= {"fastembed": FASTEMBED} if pooled else {}
    rows = []

    def row(library: str, file: str, answer: dict[str, Any]) -> None:
        cosines = row_cosines(expected, np.array(answer["vectors"], np.float32))
        found = {
            "encoder": folder.parent.name,
            "leave_out": leave_out,
            "library": library,
            "version": answer.get("version"),
            "file": file,
            "min_cosine": round(float(cosines[~cut].min()), 7),
            "cut": int(cut.sum()),
            "min_cosine_cut": round(float(cosines[cut].min(initial=1)), 7),
        }
        if answer["ids"] is not None:
            pairs = zip(ours, answer["ids"], strict=True)
            found["ids_differ"] = sum(one != other for one, other in pairs)
        least = cosines[~cut] if "transformers.js" in library else cosines
        low = file != INT8 and least.min() < LEAST_COSINE
        found["wrong"] = bool(low) or found.get("ids_differ", 0) > 0
        shown = "{encoder:6} {library:28} {file:26} {min_cosine:.7f} {min_cosine_cut}"
        print(shown.format(**found), flush=True)
        rows.append(found)

    for library, code in runs.items():
        files = ("model.safetensors",) if code == TORCH else (FLOAT, INT8)
        for file in files:
            command = [python, "-c", PEER.format(code=code), str(folder), file]
            row(library, file, asked(place, *command, str(place)))
    for dtype, file in (("fp32", FLOAT), ("q8", INT8)):
        given = [dtype, *["pooled"] * pooled]
        node = [program("node"), "run.mjs", str(folder.parent), *given]
        row("transformers.js", file, asked(place, *node, within="web"))
        answer = transformers_in_chromium(place, f"/{folder.parent.name}", *given)
        row("transformers.js, Chromium", file, answer)
    return rows


def asked(place: Path, *command: str, within: str = ".") -> dict[str, Any]:
    """Run a peer, in a folder of the place, and return its answer."""
    quiet = os.environ | {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, cwd=place / within, check=True, env=quiet)
    return json.loads((place / "answer.json").read_text())


if __name__ == "__main__":
    sys.exit(main())
