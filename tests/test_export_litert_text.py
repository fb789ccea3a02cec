"""Models for MediaPipe, run by the TextEmbedder of its package as it is."""

import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys

import numpy as np
import pytest
from tflite_names import check_names, name_bytes
from tokenizer_texts import CORPUS, made_texts

from keras_msd.export import export, load_artefact, loaders_folder
from keras_msd.export import litert as exporter
from keras_msd.export.litert_files import load_text
from keras_msd.testing import tiny_encoder
from keras_msd.tokenizers.sentencepiece import train_unigram

mediapipe = pytest.importorskip("mediapipe.tasks.python")

# "int4_table" has the table of "int4" and the kernels of "int8".
SCHEMES = (None, "int8", "int4")
TEXTS = [
    "Die Katze schläft.",
    "",
    "A dog runs in the park. " * 30,
    "القطار 🍀 [SEP] </s>",
    "火车中午到达。",
    " \t ",
    "ok",
]


def lively(tokenizer, **fields):
    """Return an encoder whose weights tell sentences apart."""
    made = tiny_encoder(tokenizer, **fields)
    random = np.random.default_rng(0)
    for weight in made.model.weights:
        gain = weight.path.endswith("gamma")
        weight.assign(gain + random.normal(0, 0.1 if gain else 0.3, weight.shape))
    return made


@pytest.fixture(scope="module")
def encoder():
    return lively(
        train_unigram(CORPUS, 400),
        hidden_dim=32,
        intermediate_dim=64,
        bottleneck_dim=16,
        num_layers=1,
        repeats=2,
    )


@pytest.fixture(scope="module")
def models(encoder, tmp_path_factory):
    """Return the folder of each quantisation's model."""
    folder = tmp_path_factory.mktemp("models")
    for quantize in SCHEMES:
        exporter.write_text(encoder, folder / str(quantize), quantize)
    return folder


def embed(file, texts, **options):
    """Run MediaPipe itself, with nothing of ours in between."""
    base = mediapipe.BaseOptions(model_asset_path=str(file))
    chosen = mediapipe.text.TextEmbedderOptions(base_options=base, **options)
    with mediapipe.text.TextEmbedder.create_from_options(chosen) as embedder:
        return [embedder.embed(text).embeddings[0] for text in texts]


def cosines(ours, theirs):
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return (ours * theirs).sum(axis=1) / norms


def test_mediapipe_gives_the_encoders_vectors(encoder, models):
    expected = encoder.encode(TEXTS)
    found = embed(models / "None" / "model.tflite", TEXTS)
    vectors = np.stack([one.embedding for one in found])
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    assert np.linalg.norm(expected[0] - expected[6]) > 0.1  # they could differ
    np.testing.assert_array_equal(load_text(models / "None")(TEXTS), vectors)


def test_a_model_in_a_cycle_of_references_is_let_go(models):
    # MediaPipe's own close waits for ever once the collector has ended its thread.
    script = (
        "import gc, sys, weakref, mediapipe.tasks.python.text\n"
        "from keras_msd.export.litert_files import load_text\n"
        "run = load_text(sys.argv[1]); run(['ok']); run.itself = run\n"
        "left = weakref.ref(run); del run; gc.collect(); print(left() is None)"
    )
    command = [sys.executable, "-c", script, models / "None"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_every_text_has_the_ids_of_python(encoder, models):
    # Attention and positions make the vector change with any id and any order.
    texts = made_texts(400) + ["a\0b", "\0", "one\ntwo\r\nthree"]
    found = load_text(models / "None", threads=1)(texts)
    np.testing.assert_allclose(found, encoder.encode(texts), atol=5e-6)
    assert load_text(models / "None")([]).shape == (0, encoder.dim)


@pytest.mark.parametrize(
    ("quantize", "cosine", "saved"),
    [
        ("int8", 0.995, 0.65),
        ("int4", 0.9, 0.75),
    ],
)
def test_fewer_bits(encoder, models, quantize, cosine, saved):
    files = [models / name / "model.tflite" for name in ("None", quantize)]
    found = np.stack([one.embedding for one in embed(files[1], TEXTS)])
    found_cosines = cosines(encoder.encode(TEXTS), found)
    assert cosine < found_cosines.min()
    large = ("kernel", "projection", "word")
    numbers = sum(v.size for k, v in encoder.weights().items() if k.endswith(large))
    full, small = (file.stat().st_size - name_bytes(file) for file in files)
    assert saved < (full - small) / (4 * numbers) < saved + 0.1


@pytest.mark.parametrize("quantize", SCHEMES)
def test_every_tensor_has_a_name_of_its_own(models, quantize):
    check_names(models / str(quantize) / "model.tflite")


def test_mediapipes_own_options(tokenizer, models, tmp_path):
    file = models / "None" / "model.tflite"
    plain, short = embed(file, TEXTS[:1]) + embed(file, TEXTS[:1], quantize=True)
    assert short.embedding.dtype == np.uint8
    # Bytes that are signed numbers, 128 times the vector.
    signed = short.embedding.view(np.int8)
    np.testing.assert_allclose(signed / 128, plain.embedding, atol=1 / 128)
    raw = lively(tokenizer, normalize=False)
    exporter.write_text(raw, tmp_path / "raw")
    file = tmp_path / "raw" / "model.tflite"
    plain, unit = (embed(file, TEXTS[:1], l2_normalize=on)[0] for on in (False, True))
    np.testing.assert_allclose(plain.embedding, raw.encode(TEXTS[:1])[0], atol=1e-5)
    length = np.linalg.norm(plain.embedding)
    assert abs(length - 1) > 0.1
    np.testing.assert_allclose(unit.embedding, plain.embedding / length, atol=1e-6)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_layers": 0, "pooling": "cls"},
        {
            "pooling": "max",
            "normalize_first": True,
            "projection_dim": 6,
            "projection_activation": "tanh",
            "max_length": 3,
            "position_offset": 2,
        },
    ],
)
def test_other_networks(tokenizer, tmp_path, fields):
    encoder = lively(tokenizer, **fields)
    exporter.write_text(encoder, tmp_path / "art", "fp16")
    run, texts = load_text(tmp_path / "art"), TEXTS[:4]
    assert cosines(encoder.encode(texts), run(texts)).min() > 0.9999


def test_the_same_encoder_gives_the_same_bytes(encoder, models, tmp_path):
    # The process has built other models since.
    exporter.write_text(encoder, tmp_path / "again", "int8")
    first, again = models / "int8", tmp_path / "again"
    names = [path.name for path in again.iterdir()]
    assert names == ["model.tflite"]
    assert (again / names[0]).read_bytes() == (first / names[0]).read_bytes()


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out") / "art"
    same = {"sts": [(1, "a", "b"), (0, "c", "d")], "sentences": TEXTS[:5]}
    return export(encoder, folder, "litert_text", languages=["de"], **same)


def test_card_and_round_trip(encoder, artefact):
    path, loaded = artefact, load_artefact(artefact)
    operators = loaded.card["operators"]
    assert operators["TFSentencepieceTokenizeOp"] == 1
    assert [name for name in operators if name != name.upper()] == [
        "TFSentencepieceTokenizeOp"
    ]
    assert loaded.card["parity"]["min_cosine"] > 0.99999
    scope = {}
    exec(loaded.card["how_to_load"].replace("FOLDER", str(path)), scope)
    expected = encoder.encode(["A sentence."])
    np.testing.assert_allclose(scope["vector"], expected[0], atol=2e-6)
    np.testing.assert_allclose(loaded.encode(["A sentence."]), expected, atol=2e-6)


def run(*command):
    """Run Python where neither TensorFlow nor Keras can be imported."""
    blocked = "import sys; sys.modules.update(dict.fromkeys(['keras', 'tensorflow']))\n"
    code, *arguments = map(str, command)
    return subprocess.run(
        [sys.executable, "-c", blocked + code, *arguments],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        timeout=300,
    )


def test_an_open_model_does_not_disturb_pythons_end(models):
    done = run(
        "from keras_msd.export.litert_files import load_text as load\n"
        f"run, other = load({str(models / 'int8')!r}), load({str(models / 'None')!r})\n"
        "print(run(['one', 'two']).shape)",
    )
    assert done.stdout == "(2, 32)\n"
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


def test_the_script(artefact, tmp_path, monkeypatch, capsys):
    script = loaders_folder() / "load_litert_text.py"
    folder = shutil.copytree(artefact, tmp_path / "art")
    texts = ["Die Katze schläft.", "القطار 🍀", "ok"]
    alone = (
        "import runpy\nsys.modules['keras_msd'] = None\nsys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(texts), encoding="utf-8")
    asked = (script, folder, "--sentences", lines, "--query")
    done = run(alone, *asked, "caf\udce9")
    assert done.returncode == 2 and "surrogates not allowed" in done.stderr
    done = run(alone, *asked, texts[0], "--top", "2")
    assert done.returncode == 0, done.stderr
    artefact = load_artefact(folder)
    cosines = artefact.similarity(texts[0], texts)[0]
    wanted = sorted(zip(cosines, texts, strict=True), reverse=True)[:2]
    found = [line.split("\t") for line in done.stdout.splitlines()]
    assert [text for _, text in found] == [text for _, text in wanted]
    for (shown, _), (cosine, _) in zip(found, wanted, strict=True):
        assert abs(float(shown) - cosine) < 1e-4

    card, model = folder / "card.json", folder / "model.tflite"
    facts, whole = json.loads(card.read_text()), model.read_bytes()
    foreign = hashlib.sha256(b"no model").hexdigest()
    for content, files, message in (
        (whole[:-1], facts["files"], "differs from its checksum"),
        (b"", facts["files"], "differs from its checksum"),
        (whole, {}, "no such model: KeyError"),
        (whole, None, "no such model: TypeError"),
        (b"no model", {model.name: {"sha256": foreign}}, "no such model: "),
    ):
        model.write_bytes(content)
        card.write_text(json.dumps({"files": files}))
        monkeypatch.setattr(sys, "argv", [*map(str, asked), "one"])
        with pytest.raises(SystemExit) as raised:
            runpy.run_path(str(script), run_name="__main__")
        assert raised.value.code == 2 and message in capsys.readouterr().err
