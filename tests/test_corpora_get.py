"""`keras-msd data get`, end to end, against a server on this machine."""

import gzip
import hashlib
import io
import json
import sys
import tomllib
import urllib.parse
from pathlib import Path

import pytest
from command_line import run
from corpus_files import bucc_members, lines, moses, sentences, tarred
from corpus_server import served

from keras_msd.checks import InputError
from keras_msd.cli import data as cli_data
from keras_msd.data import read_pairs
from keras_msd.data.corpora import (
    catalogue,
    convert,
    corpora,
    corpus,
    download,
    get,
    get_corpus,
)
from keras_msd.evaluate import sts_folder
from keras_msd.testing import tiny_encoder

OPUS = "/object.pouta.csc.fi/OPUS-TED2020/v1/moses"
STSB = "/raw.githubusercontent.com/PhilipMay/stsb-multi-mt/main/data"


@pytest.fixture
def home(monkeypatch):
    """Stand in for all homes; no checksum is known."""
    with served() as one:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv(download.MIRROR, one.url)
        monkeypatch.setattr(download, "PAUSE", 0)
        monkeypatch.setattr(catalogue, "_checksums", dict)
        yield one


def opus(home, folder, *codes):
    texts = sentences()[:600]
    for code in codes:
        pair = "-".join(sorted(("en", code)))
        path = moses(folder / "made.zip", texts, [f"{t} {code}" for t in texts], code)
        home.files[f"{OPUS}/{pair}.txt.zip"] = path.read_bytes()


def test_command(home, tmp_path, capsys):
    opus(home, tmp_path, "de", "fr")
    home.breaks = [5_000]
    out = tmp_path / "data"
    code, said, asked = run(
        capsys, "data", "get", "ted2020", "--languages", "de,fr", "--out", out, "--yes"
    )
    assert code == 0
    assert home.gets() == [None, "bytes=5000-", None]
    size = len(home.files[f"{OPUS}/de-en.txt.zip"])
    for part in ("TED2020 v1", "Licence: CC BY-NC-ND 4.0", "none published",
                 f"de-en.txt.zip: {size:,} bytes, by size only, https://object.pouta",
                 "To fetch: 2 files"):  # fmt: skip
        assert part in asked
    assert "recorded, not verified" in said
    pairs = {
        part: list(read_pairs(out / "parallel" / part)) for part in ("train", "dev")
    }
    assert len(pairs["train"]) + len(pairs["dev"]) == 1200
    assert {pair.language for pair in pairs["train"]} == {"de", "fr"}
    assert (
        f"parallel/train/ted2020.en-de.tsv.gz: {len(pairs['train']) // 2} rows" in said
    )
    record = json.loads((out / "sources" / "ted2020.json").read_text())
    assert record["licence"].startswith("CC BY-NC-ND")
    assert record["files"]["de-en.txt.zip"]["url"].startswith("https://object.pouta")
    assert record["files"]["de-en.txt.zip"]["verified"] == "size"
    assert len(record["outputs"]) == 4

    home.asked.clear()
    code, said, asked = run(
        capsys, "data", "get", "ted2020", "--languages", "de,fr", "--out", out, "--json"
    )
    assert code == 0 and "Nothing to fetch" in asked and home.asked == []
    assert set(json.loads(said)["outputs"]) == set(record["outputs"])


def test_question(home, tmp_path, capsys, monkeypatch):
    opus(home, tmp_path, "de")
    arguments = (
        "data",
        "get",
        "ted2020",
        "--languages",
        "de",
        "--out",
        tmp_path / "data",
    )
    code, _, asked = run(capsys, *arguments)
    assert code == 2 and "no terminal to ask at" in asked and "--yes" in asked

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for answer, expected in (("n\n", 1), ("y\n", 0)):
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        code, said, _ = run(capsys, *arguments)
        assert code == expected
        assert ("Nothing was fetched." in said) == (expected == 1)
        assert (tmp_path / "data" / "parallel").exists() == (expected == 0)


def test_errors_say_what_to_do_by_hand(home, tmp_path, capsys, monkeypatch):
    out = tmp_path / "data"
    arguments = ("data", "get", "ted2020", "--languages", "de", "--out", out, "--yes")
    code, _, said = run(capsys, *arguments)
    place = out / "downloads" / "ted2020" / "de-en.txt.zip"
    assert code == 2 and "does not exist" in said and "may lack this language" in said
    monkeypatch.setenv(download.MIRROR, "http://127.0.0.1:1")
    code, _, said = run(capsys, *arguments)
    assert code == 2 and "cannot be reached" in said
    assert f"By hand: get https:/{OPUS}/de-en.txt.zip on a machine" in said
    assert f"put it at {place}, and give the same command again" in said
    place.parent.mkdir(parents=True)
    moses(place, sentences()[:50], sentences()[:50])
    code, said, _ = run(capsys, *arguments)
    assert code == 0 and "neither it nor the size is published" in said
    assert len(list(read_pairs(out / "parallel" / "train"))) > 40


def test_later_download_must_be_the_recorded_one(home, tmp_path):
    opus(home, tmp_path, "de")
    out = tmp_path / "data"
    first = get_corpus("ted2020", ["de"], out)
    (out / "parallel/train/ted2020.en-de.tsv.gz").unlink()
    again = get_corpus("ted2020", ["de"], out)
    assert again == first | {"files": again["files"]} and len(home.gets()) == 1
    table = out / "parallel/train/ted2020.en-de.tsv.gz"
    whole = table.read_bytes()
    table.write_bytes(b"x" * len(whole))
    get_corpus("ted2020", ["de"], out)
    assert table.read_bytes() == whole, "the same size alone is not enough"
    table.unlink()
    (out / "downloads/ted2020/de-en.txt.zip").unlink()
    home.files[f"{OPUS}/de-en.txt.zip"] += b" "
    with pytest.raises(InputError, match="SHA-256 of the earlier.*ted2020.json"):
        get_corpus("ted2020", ["de"], out)


def test_truncated_archive_is_no_yardstick(home, tmp_path):
    opus(home, tmp_path, "de")
    out, path = tmp_path / "data", f"{OPUS}/de-en.txt.zip"
    whole = home.files[path]
    home.files[path] = whole[:-50]
    with pytest.raises(InputError, match="damaged or truncated archive.*Delete it"):
        get_corpus("ted2020", ["de"], out)
    assert not (out / "parallel/train/ted2020.en-de.tsv.gz").exists()
    (out / "downloads/ted2020/de-en.txt.zip").unlink()
    home.files[path] = whole
    assert get_corpus("ted2020", ["de"], out)["done"]


def test_published_checksum(home, tmp_path, monkeypatch):
    opus(home, tmp_path, "de")
    size = len(home.files[f"{OPUS}/de-en.txt.zip"])
    known = {"de-en.txt.zip": (size, "0" * 64)}
    monkeypatch.setattr(catalogue, "_checksums", lambda: known)
    with pytest.raises(InputError, match=f"SHA-256 {'0' * 64}.*deleted.*By hand"):
        get_corpus("ted2020", ["de"], tmp_path / "data")


def test_too_little_room(home, tmp_path, monkeypatch):
    opus(home, tmp_path, "de")
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(get.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InputError, match="bytes of free disk. Received: 100"):
        get_corpus("ted2020", ["de"], tmp_path / "data")
    assert home.gets() == []


def test_similarity_set_is_scored(home, tmp_path):
    for code in ("en", "de"):
        for part in ("train", "dev", "test"):
            rows = [f"{code} {i},{code} {i * i},{i % 6}.0" for i in range(12)]
            home.files[f"{STSB}/stsb-{code}-{part}.csv"] = lines(rows)
    result = get_corpus("stsb-multi-mt", ["de"], tmp_path)
    assert len(result["outputs"]) == 6, "English comes along"
    scores = sts_folder(tiny_encoder(), tmp_path / "sts", ["de"], "dev")
    assert "cross_lingual" in scores


def test_bucc(home, tmp_path):
    for part in ("sample", "training"):
        name = f"bucc2018-de-en.{part}-gold.tar.bz2"
        path = tarred(tmp_path / "x", bucc_members(part))
        home.files[f"/comparable.limsi.fr/bucc2018/{name}"] = path.read_bytes()
    get_corpus("bucc2018", ["de"], tmp_path)
    names = {path.name for path in (tmp_path / "bucc2018" / "de-en").iterdir()}
    assert "de-en.training.gold" in names and len(names) == 6


def test_languages():
    def urls(name, *codes):
        found = corpus(name).portions(codes or None)
        return [file.url for portion in found for file in portion.files]

    base = "https://object.pouta.csc.fi/OPUS-TED2020/v1/moses/"
    assert urls("ted2020", "tr", "de", "en", "zh", "de") == [
        f"{base}{pair}.txt.zip" for pair in ("en-tr", "de-en", "en-zh_cn")
    ]
    assert len(urls("tatoeba")) == 224
    assert [url[-11:] for url in urls("tatoeba", "zh", "deu")] == [
        "cmn-eng.eng", "cmn-eng.cmn", "deu-eng.eng", "deu-eng.deu",
    ]  # fmt: skip
    assert len(urls("sts2017")) == 2 and len(urls("sts2017-extended", "de")) == 1
    assert len(urls("bucc2018")) == 8
    for name, given, match in (
        ("ted2020", None, "must name those to fetch"),
        ("ted2020", ["en"], "one beside English"),
        ("ted2020", ["../x"], "must be a code.*'../x'"),
        ("europarl", ["de", "tr"], "has no `tr`. It has: bg, cs"),
        ("tedd2020", ["de"], "must be one of.*Did you mean `ted2020`"),
    ):
        with pytest.raises(InputError, match=f"(?s){match}"):
            corpus(name).portions(given)


def test_catalogue():
    help_text = cli_data.get.__annotations__["name"].__metadata__[0].help
    folder = Path(catalogue.__file__).parent
    assert set(tomllib.loads((folder / "catalogue.toml").read_text())) == set(corpora())
    files = {}
    for one in corpora().values():
        assert one.name in help_text
        assert one.converter in convert.CONVERTERS
        assert set(one.codes.values()) <= set(one.languages or one.codes.values())
        for portion in one.portions(one.languages or ("de",)):
            files |= {file.name: file for file in portion.files}
            hosts = {urllib.parse.urlsplit(f.url).netloc for f in portion.files}
            assert len(hosts) == 1 and not any("{" in f.url for f in portion.files)
    known = catalogue._checksums()
    assert set(known) <= set(files) and len(known) == 108
    assert all(len(c) == 64 and size > 0 for size, c in known.values())
    assert len({c for _, c in known.values()}) == 108
    assert download.PAUSE > 0


def test_checksums_are_those_of_the_real_files(shared_data):
    """The English sides of the Tatoeba set lie there as its home gives them."""
    compared = 0
    for path in sorted((shared_data / "tatoeba").glob("*.tsv.gz")):
        name = path.name.removesuffix(".tsv.gz") + ".eng"
        if name in catalogue._checksums():
            rows = (
                gzip.decompress(path.read_bytes()).decode().splitlines(keepends=False)
            )
            text = lines(row.split("\t")[0] for row in rows)
            found = (len(text), hashlib.sha256(text).hexdigest())
            assert found == catalogue._checksums()[name]
            compared += 1
    assert compared >= 15
