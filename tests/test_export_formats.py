"""Every format, and one from outside: exported, loaded in its runtime, described."""

import functools
import re
import runpy
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from child_process import run_python
from random_encoder import random_encoder, run_alone

from keras_msd.checks import InputError
from keras_msd.export import (
    FORMATS,
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

RUNTIMES = {
    "saved_model": ["tensorflow"],
    "litert": ["ai_edge_litert"],
    "litert_text": ["ai_edge_litert", "mediapipe"],
    "onnx": ["onnx", "onnxruntime"],
    # Its extensions come with it, and whoever imports them must do so with care.
    "onnx_text": ["onnx", "onnxruntime"],
    "huggingface": ["onnx", "onnxruntime"],
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
    return random_encoder(tokenizer, bottleneck_dim=8, repeats=2)


@pytest.fixture(scope="module")
def artefacts(encoder, tmp_path_factory):
    """Return a function that exports once and gives the folder back."""

    @functools.cache
    def make(format):
        for module in RUNTIMES[format]:
            pytest.importorskip(module)
        path = tmp_path_factory.mktemp("made") / format
        return export(encoder, path, format, **LENIENT)

    return make


@pytest.mark.parametrize("format", ANY_NETWORK)
def test_same_neighbours(artefacts, encoder, format):
    path, texts = artefacts(format), proof_sentences()
    loaded, ours = load_artefact(path), encoder.encode(texts)
    theirs = loaded.encode(texts)
    assert theirs.dtype == np.float32
    assert row_cosines(ours, theirs).min() > 0.99999
    assert neighbours_kept(ours, theirs) == 1
    assert loaded.encode([]).shape == (0, encoder.dim)


@pytest.mark.parametrize("format", ANY_NETWORK)
def test_the_same_encoder_gives_the_same_bytes(encoder, tmp_path, format):
    for module in RUNTIMES[format]:
        pytest.importorskip(module)
    files = []
    for name in "ab":
        FORMATS[format].write(encoder, tmp_path / name, "int8")
        paths = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        files.append({it.relative_to(tmp_path / name): it.read_bytes() for it in paths})
    assert files[0] == files[1] != {}


@pytest.mark.parametrize("format", ANY_NETWORK[:-1])
def test_the_code_of_a_card_gives_the_vectors(artefacts, encoder, format, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "portable_tokenizer", raising=False)
    path, scope = artefacts(format), {}
    code = FORMATS[format].how_to_load
    exec(code.replace("FOLDER", str(path)), scope)
    found = scope["vector"][None] if format == "litert_text" else scope["vectors"]
    np.testing.assert_allclose(found, encoder.encode(["A sentence."]), atol=2e-6)


@pytest.mark.parametrize("format", ANY_NETWORK)
def test_threads_share_an_artefact(artefacts, format):
    threads = None if format == "saved_model" else 1  # TensorFlow has begun
    loaded = load_artefact(artefacts(format), threads)
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
    jax = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    assert run_python(UNDER_JAX, tmp_path, *formats, **jax).split() == formats


def test_what_a_format_does_not_offer(encoder, plain_format, tmp_path):
    assert quantizations("plain") == [None, "fp16", "int8"]
    for given, message in (
        ({"quantize": "int4"}, "`plain`: `quantize` must be one of None, 'fp16', 'in"),
        ({"scale": 2.0}, "`plain`: It has no options. Rec"),
    ):
        with pytest.raises(InputError, match=message):
            export(encoder, tmp_path / "art", "plain", **given)
    with pytest.raises(InputError, match="Did you mean `leave_out`"):
        export(encoder, tmp_path / "art", "huggingface", leave_ou=["int8"])
    pairs = type("Pairs", (), {"kind": "bytepair", "label": "bytepair"})()
    with pytest.raises(InputError, match="Received: bytepair. No format supports"):
        check_supported(FORMATS["plain"], None, pairs)
    pieces = type("Pieces", (), {"kind": "wordpiece", "label": "wordpiece"})()
    with pytest.raises(InputError, match="supports it: saved_model, litert, onnx, hug"):
        check_supported(FORMATS["litert_text"], None, pieces)


def test_the_document_has_a_row_and_a_script_for_each_format():
    text = (loaders_folder() / "README.md").read_text(encoding="utf-8")
    table = text.split("|---|---|---|---|---|\n")[1].split("\n\n")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines()]
    assert [row[0].strip(" `") for row in rows] == list(FORMATS)
    for row in rows:
        assert (loaders_folder() / row[-1].split("`")[1]).is_file()


LINES = ["The cat sleeps on the chair.", "A dog runs.", "The house is very old."]
QUERY = "Die Katze schläft."
# What the script of a format must not import.
KERAS = ["keras", "keras_msd"]
SCRIPTS = {
    "saved_model": KERAS,
    "litert": [*KERAS, "tensorflow"],
    "litert_text": [*KERAS, "tensorflow"],
    "onnx": [*KERAS, "tensorflow", "onnx", "onnxruntime_extensions"],
    "onnx_text": [*KERAS, "tensorflow", "onnx", "portable_tokenizer"],
    "huggingface": [*KERAS, "tensorflow", "transformers"],
}


def script_of(format):
    return loaders_folder() / f"load_{format}.py"


@pytest.mark.parametrize(
    "format", [pytest.param("saved_model", marks=pytest.mark.slow), *list(SCRIPTS)[1:]]
)
def test_a_script_finds_what_the_encoder_finds(format, artefacts, encoder, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(LINES) + "\n\n", encoding="utf-8")
    asked = ("--query", QUERY, "--sentences", lines, "--top", 2)
    path, blocked = artefacts(format), SCRIPTS[format]
    done = run_alone(script_of(format), path, *asked, blocked=blocked)
    assert done.returncode == 0, done.stderr
    vectors = encoder.encode([*LINES, QUERY], normalize=True)
    cosine = vectors[:3] @ vectors[3]
    order = np.argsort(-cosine)[:2]
    found = [line.split("\t") for line in done.stdout.splitlines()]
    assert [text for _, text in found] == [LINES[row] for row in order]
    shown = [float(number) for number, _ in found]
    np.testing.assert_allclose(shown, cosine[order], atol=2e-4)


@pytest.fixture
def refused(monkeypatch, capsys):
    """Return a function that runs a script and checks its message and exit code."""
    monkeypatch.syspath_prepend(loaders_folder())

    def check(format, message, *arguments):
        monkeypatch.setattr(sys, "argv", [format, *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(script_of(format)), run_name="__main__")
        printed = capsys.readouterr()
        assert left.value.code == 2 and printed.out == ""
        assert re.search(message, printed.err), printed.err

    return check


@pytest.mark.parametrize("format", list(SCRIPTS)[:-1])
def test_what_a_script_refuses(format, artefacts, refused, tmp_path):
    folder = shutil.copytree(artefacts(format), tmp_path / "copy")
    asked, lines = ("--query", QUERY, "--sentences"), tmp_path / "lines.txt"
    refused(format, "lines.txt does not exist", folder, *asked, lines)
    for content, message in ((b"\n\n", "holds no sentence"), (b"caf\xe9", "decode")):
        lines.write_bytes(content)
        refused(format, message, folder, *asked, lines)
    lines.write_text("one\n")
    refused(format, "must be at least 1", folder, *asked, lines, "--top", 0)
    refused(format, "surrogates", folder, "--query", "caf\udce9", *asked[2:], lines)
    model = folder / FORMATS[format].model_file
    whole = model.read_bytes()
    for content in (b"", whole[:-1], whole[:-100]):
        model.write_bytes(content)
        refused(format, "differs|damaged", folder, *asked, lines)
    refused(format, "does not exist|holds no", tmp_path / "none", *asked, lines)


def test_what_a_script_does_not_load(artefacts, refused, tmp_path):
    (tmp_path / "lines.txt").write_text("one\n")
    asked = ("--query", QUERY, "--sentences", tmp_path / "lines.txt")
    onnx = artefacts("onnx")
    refused("saved_model", "no SavedModel but the format 'onnx'", onnx, *asked)
    artefacts("onnx_text")
    refused("onnx_text", "takes token ids", onnx / "model.onnx", *asked)
