"""The stand-alone script, where neither Keras, TensorFlow nor this package exists."""

import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_msd.export import litert as exporter
from keras_msd.export import loaders_folder
from keras_msd.io.files import write_json
from keras_msd.testing import tiny_encoder

pytest.importorskip("ai_edge_litert")
LINES = ["The cat sleeps on the chair.", "A dog runs.", "The house is very old."]
QUERY = "Die Katze schläft."
# Modules that are None cannot be imported.
ALONE = """
import runpy, sys
from pathlib import Path
for name in ("keras", "keras_msd", "tensorflow"):
    sys.modules[name] = None
script, *arguments = sys.argv[1:]
sys.path.insert(0, str(Path(script).parent))
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
"""


@pytest.fixture(scope="module")
def encoder(tokenizer):
    made = tiny_encoder(tokenizer, bottleneck_dim=4, repeats=2, num_layers=1)
    random = np.random.default_rng(0)
    for weight in made.model.weights:
        weight.assign(weight + random.normal(0, 0.3, weight.shape))
    return made


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    """Return a folder with a model and the part of a card that counts here."""
    folder = tmp_path_factory.mktemp("litert") / "model"
    exporter.write_ids(encoder, folder)
    content = (folder / "model.tflite").read_bytes()
    files = {"model.tflite": {"sha256": hashlib.sha256(content).hexdigest()}}
    write_json(folder / "card.json", {"files": files})
    return folder


def run_alone(artefact, *arguments, sentences=None):
    lines = artefact.parent / "lines.txt"
    lines.write_text("\n".join(LINES) + "\n\n", encoding="utf-8")
    asked = ("--query", QUERY, "--sentences", sentences or lines, *arguments)
    script = loaders_folder() / "load_litert.py"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, script, artefact, *asked],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        timeout=300,
        check=False,
    )


def test_it_finds_what_the_encoder_finds(encoder, artefact):
    vectors = encoder.encode([*LINES, QUERY], normalize=True)
    cosine = vectors[:3] @ vectors[3]
    order = np.argsort(-cosine)
    for path, more in ((artefact, []), (artefact / "model.tflite", ["--threads", "2"])):
        done = run_alone(path, "--top", "2", *more)
        assert done.returncode == 0, done.stderr
        found = [line.split("\t") for line in done.stdout.splitlines()]
        assert [text for _, text in found] == [LINES[row] for row in order[:2]]
        shown = [float(number) for number, _ in found]
        np.testing.assert_allclose(shown, cosine[order[:2]], atol=1e-4)


def damaged(artefact, folder, name, content):
    path = folder / name.replace(" ", "_")
    shutil.copytree(artefact, path)
    (path / "model.tflite").write_bytes(content)
    return path


def test_damage_ends_with_code_2(artefact, tmp_path):
    whole = (artefact / "model.tflite").read_bytes()
    flipped = bytearray(whole)
    flipped[1000] ^= 1
    cases = {
        "empty": (b"", "is damaged or not ours"),
        "foreign": (b"no model at all " * 99, "is damaged or not ours"),
        "short": (whole[:-100], "is damaged or not ours"),
        "one bit": (bytes(flipped), "differs from its checksum"),
    }
    for name, (content, message) in cases.items():
        done = run_alone(damaged(artefact, tmp_path, name, content))
        assert done.returncode == 2 and message in done.stderr, (name, done.stderr)


def test_a_model_that_is_not_the_cards(artefact, tmp_path):
    other = shutil.copytree(artefact, tmp_path / "other")
    card = json.loads((other / "card.json").read_text())
    card["files"]["model.tflite"]["sha256"] = "0" * 64
    write_json(other / "card.json", card)
    done = run_alone(other)
    assert done.returncode == 2 and "differs from its checksum" in done.stderr


def test_threads_share_a_loaded_model(artefact, monkeypatch):
    monkeypatch.syspath_prepend(loaders_folder())
    script = runpy.run_path(str(loaders_folder() / "load_litert.py"))
    encode = script["load"](artefact)
    texts = [" ".join(["The cat sleeps"] * count) for count in range(1, 6)] * 6
    expected = encode(texts)
    with ThreadPoolExecutor(3) as pool:
        for made in pool.map(encode, [texts] * 24):
            np.testing.assert_allclose(made, expected, atol=1e-5)


def test_bad_arguments(artefact, tmp_path):
    (tmp_path / "none.txt").write_text("\n\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    for message, done in (
        ("does not exist", run_alone(tmp_path)),
        (
            "can't decode byte 0xe9",
            run_alone(artefact, sentences=tmp_path / "latin.txt"),
        ),
        ("surrogates not allowed", run_alone(artefact, "--query", "caf\udce9")),
        ("must be at least 1", run_alone(artefact, "--top", "0")),
        ("holds no sentence", run_alone(artefact, sentences=tmp_path / "none.txt")),
        ("nowhere does not exist", run_alone(artefact, sentences=tmp_path / "nowhere")),
    ):
        assert done.returncode == 2 and message in done.stderr
