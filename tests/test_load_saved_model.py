"""The stand-alone script, without Keras and this package, and with damaged files."""

import json
import os
import runpy
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_msd.export import export, load_artefact, loaders_folder
from keras_msd.testing import tiny_encoder

SCRIPT = loaders_folder() / "load_saved_model.py"
LINES = ["The cat sleeps on the chair.", "A dog runs.", "The house is very old."]
QUERY = "Die Katze schläft."
# Random weights have no meaning to lose.
LENIENT = {
    "min_cosine": 0.8,
    "max_sts_loss": 100,
    "sts": [(1, "a", "b"), (0, "c", "d")],
    "sentences": LINES,
}
# Each folder that is given is loaded and its vectors are stored there; then the script
# runs as a program.
ALONE = """
import runpy, sys
sys.modules["keras"] = sys.modules["keras_msd"] = None
import numpy as np
script, *folders = sys.argv[1 : sys.argv.index("--")]
load = runpy.run_path(script)["load"]
from pathlib import Path
for folder in folders:
    np.save(Path(folder) / "found.npy", load(Path(folder))(["", "ok", "a b " * 99]))
sys.argv = [script, *sys.argv[sys.argv.index("--") + 1 :]]
runpy.run_path(script, run_name="__main__")
"""


@pytest.fixture(scope="module")
def encoder(tokenizer):
    keras.utils.set_random_seed(3)
    made = tiny_encoder(tokenizer, bottleneck_dim=4, repeats=2, num_layers=1)
    random = np.random.default_rng(0)
    for weight in made.model.weights:
        weight.assign(weight + random.normal(0, 0.3, weight.shape))
    return made


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    return export(encoder, tmp_path_factory.mktemp("a") / "full", **LENIENT)


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n\n", encoding="utf-8")
    return path


def run_alone(*arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_keras_is_not_needed(encoder, artefact, sentences, tmp_path):
    small = export(encoder, tmp_path / "small", quantize="int4", **LENIENT)
    asked = (artefact, "--query", QUERY, "--sentences", sentences, "--top", 2)
    done = run_alone(artefact, small, "--", *asked)
    assert done.returncode == 0, done.stderr
    for folder, made in ((artefact, encoder), (small, load_artefact(small))):
        expected = made.encode(["", "ok", "a b " * 99], normalize=True)
        found = np.load(folder / "found.npy")
        np.testing.assert_allclose(found, expected, atol=1e-6)
    vectors = encoder.encode([*LINES, QUERY], normalize=True)
    cosine = vectors[:3] @ vectors[3]
    expected = [f"{cosine[row]:.4f}\t{LINES[row]}" for row in np.argsort(-cosine)[:2]]
    assert done.stdout.splitlines() == expected


@pytest.fixture
def fails(monkeypatch, capsys):
    """Return a function that runs the script and checks its message and exit code."""

    def check(message, *arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        printed = capsys.readouterr()
        assert left.value.code == 2 and printed.out == ""
        assert printed.err.count("error:") == 1 and message in printed.err

    return check


def test_wrong_arguments(fails, artefact, sentences, tmp_path):
    asked = ("--query", QUERY, "--sentences", sentences)
    fails("no.txt does not exist", artefact, *asked[:3], tmp_path / "no.txt")
    fails("must be at least 1", artefact, *asked, "--top", 0)
    fails("must be at least 1", artefact, *asked, "--threads", 0)
    # This process has begun: the number reaches TensorFlow, which is too late.
    fails("parallelism cannot be modified", artefact, *asked, "--threads", 2)
    fails("surrogates not allowed", artefact, "--query", "caf\udce9", *asked[2:])
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    fails("can't decode byte 0xe9", artefact, *asked[:3], tmp_path / "latin.txt")
    (tmp_path / "empty.txt").write_text("\n \n")
    fails("holds no sentence", artefact, *asked[:3], tmp_path / "empty.txt")
    fails("holds no artefact (no card.json)", tmp_path, *asked)
    fails("holds no artefact (no card.json)", tmp_path / "nothing", *asked)
    fails("holds no artefact (no card.json)", artefact / "1", *asked)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("card.json", lambda data: b"", "card.json is damaged"),
        ("card.json", lambda data: data[:99], "card.json is damaged"),
        ("card.json", lambda data: b"[1]", "card.json is damaged"),
        ("card.json", lambda data: b'{"format": "saved_model"}', "is damaged"),
        ("card.json", lambda data: b"\xff\xfe", "card.json is damaged"),
        ("1/saved_model.pb", lambda data: b"", "saved_model.pb differs"),
        ("1/saved_model.pb", lambda data: data[:-1], "saved_model.pb differs"),
        ("1/variables/variables.index", lambda data: data + b"x", "index differs"),
        ("1/saved_model.pb", None, "lacks 1/saved_model.pb"),
    ],
)
def test_damage(fails, artefact, sentences, tmp_path, name, change, message):
    folder = tmp_path / "copy"
    shutil.copytree(artefact, folder)
    data = (folder / name).read_bytes()
    (folder / name).unlink()
    if change:
        (folder / name).write_bytes(change(data))
    fails(message, folder, "--query", QUERY, "--sentences", sentences)


def test_other_formats_and_models_that_do_not_load(
    fails, artefact, sentences, tmp_path
):
    folder, asked = tmp_path / "copy", ("--query", QUERY, "--sentences", sentences)
    shutil.copytree(artefact, folder)
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    other = card | {"format": "litert"}
    (folder / "card.json").write_text(json.dumps(other))
    fails("holds no SavedModel but the format 'litert'", folder, *asked)
    # A card that was made for a broken model: the checksums are right.
    (folder / "1" / "saved_model.pb").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    card["files"]["1/saved_model.pb"]["sha256"] = empty
    (folder / "card.json").write_text(json.dumps(card))
    fails("does not load: ", folder, *asked)
