"""Encoders in packages of their own: built, installed, found by name, compared."""

import hashlib
import json
import pickle
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import fails, result
from random_encoder import random_encoder
from test_light import bag
from tokenizer_texts import made_texts

from keras_msd import light, load_encoder, load_teacher, trim_vocabulary
from keras_msd.checkpoints import packaged
from keras_msd.checks import InputError
from keras_msd.cli.export import card_of
from keras_msd.io.files import read_table
from keras_msd.load import teacher_encoder
from keras_msd.models.encoder import Encoder
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs")

ROOT = Path(__file__).resolve().parents[1]
MODULE = "keras_msd_tiny12"
TEXTS = ["The cat sleeps on the chair.", "Die Katze schläft auf dem Stuhl."]
TOOL = runpy.run_path(str(ROOT / "tools" / "package_encoder.py"))


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return bag(tokenizer, hidden_dim=24, projection_dim=40)


@pytest.fixture(scope="module")
def made(encoder, tmp_path_factory):
    """Return (packages folder, table) as the tool makes them of an encoder."""
    folder = tmp_path_factory.mktemp("made")
    ignored = shutil.ignore_patterns("encoder", "__pycache__", "build", "*.egg-info")
    place = folder / "packages" / "tiny12"
    shutil.copytree(ROOT / "packages" / "tiny12", place, ignore=ignored)
    encoder.save(folder / "trained")
    table = folder / "packaged.json"
    shutil.copy(packaged.TABLE, table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packaged, "TABLE", table)
        options = ["--packages", str(folder / "packages"), "--name", "tiny12"]
        TOOL["main"]([str(folder / "trained"), *options])
    return folder / "packages", table


@pytest.fixture
def no_package(monkeypatch, tmp_path):
    """Hide the package, should it be installed; an empty folder is the current one."""
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop(MODULE, None)


@pytest.fixture
def installed(made, no_package, monkeypatch, tmp_path):
    """Return the module's folder, which can be imported as one that is installed."""
    shutil.copytree(made[0] / "tiny12" / MODULE, tmp_path / "site" / MODULE)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(packaged, "TABLE", made[1])
    return tmp_path / "site" / MODULE


def by_hand(folder):
    """Return names, and the SHA-256 of the lines that `sha256sum` prints."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = sorted(path.relative_to(folder).as_posix() for path in files)
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in names
    ]
    return names, hashlib.sha256("".join(lines).encode()).hexdigest()


def packed(encoder, folder, *options):
    """Return the folder of the encoder in a package of its own."""
    encoder.save(folder / "trained")
    options += ("--module", "my_encoder", "--out", str(folder / "my_package"))
    return TOOL["main"]([str(folder / "trained"), *options])


KERNELS = {"hidden_dim": 32, "num_heads": 2, "intermediate_dim": 64}
PROJECTION = {"bottleneck_dim": 8, "projection_dim": 12}
AFTER_PADDING = {"position_offset": 2, "max_positions": 40, "num_types": 2}


@pytest.mark.parametrize(
    ("fields", "quantize"),
    [
        (KERNELS, "int4"),
        (KERNELS | {"bottleneck_dim": None}, "int4"),  # then all kernels are
        (AFTER_PADDING | {"normalize": False}, "int4"),
        (PROJECTION, "int8"),
    ],
)
def test_a_package_of_an_own_encoder(tokenizer, fields, quantize, tmp_path):
    encoder = random_encoder(tokenizer, num_layers=1, repeats=2, **fields)
    folder = packed(encoder, tmp_path, "--quantize", quantize)
    assert folder == tmp_path / "my_package" / "my_encoder" / "encoder"
    assert not (folder.parent / "network.onnx").stat().st_size > 50_000  # no weights
    assert '"onnxruntime>=1.23"' in (tmp_path / "my_package/pyproject.toml").read_text()
    texts = made_texts(30) + ["a " * 200]
    small, whole = light.LightEncoder(folder, threads=1), load_encoder(folder)
    expected = whole.encode(texts)
    np.testing.assert_allclose(small.encode(texts), expected, atol=2e-5)
    np.testing.assert_allclose(
        small.similarity(texts[0], texts), whole.similarity(texts[0], texts), atol=1e-5
    )
    assert small.encode([]).shape == (0, encoder.dim)


def test_layers_do_not_run_in_a_fork(tokenizer, tmp_path, monkeypatch):
    small = light.LightEncoder(packed(random_encoder(tokenizer), tmp_path))
    monkeypatch.setattr(light.os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="Load it in each process"):
        small.encode("A cat.")
    named = object.__new__(packaged.PackagedEncoder)
    named._name, named._light = "my_encoder", small
    with pytest.raises(InputError, match="Load it in each process"):
        named.encode("A cat.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--module", "my-encoder", "--out", "out"], "must be a Python name"),
        ([], "Give --module and --out"),
        (["--name", "tiny13"], "has no `tiny13`"),
    ],
)
def test_what_the_tool_refuses(made, options, message):
    with pytest.raises(InputError, match=message):
        TOOL["main"]([str(made[0].parent / "trained"), *options])


def test_the_tool_writes_int8_and_the_sha256(made, encoder):
    folder, table = made[0] / "tiny12" / MODULE / "encoder", read_table(made[1])
    assert json.loads((folder / "encoder.json").read_text())["quantize"] == "int8"
    names, sha256 = by_hand(folder)
    assert {"encoder.json", "weights.safetensors"} < set(names)
    assert any(name.startswith("tokenizer/") for name in names)
    before = read_table(packaged.TABLE)
    assert table["tiny12"].pop("sha256") == sha256
    before["tiny12"].pop("sha256")
    assert table == before  # nothing else was changed
    # Once more, of the int8 encoder itself: the same files.
    encoder.save(made[0] / "again", quantize="int8")
    assert by_hand(made[0] / "again")[1] == sha256


def test_it_is_loaded_by_name(installed, encoder):
    loaded = load_encoder("tiny12")
    assert loaded.config == encoder.config
    ours = encoder.encode(TEXTS, normalize=True)
    assert (ours * loaded.encode(TEXTS, normalize=True)).sum(axis=1).min() > 0.999
    assert load_encoder("tiny12", pooling="max").config.pooling == "max"
    assert teacher_encoder("tiny12").fingerprint == loaded.fingerprint
    np.testing.assert_array_equal(
        load_teacher("tiny12").encode(TEXTS), loaded.encode(TEXTS)
    )


def test_what_is_trained_gives_the_vectors(installed, encoder):
    loaded = load_encoder("tiny12")
    assert "keras_encoder" not in vars(loaded)
    assert not hasattr(loaded, "card")  # an unknown name does not load Keras
    assert "keras_encoder" not in vars(loaded)
    names = {name for name in dir(Encoder) if name[0] != "_"} | set(vars(encoder))
    missing = {name for name in names if name[0] != "_" and not hasattr(loaded, name)}
    assert missing == set()
    loaded = load_encoder("tiny12")
    texts = [*TEXTS, "", "the cat " * 200]
    before, counts = loaded.encode(texts), loaded.count_tokens(texts)
    assert loaded.num_parameters > 0  # Keras
    np.testing.assert_array_equal(loaded.encode(texts), before)
    assert loaded.keras_encoder.count_tokens(texts) == counts
    rolled = {path: np.roll(it, 1) for path, it in loaded.weights().items()}
    loaded.set_weights(rolled)
    changed = loaded.keras_encoder.encode(texts)
    assert not np.allclose(changed, before)
    np.testing.assert_array_equal(loaded.encode(texts), changed)
    again = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(again.encode(texts), changed)
    trimmed = trim_vocabulary(load_encoder("tiny12"), TEXTS)
    np.testing.assert_allclose(trimmed.encode(TEXTS), before[: len(TEXTS)], atol=1e-6)


def test_its_artefact_says_its_languages(installed, capsys):
    result(capsys, "export", "tiny12", "art")
    card = json.loads(Path("art/card.json").read_text())
    said = card_of("tiny12")
    assert card["languages"] == said["languages"] and "de" in said["languages"]
    assert card["teacher_license"] == said["teacher_license"]
    assert card["data_license"] == said["data_license"]


def test_a_folder_of_that_name_comes_first(installed, tokenizer):
    own = tiny_encoder(tokenizer, num_layers=0, hidden_dim=8)
    own.save("tiny12")
    assert load_encoder("tiny12").config.hidden_dim == 8
    assert load_teacher("tiny12").dim == 8
    assert card_of("tiny12") == {}


def test_a_missing_package_is_named(no_package, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, MODULE, None)
    command = r"keras_msd_tiny12.*pip install \. \./packages/tiny12"
    for load in (load_encoder, load_teacher):
        with pytest.raises(InputError, match=command):
            load("tiny12")
    Path("lines.txt").write_text("A line.")
    for words in (("embed", "tiny12", "A"), ("search", "tiny12", "A", "lines.txt")):
        assert "pip install . ./packages/tiny12" in fails(capsys, *words)


def test_other_files_than_the_library_knows(installed):
    (installed / "encoder" / "notes.txt").write_text("One file more.")
    found = by_hand(installed / "encoder")[1]
    with pytest.raises(InputError, match=f"Received: {found}.*pip install"):
        load_encoder("tiny12")
    (installed / "encoder" / "notes.txt").unlink()
    assert load_encoder("tiny12").dim == 40
    content = bytearray((installed / "encoder" / "weights.safetensors").read_bytes())
    content[-1] ^= 1
    (installed / "encoder" / "weights.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="SHA-256 that this library knows"):
        load_encoder("tiny12")
    shutil.rmtree(installed / "encoder")
    with pytest.raises(InputError, match="Received: no files in"):
        load_encoder("tiny12")


def test_the_table_and_the_packages_fit():
    for name, record in read_table(packaged.TABLE).items():
        folder = ROOT / "packages" / name
        assert (folder / record["module"] / "__init__.py").is_file()
        assert record["install"] == f"pip install . ./packages/{name}"
        encoder = folder / record["module"] / "encoder"
        if record["sha256"] or encoder.exists():
            assert packaged.files_sha256(encoder) == record["sha256"]


@pytest.mark.slow
def test_small12_knows_who_bites():
    encoder = load_encoder("small12")
    assert (encoder.dim, encoder.config.num_layers) == (384, 12)
    english = ["The dog bites the man.", "The man bites the dog."]
    german = ["Der Hund beißt den Mann.", "Der Mann beißt den Hund."]
    cosines = encoder.similarity(english, german)
    assert (cosines.argmax(axis=1) == [0, 1]).all()
    assert (cosines.argmax(axis=0) == [0, 1]).all()
    texts = ["Wo ist die Katze?", "It rains."]  # as in README.md
    shown = encoder.similarity("Where is the cat?", texts)[0]
    np.testing.assert_allclose(shown, [0.99, 0.81], atol=0.005)
