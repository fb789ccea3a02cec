"""A format from outside the package: one record, and everything knows it."""

import json

import numpy as np
import pytest

from keras_msd import InputError, cli, load_encoder
from keras_msd.export import (
    FORMATS,
    ExportError,
    Format,
    export,
    loaders_folder,
    quantizations,
)
from keras_msd.export.formats import check_supported
from keras_msd.testing import tiny_encoder

ROWS = [(1.0, "a", "b"), (0.0, "a", "c")]
TEXTS = ["a", "b", "c", "one and two"]
GIVEN = {"sentences": TEXTS, "sts": ROWS}


def write_vectors(encoder, path, quantize=None, scale=1.0):
    """Write the vectors of some texts: a table is a runtime, too."""
    path.mkdir()
    vectors = scale * encoder.encode(TEXTS, progress=False)
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
def encoder(tokenizer):
    return tiny_encoder(tokenizer)


def test_it_is_exported_loaded_and_described(encoder, table, tmp_path):
    path = encoder.export(tmp_path / "art", "table", **GIVEN)
    for source in (path, path / "vectors.npz"):
        found = load_encoder(source).encode(TEXTS)
        np.testing.assert_allclose(found, encoder.encode(TEXTS), atol=1e-6)
    card = json.loads((path / "card.json").read_text())
    assert (card["format"], card["warning"]) == ("table", "Only a table.")
    assert card["libraries"] == {"numpy": np.__version__}
    assert card["operators"] == ["lookup"]
    text = (path / "README.md").read_text()
    for part in ("encoder, table", "**Only a table.**", "vectors.npz')"):
        assert part in text


def test_the_command_line_knows_it(encoder, table, tmp_path, capsys):
    encoder.save(tmp_path / "encoder")
    given = [str(tmp_path / "encoder"), str(tmp_path / "art"), "--format", "table"]
    for quantize, message in (
        ("fp16", "must be one of None, 'int8'"),
        ("int4", "table"),
    ):
        with pytest.raises(SystemExit) as end:
            cli.main(["export", *given, "--quantize", quantize])
        assert end.value.code == 2 and message in capsys.readouterr().err


def test_what_it_does_not_offer(encoder, table, tmp_path):
    assert quantizations("table") == [None, "int8"]
    for given, message in (
        ({"quantize": "fp16"}, "`table`: `quantize` must be one of None, 'int8'. Rec"),
        ({"scal": 2.0}, "`option` must be one of 'scale'. .*Did you mean `scale`"),
    ):
        with pytest.raises(InputError, match=message):
            export(encoder, tmp_path / "art", "table", **GIVEN | given)
    with pytest.raises(ExportError, match="as long as"):
        export(encoder, tmp_path / "art", "table", **GIVEN, scale=2.0)
    with pytest.raises(InputError, match="`onnx_text`: `option` must be one of"):
        check_supported(FORMATS["onnx_text"], None, encoder.tokenizer, ["scale"])
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
