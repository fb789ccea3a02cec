"""Every format, and one from outside: exported, loaded in its runtime, described."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from tokenizer_files import write_byte_pairs

from keras_msd import cli, load_encoder
from keras_msd.checks import InputError
from keras_msd.evaluate import search
from keras_msd.export import (
    FORMATS,
    ExportError,
    Format,
    export,
    load_artefact,
    loaders_folder,
    quantizations,
)
from keras_msd.export.formats import check_supported
from keras_msd.export.proof import (
    SENTENCES,
    neighbours_kept,
    proof_sentences,
    row_cosines,
)
from keras_msd.models.encoder import Encoder
from keras_msd.testing import tiny_encoder
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer

RUNTIMES = {
    "saved_model": ["tensorflow"],
    "litert": ["ai_edge_litert"],
    "litert_text": ["ai_edge_litert", "mediapipe"],
    "onnx": ["onnx", "onnxruntime"],
    # Its extensions come with it, and whoever imports them must do so with care.
    "onnx_text": ["onnx", "onnxruntime"],
    "gguf": ["gguf", "llama_cpp"],
    "huggingface": ["onnx", "onnxruntime"],
    "model2vec": [],
}
# Two take few encoders, and have tests of their own: test_export_model2vec.py and
# test_export_gguf.py.
ANY_NETWORK = [name for name in FORMATS if name not in ("model2vec", "gguf")]
# Random weights have no meaning to lose: ranks of their cosines are noise.
LENIENT = {
    "min_cosine": 0.9,
    "min_neighbours": 0,
    "max_sts_loss": 100,
    "sts": [(1, "a", "b"), (0, "c", "d")],
    "sentences": SENTENCES,
}


@pytest.fixture(scope="module")
def encoder(tokenizer):
    keras.utils.set_random_seed(3)
    made = tiny_encoder(tokenizer, bottleneck_dim=8, repeats=2, num_layers=1)
    # Initial values are so small that vectors of all sentences would be alike.
    random = np.random.default_rng(0)
    for weight in made.model.weights:
        gain = weight.path.endswith("gamma")
        weight.assign(gain + random.normal(0, 0.1 if gain else 0.3, weight.shape))
    return made


@pytest.fixture(scope="module")
def texts():
    return proof_sentences()


@pytest.fixture(scope="module")
def artefacts(encoder, tmp_path_factory):
    """Return a function that exports once and gives the folder back."""
    made = {}

    def make(format, quantize=None):
        for module in RUNTIMES[format]:
            pytest.importorskip(module)
        if (format, quantize) not in made:
            path = tmp_path_factory.mktemp("made") / f"{format}_{quantize}"
            made[format, quantize] = export(encoder, path, format, quantize, **LENIENT)
        return made[format, quantize]

    return make


def test_the_table_of_runtimes_names_every_format():
    assert set(FORMATS) == set(RUNTIMES)


@pytest.mark.parametrize("format", ANY_NETWORK)
def test_same_neighbours(artefacts, encoder, texts, format):
    path = artefacts(format)
    loaded, ours = load_artefact(path), encoder.encode(texts)
    theirs = loaded.encode(texts)
    assert theirs.dtype == np.float32
    assert row_cosines(ours, theirs).min() > 0.99999
    assert neighbours_kept(ours, theirs) == 1
    queries, lines = texts[3:9], texts[20:80]
    found = search(loaded, queries, lines, top=1)
    expected = search(encoder, queries, lines, top=1)
    assert [one[0].place for one in found] == [one[0].place for one in expected]
    assert loaded.encode([]).shape == (0, encoder.dim)


def test_int8(artefacts, encoder, texts):
    """Each format's own tests have its vectors in fewer bits."""
    for format in ANY_NETWORK:
        if format != "huggingface":  # its quantised model is beside the other
            assert quantizations(format) == [None, "fp16", "int8", "int4_table", "int4"]
    full, loaded = (load_artefact(artefacts("onnx", name)) for name in (None, "int8"))
    assert loaded.card["quantize"] == "int8" and full.card["quantize"] is None
    cosine = row_cosines(encoder.encode(texts), loaded.encode(texts))
    assert 0.98 < cosine.min() < 1


@pytest.mark.parametrize("format", ANY_NETWORK)
def test_the_model_file_stands_for_the_folder(artefacts, format):
    path = artefacts(format)
    text = ["Die Katze schläft.", "ok"]
    loaded = load_encoder(path / FORMATS[format].model_file)
    assert loaded.path == path
    assert (loaded.encode(text) == load_artefact(path).encode(text)).all()
    same = load_encoder(path).encode(text)  # of one format as an encoder
    np.testing.assert_allclose(loaded.encode(text), same, atol=1e-5)


@pytest.mark.parametrize("format", ANY_NETWORK)
def test_one_thread(artefacts, format):
    path, text = artefacts(format), ["Die Katze schläft.", "ok"]
    if format == "saved_model":
        with pytest.raises(InputError, match="threads"):
            load_artefact(path, threads=1)  # too late: TensorFlow has begun
        return
    expected = load_artefact(path).encode(text)
    np.testing.assert_allclose(
        load_artefact(path, threads=1).encode(text), expected, atol=1e-5
    )


@pytest.mark.parametrize("format", ANY_NETWORK)
def test_threads_share_an_artefact(artefacts, format):
    loaded = load_artefact(artefacts(format))
    texts = [" ".join(["The cat sleeps"] * count) for count in range(1, 6)] * 6
    expected = loaded.encode(texts, progress=False)
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(loaded.encode, texts, progress=False) for _ in range(24)]
        for one in asked:
            np.testing.assert_allclose(one.result(), expected, atol=1e-5)


UNDER_JAX = """
import sys
import keras_msd as msd

encoder = msd.testing.tiny_encoder(projection_dim=8)
given = {"sentences": ["A cat.", "ok"], "sts": [(1, "a", "b"), (0, "a", "c")]}
for format in sys.argv[2:]:
    encoder.export(f"{sys.argv[1]}/{format}", format, max_sts_loss=100, **given)
    print(format)
"""


@pytest.mark.slow
def test_networks_are_written_under_jax(tmp_path):
    """The export itself compares the vectors."""
    pytest.importorskip("jax")
    formats = ["saved_model", "litert", "onnx"]
    command = [sys.executable, "-c", UNDER_JAX, str(tmp_path), *formats]
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.split() == formats, done.stderr


@pytest.mark.parametrize("format", ANY_NETWORK)
def test_no_format_carries_byte_pairs(encoder, format, tmp_path):
    write_byte_pairs(tmp_path)
    pairs = Encoder(encoder.model, read_checkpoint_tokenizer(tmp_path), encoder.config)
    with pytest.raises(InputError, match="Received: tokenizer_json. No format"):
        export(pairs, tmp_path / "a", format)


@pytest.mark.parametrize("format", ANY_NETWORK)
def test_no_runtime_is_given_foreign_bytes(artefacts, format, tmp_path):
    """Even without a card, a file that is no model is an error and no crash."""
    for module in RUNTIMES[format]:
        pytest.importorskip(module)
    real = (artefacts(format) / FORMATS[format].model_file).read_bytes()
    load = FORMATS[format].load
    for name, content in (
        ("empty", b""),
        ("text", b"This is no model at all. " * 20),
        ("short", real[: len(real) // 3]),
    ):
        model = tmp_path / name / FORMATS[format].model_file
        model.parent.mkdir(parents=True)
        model.write_bytes(content)
        with pytest.raises(InputError):
            load(tmp_path / name)(["one"])
    with pytest.raises(InputError):
        load(tmp_path / "none")


ROWS = [(1.0, "a", "b"), (0.0, "a", "c")]
TEXTS = ["a", "b", "c", "one and two"]
GIVEN = {"sentences": TEXTS, "sts": ROWS}


def write_vectors(encoder_of_records, path, quantize=None, scale=1.0):
    """Write the vectors of some texts: a table is a runtime, too."""
    path.mkdir()
    vectors = scale * encoder_of_records.encode(TEXTS, progress=False)
    np.savez(path / "vectors.npz", texts=TEXTS, vectors=vectors)
    return {"operators": ["lookup"]}


def load_vectors(path, threads=None):
    table = np.load(path / "vectors.npz")
    places = {text: place for place, text in enumerate(table["texts"].tolist())}
    return lambda texts: table["vectors"][[places[text] for text in texts]]


PARTS = {
    "name": "table",
    "write": write_vectors,
    "load": load_vectors,
    "model_file": "vectors.npz",
    "how_to_load": "import numpy as np\nvectors = np.load('FOLDER/vectors.npz')\n",
    "quantize": ("int8",),
    "libraries": ("numpy",),
    "warning": "Only a table.",
}


@pytest.fixture
def table():
    FORMATS["table"] = Format(**PARTS)
    yield FORMATS["table"]
    del FORMATS["table"]


@pytest.fixture(scope="module")
def encoder_of_records(tokenizer):
    return tiny_encoder(tokenizer)


def test_it_is_exported_loaded_and_described(encoder_of_records, table, tmp_path):
    path = encoder_of_records.export(tmp_path / "art", "table", **GIVEN)
    for source in (path, path / "vectors.npz"):
        found = load_encoder(source).encode(TEXTS)
        np.testing.assert_allclose(found, encoder_of_records.encode(TEXTS), atol=1e-6)
    card = json.loads((path / "card.json").read_text())
    assert (card["format"], card["warning"]) == ("table", "Only a table.")
    assert card["libraries"] == {"numpy": np.__version__}
    assert card["operators"] == ["lookup"]
    text = (path / "README.md").read_text()
    for part in ("encoder, table", "**Only a table.**", "vectors.npz')"):
        assert part in text


def test_the_command_line_knows_it(encoder_of_records, table, tmp_path, capsys):
    encoder_of_records.save(tmp_path / "encoder")
    given = [str(tmp_path / "encoder"), str(tmp_path / "art"), "--format", "table"]
    for quantize, message in (
        ("fp16", "must be one of None, 'int8'"),
        ("int4", "table"),
    ):
        with pytest.raises(SystemExit) as end:
            cli.main(["export", *given, "--quantize", quantize])
        assert end.value.code == 2 and message in capsys.readouterr().err


def test_what_it_does_not_offer(encoder_of_records, table, tmp_path):
    assert quantizations("table") == [None, "int8"]
    for given, message in (
        ({"quantize": "fp16"}, "`table`: `quantize` must be one of None, 'int8'. Rec"),
        ({"scal": 2.0}, "`option` must be one of 'scale'. .*Did you mean `scale`"),
    ):
        with pytest.raises(InputError, match=message):
            export(encoder_of_records, tmp_path / "art", "table", **GIVEN | given)
    with pytest.raises(ExportError, match="as long as"):
        export(encoder_of_records, tmp_path / "art", "table", **GIVEN, scale=2.0)
    with pytest.raises(InputError, match="`onnx_text`: It has no options. Rec"):
        check_supported(
            FORMATS["onnx_text"], None, encoder_of_records.tokenizer, ["scale"]
        )
    pairs = type("Pairs", (), {"kind": "bytepair", "label": "bytepair"})()
    with pytest.raises(InputError, match="Received: bytepair. No format supports"):
        check_supported(table, None, pairs)
    pieces = type("Pieces", (), {"kind": "wordpiece", "label": "wordpiece"})()
    with pytest.raises(InputError, match="supports it: saved_model, litert, onnx, hug"):
        check_supported(FORMATS["litert_text"], None, pieces)


@pytest.mark.parametrize("part", ["write", "load", "model_file", "how_to_load"])
def test_a_missing_part_is_named(part):
    with pytest.raises(TypeError, match=part):
        Format(**{key: value for key, value in PARTS.items() if key != part})


def test_the_document_has_a_row_and_a_script_for_each_format():
    text = (loaders_folder() / "README.md").read_text(encoding="utf-8")
    table = text.split("|---|---|---|---|---|\n")[1].split("\n\n")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines()]
    assert [row[0].strip(" `") for row in rows] == list(FORMATS)
    for row in rows:
        assert (loaders_folder() / row[-1].split("`")[1]).is_file()
