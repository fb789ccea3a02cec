"""Cards: what they say, and damage that is noticed before a runtime sees a file."""

import hashlib
import json
import shutil

import plain_exporter
import pytest

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.export import FORMATS, export, load_artefact, read_card
from keras_msd.export.card import add_scores
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs")

ROWS = [(1.0, "one", "two"), (0.0, "cat", "dog")]


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return tiny_encoder(tokenizer, num_layers=0)


@pytest.fixture(scope="module")
def exported(encoder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FORMATS, "plain", plain_exporter.FORMAT)
        return encoder.export(
            tmp_path_factory.mktemp("card") / "art", "plain", "int8",
            languages=["en", "de", "en"], license="MIT | X11",
            teacher_license="Apache-2.0", sentences=["one", "cat"], sts=ROWS,
        )  # fmt: skip


@pytest.fixture
def artefact(exported, tmp_path, plain_format):
    shutil.copytree(exported, tmp_path / "art")
    plain_exporter.loaded.clear()
    return tmp_path / "art"


def change(artefact, **values):
    """Write other values into the card."""
    card = json.loads((artefact / "card.json").read_text())
    (artefact / "card.json").write_text(json.dumps(card | values))


def fails(path, message):
    with pytest.raises(InputError, match=message) as caught:
        load_encoder(path)
    assert type(caught.value) is InputError and len(str(caught.value)) < 600
    assert plain_exporter.loaded == []  # the runtime saw nothing


def test_card(encoder, artefact):
    card = read_card(artefact)
    assert (card["format"], card["quantize"]) == ("plain", "int8")
    assert card["languages"] == ["de", "en"] and card["dim"] == 16
    assert (card["license"], card["teacher_license"]) == ("MIT | X11", "Apache-2.0")
    assert card["data_license"] is None and card["max_length"] == 32
    assert card["encoder"]["parameters"] == encoder.num_parameters
    assert card["encoder"]["fingerprint"] == encoder.fingerprint
    assert card["files"] == {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in plain_exporter.FILES.items()
    }
    assert card["bytes"] == sum(map(len, plain_exporter.FILES.values()))


def test_card_for_people(encoder, artefact):
    text = (artefact / "README.md").read_text(encoding="utf-8")
    shown = (
        "# Sentence encoder, plain", "**Plain words.**", "| weights | int8 |",
        "de, en", f"{encoder.num_parameters:,}", "run('FOLDER')", "plain 1.0",
        "licence of this artefact | MIT \\| X11", "trained on | not stated",
        "| smallest cosine | 1.000000 | 0.99 |", "given rows", "32 tokens",
    )  # fmt: skip
    for part in shown:
        assert part in text, part
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|") and line.count("|") - line.count("\\|") in (3, 4)


def test_scores_are_added_to_both_cards(artefact):
    before = read_card(artefact)
    for _ in range(2):  # as a resumed run does
        add_scores(artefact, plain_exporter.FORMAT, {"P@1 x 100, mine": 97.5})
    assert read_card(artefact) == before | {"scores": {"P@1 x 100, mine": 97.5}}
    text = (artefact / "README.md").read_text(encoding="utf-8")
    assert "| P@1 x 100, mine | 97.5 |" in text and "**Plain words.**" in text


def test_folder_or_file(artefact, monkeypatch):
    for path in (artefact, artefact / "model.bin", artefact / "assets" / "words.txt"):
        loaded = load_encoder(path)
        assert loaded.path == artefact and loaded.dim == 16
        assert loaded.encode(["one", ""]).shape == (2, 16)
    assert load_artefact(artefact / "assets").path == artefact
    load_artefact(artefact, threads=2)
    assert plain_exporter.loaded[-1] == (artefact, 2)
    with pytest.raises(InputError, match="`threads` must be at least 1"):
        load_artefact(artefact, threads=0)
    plain_exporter.loaded.clear()
    (artefact / "other.bin").write_bytes(b"")
    monkeypatch.chdir(artefact)
    assert load_encoder("model.bin").dim == 16


def test_nothing_there(artefact, tmp_path):
    fails(tmp_path / "none", "none` does not exist")
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "model.onnx").write_bytes(b"TFL3")
    fails(tmp_path / "alone" / "model.onnx", "model.onnx` has no card.json")
    fails(tmp_path / "alone", "alone` has no card.json")


def test_damaged_files(artefact):
    model = artefact / "model.bin"
    for content in (b"", b"weight", b"weights and more"):
        model.write_bytes(content)
        fails(artefact, f"model.bin` must have 7 bytes, .* Received: {len(content)}")
    model.write_bytes(b"weighty")
    fails(artefact, "model.bin` differs from its checksum in card.json")
    model.unlink()
    fails(artefact, "lacks the file 'model.bin'")
    model.mkdir()
    fails(artefact, "lacks the file 'model.bin'")


def test_a_threshold_is_whole(encoder, tmp_path, plain_format):
    with pytest.raises(InputError, match="`threshold` must be.*`recall` is missing"):
        encoder.export(tmp_path / "art", "plain", threshold={"cosine": 0.5})
    assert not (tmp_path / "art").exists()


FILE = {"bytes": 7, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "must be a table of settings"),
        (b"{}", "The key `card_version` is missing"),
        (b" " * (2**22 + 1), "at most 4,194,304"),
        ({"dim": "16"}, "`dim`: .* Received: '16'"),
        ({"dim": 0}, "`dim`: .* greater than or equal to 1"),
        ({"dim": 10**12}, "`dim`: .* less than or equal to 65536"),
        ({"card_version": 2}, "must have card_version 1. Received: 2"),
        ({"format": "pickle" * 999, "files": {}}, "`format` must be one of 'saved_m"),
        ({"threshold": {"cosine": "0.6"}}, "`threshold.cosine`: .* Received: '0.6'"),
        ({"files": {}}, "must list the model `model.bin`"),
        ({"files": {"model.bin": {}}}, "`files.model.bin.bytes` is missing"),
        ({"files": {"model.bin": FILE | {"bytes": -1}}}, "`files.model.bin.bytes`"),
        ({"files": {"model.bin": FILE | {"bytes": 10**30}}}, "must have 1000+ bytes"),
        ({"files": {"model.bin": FILE | {"sha256": "abc"}}}, "`files.*sha256`"),
    ],
)
def test_cards_that_do_not_fit(artefact, content, message):
    if isinstance(content, dict):
        change(artefact, **content)
    else:
        (artefact / "card.json").write_bytes(content)
    fails(artefact, message)


@pytest.mark.parametrize("name", ["../outside.bin", "/etc/passwd", "link", "a\0b"])
def test_names_outside_the_folder(artefact, name):
    data = b"outside"
    (artefact.parent / "outside.bin").write_bytes(data)
    (artefact / "a").mkdir()
    (artefact / "link").symlink_to(artefact.parent / "outside.bin")
    card = json.loads((artefact / "card.json").read_text())
    facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    change(artefact, files=card["files"] | {name: facts})
    fails(artefact, "lacks the file '")


def test_vectors_of_another_width(artefact):
    change(artefact, dim=17)
    with pytest.raises(InputError, match=r"shape \(1, 17\), as in its card"):
        load_artefact(artefact).encode(["one"])


def test_a_long_sentence_and_broken_lines_keep_the_card_whole(encoder, artefact):
    encoder.export(
        artefact, "plain", license="MIT\n| x |\r\nand more",
        sentences=["long " * 10**5], sts=ROWS,
    )  # fmt: skip
    assert read_card(artefact)["parity"]["worst"] == "long " * 40
    text = (artefact / "README.md").read_text(encoding="utf-8")
    assert "| licence of this artefact | MIT \\| x \\| and more |" in text
    with pytest.raises(InputError, match="`languages` must be a list"):
        encoder.export(artefact, "plain", languages="de")


def test_an_artefact_is_not_exported_again(artefact, tmp_path):
    with pytest.raises(InputError, match="cannot be exported again"):
        export(load_artefact(artefact), tmp_path / "b", "plain")


def test_a_fingerprint_follows_the_files(artefact):
    first = load_artefact(artefact).fingerprint
    change(artefact, languages=["fr"])
    assert load_artefact(artefact).fingerprint == first
    (artefact / "model.bin").write_bytes(b"WEIGHTS")
    card = json.loads((artefact / "card.json").read_text())
    sha = hashlib.sha256(b"WEIGHTS").hexdigest()
    change(artefact, files=card["files"] | {"model.bin": FILE | {"sha256": sha}})
    assert load_artefact(artefact).fingerprint != first
