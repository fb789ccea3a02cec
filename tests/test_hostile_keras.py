"""What files did to programs that loaded them with Keras, 2024 to 2026, tried on ours.

Each class of published hole has a file here; each is refused by name, and nothing of it
runs, is opened or is written.
"""

import functools
import json
import pickle
import shutil
import struct
from pathlib import Path

import keras
import numpy as np
import pytest
from hostile import BERT, refused, small
from safetensors.numpy import load_file, save_file

import keras_msd as msd
from keras_msd.io.files import add_seal, write_json
from keras_msd.load import load_teacher
from keras_msd.models.encoder import load_saved
from keras_msd.recipes import load_recipe

pytestmark = pytest.mark.usefixtures("no_graphs")


def layer(module, name, /, **config):
    """Return a layer as Keras writes it, of whatever module."""
    kinds = {"module": module, "class_name": name, "registered_name": name}
    return kinds | {"config": config}


LAYERS = {
    "CVE-2024-3660": layer("keras.layers", "Lambda", function=["4wEAAAA="]),
    "CVE-2025-1550": layer("subprocess", "Popen", args=["touch", "ran"]),
    "CVE-2025-8747": layer("keras.utils", "get_file", origin="http://127.0.0.1:9/x"),
    "CVE-2025-9906": layer("keras.config", "enable_unsafe_deserialization"),
    "CVE-2025-12058": layer("keras.layers", "StringLookup", vocabulary="secret"),
    "CVE-2025-49655": layer("keras.layers", "TorchModuleWrapper", module="gASVJQ=="),
    "CVE-2026-1462": layer("keras.layers", "TFSMLayer", filepath="model"),
    "GHSA-pwq7-2gvj-vg9v": layer("os", "system", command="touch ran"),
}


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "e"
    msd.testing.tiny_encoder(num_layers=1).save(folder)
    return folder


@pytest.fixture
def saved(encoder_folder, tmp_path, monkeypatch):
    """An encoder's folder; Keras may make nothing of a file."""
    shutil.copytree(encoder_folder, tmp_path / "e")

    def make(*_, **__):
        raise AssertionError("Keras was given what a file says")

    monkeypatch.setattr(keras.saving, "deserialize_keras_object", make)
    monkeypatch.setattr(keras.models, "model_from_json", make)
    monkeypatch.setattr(keras.models, "load_model", make)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "e"


@pytest.mark.parametrize(
    ("name", "place"),
    list(zip(LAYERS, ["config", "field", "value", "beside"] * 2, strict=True)),
)
def test_no_layer_is_made_that_a_file_names(name, place, saved):
    record = json.loads((saved / "encoder.json").read_text())
    fields = record["config"]
    made, match = {
        "config": (LAYERS[name], "Unknown key `class_name`"),
        "field": (fields | {"layers": [LAYERS[name]]}, "Unknown key `layers`"),
        "value": (fields | {"activation": LAYERS[name]}, "`activation`"),
        "beside": (fields, "must have the keys .* Received: 'class_name'"),
    }[place]
    record["config"] = made
    if place == "beside":
        record = LAYERS[name] | record
    write_json(saved / "encoder.json", add_seal(record, "encoder.json"))
    refused(lambda: msd.load_encoder(saved), f"encoder.json.*{match}")
    assert {it.name for it in Path().iterdir()} == {"e"}


@pytest.mark.parametrize("ending", [".keras", ".h5"])
def test_models_with_code_are_not_read(ending, tmp_path, monkeypatch):
    """A Lambda in `.keras` (CVE-2024-3660), in `.h5` (CVE-2025-9905)."""
    monkeypatch.chdir(tmp_path)
    ran = tmp_path / "ran"

    def run(x):
        ran.touch()
        return x

    model = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(run)])
    ran.unlink(missing_ok=True)
    path = tmp_path / f"model{ending}"
    model.save(path)
    ran.unlink(missing_ok=True)
    (tmp_path / "folder").mkdir()
    write_json(tmp_path / "folder" / "config.json", BERT)
    (tmp_path / "folder" / path.name).write_bytes(path.read_bytes())
    found = tmp_path / "folder"
    received = "`model.h5`" if ending == ".h5" else "no weights"
    lacks = f"must hold `model.safetensors`.*Received: {received}.*can run code"
    for load in (msd.load_encoder, load_teacher):
        refused(lambda load=load: load(path), f"`{path}` has no card.json")
        refused(lambda load=load: load(found), lacks)
    assert not ran.exists()


class Runs:
    def __reduce__(self):
        return Path.touch, (Path("ran"),)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_nothing_is_unpickled(name, tmp_path, monkeypatch):
    """As in TorchModuleWrapper (CVE-2025-49655)."""
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "config.json", BERT)
    (tmp_path / name).write_bytes(pickle.dumps(Runs()))
    refused(lambda: msd.load_encoder(tmp_path), f"{name}.*can run code")
    array = np.array([Runs()], object)
    np.savez(tmp_path / "v.npz", sentences=np.array(["a"]), vectors=array)
    refused(lambda: load_teacher(tmp_path / "v.npz"), "v.npz")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("shape", [[2**40], [2**62, 4]])
def test_a_shape_takes_no_memory(shape, saved):
    """As with a dataset of HDF5 that declares one (CVE-2026-0897)."""
    weights = load_file(saved / "weights.safetensors")
    about = {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}
    text = json.dumps(dict.fromkeys(weights, about)).encode()
    content = struct.pack("<Q", len(text)) + text + bytes(4)
    (saved / "weights.safetensors").write_bytes(content)
    small(lambda: load_saved(saved), "weights.safetensors|shape")


def test_no_other_file_is_opened_for_weights(tmp_path):
    """As with external storage of HDF5 (CVE-2026-1669); ONNX: test_hostile_models."""
    secret = tmp_path / "secret.safetensors"
    save_file({"a": np.ones(2, np.float32)}, secret)
    folder = tmp_path / "c"
    folder.mkdir()
    write_json(folder / "config.json", BERT)
    for name in ("../secret.safetensors", str(secret), "x/../../secret.safetensors"):
        index = {"weight_map": {"a": name}}
        write_json(folder / "model.safetensors.index.json", index)
        lacks = "index.json.*save_pretrained.*max_shard"
        refused(lambda: msd.load_encoder(folder), lacks)


@pytest.mark.parametrize("name", ["../../out", "/out", "a\0b"])
def test_names_are_no_paths(name, saved):
    """As with names of layers (CVE-2026-12479); of modules: test_hostile_models.py."""
    weights = load_file(saved / "weights.safetensors")
    save_file(weights | {name: np.ones(1)}, saved / "weights.safetensors")
    refused(lambda: msd.load_encoder(saved), "unknown weight")
    for key in ("recipe.name", "student.variants", "guides"):
        given = {key: name if key == "recipe.name" else {name: {}}}
        read = functools.partial(load_recipe, "demo", "demo", given)
        refused(read, key.replace(".", r"\."))
