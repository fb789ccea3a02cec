"""An index holds what plain NumPy says, is found in exactly, and tells its damage."""

import json

import numpy as np
import pytest

import keras_msd
from keras_msd.checks import InputError
from keras_msd.cli.output import write_vectors
from keras_msd.index import Found, Index, build_index
from keras_msd.index.index import quantize

DIM = 24
FILES = {
    "vectors.i8": "i1", "scales.f32": "<f4", "texts.utf8": "u1", "ends.i64": "<i8",
    "lines.i64": "<i8",
}  # fmt: skip


KNOWN = {
    "cosine": 0.5, "precision": 95.0, "recall": 80.0, "pairs": 8, "asked": 95.0,
    "set": "held out",
}  # fmt: skip


class Hashed:
    """Draws a vector for each text; counts what it sees."""

    fingerprint = "f" * 32
    max_length = 40

    def __init__(self):
        self.seen = []

    def encode(self, texts):
        self.seen += texts
        return np.array([self.one(text) for text in texts], np.float32)

    def one(self, text):
        draw = np.random.default_rng(list(text.encode()) or [0])
        return draw.normal(size=DIM) * 5


class Quantised(Hashed):
    """An artefact of that encoder, and as near to it as artefacts are."""

    fingerprint = "a" * 32
    card = {
        "encoder": {"fingerprint": Hashed.fingerprint},
        "threshold": KNOWN,
    }

    def one(self, text):
        return np.round(super().one(text), 1)


@pytest.fixture
def encoder():
    return Hashed()


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.md", tmp_path / "empty.txt"]
    paths[0].write_text("".join(f"line {i} ä\n" for i in range(300)), encoding="utf-8")
    paths[1].write_text("# Head\n\nOne.\n\n# Other\n\nTwo.\n")
    paths[2].write_text("\n\n")
    return paths


@pytest.fixture
def folder(encoder, files, tmp_path):
    build_index(encoder, files, tmp_path / "i", model="the model")
    return tmp_path / "i"


TEXTS = [f"line {i} ä" for i in range(300)] + ["Head One.", "Other Two."]


def unit(vectors):
    vectors = np.asarray(vectors, np.float64)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def raw(folder):
    return {name: np.fromfile(folder / name, dtype) for name, dtype in FILES.items()}


def test_files_hold_what_the_encoder_gives(encoder, folder):
    meta, arrays = json.loads((folder / "index.json").read_text()), raw(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*FILES, "index.json"]
    )
    assert (meta["dim"], meta["rows"], meta["limit"]) == (DIM, 302, 38)
    assert [source["chunks"] for source in meta["sources"]] == [300, 2, 0]
    edges = np.append(0, arrays["ends.i64"])
    content = arrays["texts.utf8"].tobytes()
    found = [content[a:b].decode() for a, b in zip(edges, edges[1:], strict=False)]
    assert found == TEXTS
    assert arrays["lines.i64"].tolist() == [*range(1, 301), 1, 5]
    codes = arrays["vectors.i8"].reshape(302, DIM)
    units = unit(np.array([encoder.one(text) for text in TEXTS]).astype(np.float32))
    expected = np.rint(127 * units / np.abs(units).max(axis=1, keepdims=True))
    np.testing.assert_array_equal(codes, expected)
    stored = codes * arrays["scales.f32"][:, None].astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(stored, axis=1), 1, atol=1e-6)
    errors = np.linalg.norm(unit(codes) - units, axis=1)
    assert meta["error"] == pytest.approx(errors.max())
    assert meta["sources"][1]["error"] == pytest.approx(errors[300:].max())


@pytest.mark.parametrize("dim", [2, 384])
def test_no_cosine_is_off_by_more_than_the_error_said(dim):
    draw = np.random.default_rng(dim)
    sizes = 10.0 ** draw.integers(-9, 9, (200, 1))
    vectors = draw.standard_t(2, size=(200, dim)) * sizes
    vectors[7] = 0
    codes, scales, error = quantize(vectors)
    assert codes.dtype == np.int8 and not codes[7].any() and scales[7] == 0
    codes, scales, vectors = (
        np.delete(it, 7, axis=0) for it in (codes, scales, vectors)
    )
    assert (np.abs(codes).max(axis=1) == 127).all()
    units, stored = unit(vectors), codes * scales[:, None].astype(float)
    # The worst query of a vector lies along its error.
    queries = unit([*draw.normal(size=(100, dim)), *(units - unit(stored) + 1e-12)])
    gaps = np.abs(queries @ (units - stored).T)
    assert gaps.max() <= error + 1e-6 and gaps.max() > 0.99 * error > 0
    e = np.sqrt(dim) * np.abs(units).max(axis=1) / 254
    assert error <= np.sqrt(2 - 2 * np.sqrt(1 - e**2)).max() + 1e-12


@pytest.mark.parametrize("top", [1, 10, 999])
def test_search_is_exact_over_what_is_stored(encoder, folder, top):
    index = Index.open(folder)
    stored = unit(raw(folder)["vectors.i8"].reshape(-1, DIM))
    for query in ("where?", "line 7 ä", "ο"):
        cosines = stored @ unit(encoder.encode([query])[0])
        order = np.argsort(-cosines, kind="stable")[:top]
        found = index.search(encoder, query, top)
        assert [one.text for one in found] == [TEXTS[row] for row in order]
        assert [one.cosine for one in found] == pytest.approx(cosines[order], abs=1e-6)
    assert index.search(encoder, "line 7 ä", 1)[0][2:] == (index.sources[0].name, 8)
    assert index.search(encoder, "Other Two.", 1)[0][2:] == (index.sources[1].name, 5)


def test_equal_chunks_come_in_their_order(encoder, tmp_path):
    (tmp_path / "a.txt").write_text("same\n" * 9 + "other\n")
    index = build_index(encoder, [tmp_path / "a.txt"], tmp_path / "i")
    found = index.search(encoder, "same", 5)
    assert [one.line for one in found] == [1, 2, 3, 4, 5]


def test_threshold_cuts(encoder, folder):
    index = Index.open(folder)
    cosines = [one.cosine for one in index.search(encoder, "where?", 9)]
    assert len(index.search(encoder, "where?", 9, threshold=cosines[3] - 1e-6)) == 4
    assert index.search(encoder, "where?", 9, threshold=1.5) == []


def test_only_what_changed_is_embedded(encoder, files, folder, tmp_path):
    before = raw(folder)
    encoder.seen.clear()
    files[1].write_text("# Head\n\nThree.\n")
    moved = files[0].rename(tmp_path / "moved.txt")
    new = tmp_path / "new.txt"
    new.write_text("new line\n")
    index = build_index(encoder, [files[1], new, moved], folder)
    assert encoder.seen == ["Head Three.", "new line"]
    assert [source.name for source in index.sources] == [
        str(p) for p in (files[1], new, moved)
    ]
    after = raw(folder)
    np.testing.assert_array_equal(
        after["vectors.i8"][2 * DIM :], before["vectors.i8"][: 300 * DIM]
    )
    np.testing.assert_array_equal(after["lines.i64"], [1, 1, *range(1, 301)])
    assert index.search(encoder, "line 7 ä", 1)[0][1:] == ("line 7 ä", str(moved), 8)
    encoder.seen.clear()
    build_index(encoder, [files[1], new, moved], tmp_path / "afresh")
    assert len(encoder.seen) == 302
    for name, array in raw(tmp_path / "afresh").items():
        np.testing.assert_array_equal(array, after[name])
    encoder.seen.clear()
    build_index(encoder, [new], folder)
    assert encoder.seen == [] and len(Index.open(folder)) == 1
    build_index(encoder, [new], folder, limit=1)  # read in another way
    assert encoder.seen == ["new", "line"]


def test_what_concerns_other_files_leaves_vectors(encoder, files, folder, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("id,text\n1,one\n")
    encoder.seen.clear()
    build_index(encoder, [files[0], table], folder, column="text")
    assert encoder.seen == ["one"]
    build_index(encoder, [files[0], table], folder, column="id")
    assert encoder.seen == ["one", "1"]
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="would be replaced.*index: notes.txt"):
        build_index(encoder, [files[0]], folder)


def test_a_failed_build_changes_nothing(encoder, files, folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def broken(texts):
        return np.full((len(texts), DIM), np.nan)

    encoder.encode = broken
    files[1].write_text("# New\n")
    with pytest.raises(InputError, match="must be finite"):
        build_index(encoder, files, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [
        path.name for path in folder.parent.iterdir() if "partial" in path.name
    ] == []


def test_another_model_is_refused(encoder, files, folder):
    other = Hashed()
    other.fingerprint = "e" * 32
    for action in (
        lambda: Index.open(folder).search(other, "x"),
        lambda: build_index(other, files, folder),
    ):
        with pytest.raises(InputError, match="built with another model.*the model"):
            action()
    with pytest.raises(InputError, match="must have a `fingerprint`"):
        build_index(object(), files, folder)
    # An artefact of the encoder may ask, but its vectors are not mixed with others.
    assert Index.open(folder).search(Quantised(), "line 7 ä", 1)[0].line == 8
    with pytest.raises(InputError, match="built with another model"):
        build_index(Quantised(), files, folder)


def test_a_model_is_checked_once(encoder, folder, monkeypatch):
    """A fingerprint reads every weight, which takes longer than a search."""
    index, asked = Index.open(folder), []
    check = index.check_model
    monkeypatch.setattr(index, "check_model", lambda it: asked.append(it) or check(it))
    for _ in range(3):
        index.search(encoder, "A query")
    assert asked == [encoder]
    other = Hashed()
    other.fingerprint = "e" * 32
    for _ in range(2):
        with pytest.raises(InputError, match="built with another model"):
            index.search(other, "A query")
    assert asked == [encoder, other, other]


def test_threshold_of_the_card_is_kept(files, tmp_path):
    index = build_index(Quantised(), files, tmp_path / "i")
    assert index.threshold == KNOWN
    assert index.search(Hashed(), "line 7 ä", 1)[0].line == 8
    index = build_index(
        Quantised(), files, tmp_path / "i", threshold=KNOWN | {"cosine": 0.7}
    )
    assert Index.open(tmp_path / "i").threshold == KNOWN | {"cosine": 0.7}
    with pytest.raises(InputError, match="`threshold` must be.*key `set` is missing"):
        wrong = {key: KNOWN[key] for key in KNOWN if key != "set"}
        build_index(Quantised(), files, tmp_path / "i", threshold=wrong)


@pytest.mark.parametrize("name", sorted(FILES))
def test_damage_is_told(encoder, files, folder, name):
    path, content = folder / name, (folder / name).read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match=f"changes in {name}. Delete"):
        Index.open(folder)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=f"changes in {name}. Delete"):
        build_index(encoder, files, folder)
    path.unlink()
    with pytest.raises(InputError, match=f"changes in {name}. Delete"):
        Index.open(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 7}, "format 7"),
        ({"rows": 301}, "must be as it was written. Received: changes in index.json"),
        ({"files": {}}, "must be as it was written. Received: changes in index.json"),
    ],
)
def test_a_wrong_description_is_told(folder, change, message):
    meta = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(meta | change))
    with pytest.raises(InputError, match=message):
        Index.open(folder)


def test_no_index_and_no_text(encoder, files, folder, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        Index.open(tmp_path / "none")
    (folder / "index.json").write_text("[]")
    with pytest.raises(InputError, match="must be a table"):
        Index.open(folder)
    (folder / "index.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        Index.open(folder)
    (folder / "index.json").unlink()
    with pytest.raises(InputError, match="holds what is of no index: ends.i64"):
        build_index(encoder, files, folder)
    with pytest.raises(InputError, match="is a file"):
        build_index(encoder, files, files[0])
    with pytest.raises(InputError, match="no text to index"):
        build_index(encoder, [files[2]], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_vectors_of_embed_are_an_index(encoder, tmp_path):
    path = tmp_path / "v.npz"
    write_vectors(path, TEXTS, encoder.encode(TEXTS))
    index = Index.open(path)
    cosines = unit(encoder.encode(TEXTS)) @ unit(encoder.encode(["where?"])[0])
    order = np.argsort(-cosines)[:4]
    assert index.search(encoder, "where?", 4) == [
        Found(round(float(cosines[row]), 6), TEXTS[row], str(path), row + 1)
        for row in order.tolist()
    ]
    assert index.threshold is None and len(index) == 302
    narrow = Hashed()
    narrow.encode = lambda texts: np.ones((len(texts), 3))
    with pytest.raises(InputError, match="holds vectors of 24 numbers"):
        index.search(narrow, "x")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="not a whole .npz"):
        Index.open(path)


def test_chunks_are_as_long_as_a_real_encoder_reads(tokenizer, tmp_path):
    encoder = keras_msd.testing.tiny_encoder(tokenizer)
    (tmp_path / "a.txt").write_text("The cat sleeps on the chair. " * 30)
    index = build_index(encoder, [tmp_path / "a.txt"], tmp_path / "i")
    texts = [index.found(row, 0.0).text for row in range(len(index))]
    assert " ".join(texts) == ("The cat sleeps on the chair. " * 30).strip()
    lengths = [len(ids) for ids in tokenizer.encode_plain(texts)]
    assert max(lengths) <= encoder.max_length - 2 and len(texts) > 5
    expected = unit(encoder.encode(texts))
    stored = index.rows.vectors * index.rows.scales[:, None]
    assert np.abs(stored - expected).max() < 0.01
