"""An exporter without a runtime, for tests of what surrounds the exporters."""

import numpy as np

from keras_msd.export import Format

FILES = {"model.bin": b"weights", "assets/words.txt": b"words"}

# Set by a test: what the artefact adds to the encoder's vectors, `(texts) -> array`.
difference = None
loaded = []
_encoders = {}


def write(encoder, path, quantize=None):
    for name, content in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    _encoders["last"] = encoder
    return {
        "libraries": {"plain": "1.0"},
        "operators": {"GATHER": 2, "ADD": 1},
    }


def load(path, threads=None):
    loaded.append((path, threads))
    encoder, wrong = _encoders["last"], difference

    def run(texts):
        vectors = encoder.encode(texts, progress=False)
        return vectors if wrong is None else vectors + wrong(texts).astype(np.float32)

    return run


FORMAT = Format(
    name="plain",
    write=write,
    load=load,
    model_file="model.bin",
    how_to_load="run('FOLDER')\n",
    quantize=("fp16", "int8"),
    warning="Plain words.",
)
