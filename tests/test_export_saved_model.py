import json
import os
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_msd.checks import InputError
from keras_msd.export import (
    ExportError,
    export,
    load_artefact,
    presets_folder,
    read_card,
    read_preset,
    saved_model,
)
from keras_msd.testing import tiny_encoder

TEXTS = [
    "Die Katze schläft.",
    "",
    "A dog runs in the park. " * 30,
    "القطار 🍀 [SEP] </s>",
    "ok",
]


@pytest.fixture(scope="module")
def encoder(tokenizer):
    keras.utils.set_random_seed(3)
    made = tiny_encoder(tokenizer, bottleneck_dim=4, repeats=3, num_layers=1)
    # Initial values are so small that vectors of all sentences would be alike.
    random = np.random.default_rng(0)
    for weight in made.model.weights:
        gain = weight.path.endswith("gamma")
        weight.assign(gain + random.normal(0, 0.1 if gain else 0.3, weight.shape))
    return made


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    return export(
        encoder, tmp_path_factory.mktemp("out") / "art", languages=["de", "en"]
    )


def test_the_artefact_gives_the_encoders_vectors(encoder, artefact):
    loaded, expected = load_artefact(artefact), encoder.encode(TEXTS)
    assert loaded.dim == encoder.dim == 16
    for batch_size in (1, 2, 64):
        vectors = loaded.encode(TEXTS, batch_size=batch_size)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert np.linalg.norm(expected[0] - expected[4]) > 0.1  # they could differ
    assert loaded.encode([]).shape == (0, 16)
    with pytest.raises(InputError, match="must be a list of sentences"):
        loaded.encode("one text")


def test_ids_are_a_second_way_in(encoder, artefact):
    ids = encoder.tokenizer.encode(TEXTS[:1] + TEXTS[3:4], encoder.max_length)
    width = max(map(len, ids)) + 3  # more padding than is needed
    token_ids = np.full((2, width), encoder.tokenizer.pad_id, np.int32)
    mask = np.zeros((2, width), np.int32)
    for row, one in enumerate(ids):
        token_ids[row, : len(one)], mask[row, : len(one)] = one, 1
    run = tf.saved_model.load(str(artefact)).signatures["token_ids"]
    found = run(token_ids=tf.constant(token_ids), padding_mask=tf.constant(mask))
    assert list(found) == ["embedding"]
    np.testing.assert_allclose(
        found["embedding"], encoder.encode([TEXTS[0], TEXTS[3]]), atol=1e-6
    )


def test_each_weight_is_stored_once(encoder, artefact):
    stored = tf.train.list_variables(str(artefact / "variables" / "variables"))
    sizes = [
        int(np.prod(shape)) for name, shape in stored if "OBJECT_GRAPH" not in name
    ]
    assert sum(sizes) == encoder.num_parameters  # shared by three passes, stored once
    assert read_card(artefact)["variable_bytes"] == 4 * encoder.num_parameters


def test_twice_the_weights_is_an_error(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model, "cost", lambda _: {"bytes": 100})
    with pytest.raises(ExportError, match=r"at most 1\.05 x 100 bytes"):
        export(encoder, tmp_path / "art")
    assert list(tmp_path.iterdir()) == []


def test_card(encoder, artefact):
    card = read_card(artefact)
    assert card["languages"] == ["de", "en"] and card["dim"] == 16
    assert card["max_length"] == encoder.max_length
    assert card["encoder"]["parameters"] == encoder.num_parameters
    assert card["encoder"]["fingerprint"] == encoder.fingerprint
    assert card["parity"]["min_cosine"] > 0.999999
    names = {p.relative_to(artefact).as_posix() for p in artefact.rglob("*.*")}
    assert set(card["files"]) == names - {"card.json"}
    assert card["bytes"] == sum((artefact / n).stat().st_size for n in card["files"])
    scope = {}
    code = card["how_to_load"].replace("FOLDER", str(artefact))
    exec(code, scope)
    np.testing.assert_allclose(
        scope["vectors"], encoder.encode(["A sentence."]), atol=1e-6
    )


def test_damage_is_noticed(artefact, tmp_path):
    copy = tmp_path / "art"
    shutil.copytree(artefact, copy)
    fingerprint = load_artefact(copy).fingerprint
    assert fingerprint == load_artefact(artefact).fingerprint
    data = copy / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    with pytest.raises(
        InputError, match=r"data-00000-of-00001` differs from its check"
    ):
        load_artefact(copy)
    data.unlink()
    with pytest.raises(InputError, match="lacks the file `variables/"):
        load_artefact(copy)
    card = json.loads((copy / "card.json").read_text())
    card["files"] = {"../../etc/passwd": {}}
    (copy / "card.json").write_text(json.dumps(card))
    with pytest.raises(InputError, match="lacks the file `../../etc/passwd`"):
        load_artefact(copy)
    (copy / "card.json").write_text(
        json.dumps(card | {"files": {}, "format": "pickle"})
    )
    with pytest.raises(InputError, match="`format` must be one of 'saved_model'"):
        load_artefact(copy)
    (copy / "card.json").write_text("{}")
    with pytest.raises(InputError, match="must have the keys card_version"):
        load_artefact(copy)


def test_an_artefact_that_differs_is_not_kept(encoder, artefact, tmp_path, monkeypatch):
    shutil.copytree(artefact, tmp_path / "art")
    before = (tmp_path / "art" / "card.json").read_bytes()
    real = saved_model.load

    def noisy(path):
        run = real(path)
        return lambda texts: run(texts) + np.float32(0.1) * np.eye(len(texts), 16)

    monkeypatch.setattr(saved_model, "load", noisy)
    with pytest.raises(ExportError, match="must agree .* to cosine 0.9999"):
        export(encoder, tmp_path / "art")
    assert (tmp_path / "art" / "card.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["art"]
    export(encoder, tmp_path / "art", min_cosine=0.9)  # replaces the earlier one
    assert read_card(tmp_path / "art")["parity"]["min_cosine"] < 0.9999


def test_bad_requests(encoder, tmp_path, monkeypatch):
    with pytest.raises(
        InputError, match="must be one of 'saved_model'. Received: .*pb"
    ):
        export(encoder, tmp_path / "a", format="frozen_pb")
    with pytest.raises(InputError, match="Received: quantize='int8'"):
        export(encoder, tmp_path / "a", quantize="int8")
    with pytest.raises(InputError, match="`sentences` must hold at least one"):
        export(encoder, tmp_path / "a", sentences=[])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("keep me")
    for taken in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InputError, match="exists and is no artefact"):
            export(encoder, taken)
    with pytest.raises(InputError, match=r"card\.json` does not exist"):
        load_artefact(tmp_path)
    with pytest.raises(InputError, match="not a SavedModel"):
        saved_model.load(tmp_path)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(InputError, match="KERAS_BACKEND=tensorflow"):
        export(encoder, tmp_path / "a")


def run_alone(script, *arguments):
    """Run a script where Keras and this package cannot be imported."""
    code = (
        "import runpy, sys\n"
        "sys.modules['keras'] = sys.modules['keras_msd'] = None\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        timeout=120,
    )


def test_the_script_answers_where_keras_cannot_be_imported(encoder, artefact, tmp_path):
    lines = ["The cat sleeps on the chair.", "A dog runs.", "The house is very old."]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    script = presets_folder() / "load_saved_model.py"
    asked = ("--query", "Die Katze schläft.", "--sentences", tmp_path / "lines.txt")
    done = run_alone(script, artefact, *asked, "--top", 2)
    assert done.returncode == 0, done.stderr
    vectors = encoder.encode([*lines, "Die Katze schläft."], normalize=True)
    cosine = vectors[:3] @ vectors[3]
    expected = [f"{cosine[row]:.4f}\t{lines[row]}" for row in np.argsort(-cosine)[:2]]
    assert done.stdout.splitlines() == expected
    for wrong, message in (
        ((tmp_path, *asked), "holds no SavedModel"),
        ((artefact, *asked[:3], tmp_path / "no.txt"), "no.txt does not exist"),
    ):
        done = run_alone(script, *wrong)
        assert done.returncode == 2 and message in done.stderr


def test_settings_files(encoder, artefact, tmp_path):
    preset = read_preset("saved_model")
    assert preset.pop("description")
    assert preset == {"format": "saved_model", "min_cosine": 0.9999}
    own = tmp_path / "own.toml"
    own.write_text('format = "saved_model"\nmin_cosine = "high"\n')
    with pytest.raises(InputError, match="`min_cosine` in .* must be a float"):
        read_preset(own)
    own.write_text('format = "saved_model"\nquantise = "int8"\n')
    with pytest.raises(InputError, match="Unknown key `quantise`.*mean `quantize`"):
        read_preset(own)
    own.write_text("quantize = \n")
    with pytest.raises(InputError, match=r"own\.toml` is not valid TOML"):
        read_preset(own)
    own.write_text("")
    with pytest.raises(InputError, match="Key `format` is missing"):
        read_preset(own)
    with pytest.raises(InputError, match="no export settings `saved_modle`. Did you"):
        read_preset("saved_modle")
