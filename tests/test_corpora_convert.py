"""From archives as their homes give them to our files."""

import bz2
import hashlib
import random
import unicodedata

import corpus_files
import pytest
from corpus_files import bucc_members, convert, fails, lines, moses, tarred, zipped

from keras_msd.checks import InputError
from keras_msd.data import read_pairs
from keras_msd.data.corpora.convert import DevSplit
from keras_msd.evaluate.set_files import read_table


def test_moses(tmp_path):
    sentences = corpus_files.sentences()
    other = [f"{text} auf Deutsch" for text in sentences]
    english = [unicodedata.normalize("NFD", text) for text in sentences]
    english[7], other[8] = " \t", ""
    other[9] = "tab\there\u2028and\x85there  "
    archive = moses(tmp_path / "de-en.txt.zip", english, other)
    rows = convert("ted2020", archive, tmp_path / "out")
    parts = {part: tmp_path / "out" / "parallel" / part for part in ("train", "dev")}
    found = {
        part: [p[:2] for p in read_pairs(folder)] for part, folder in parts.items()
    }
    assert {p.name for f in parts.values() for p in f.iterdir()} == {
        "ted2020.en-de.tsv.gz"
    }
    assert rows == {
        f"parallel/{part}/ted2020.en-de.tsv.gz": len(found[part]) for part in parts
    }
    expected = dict(zip(sentences, other, strict=True))
    expected[sentences[9]] = "tab here and there"
    del expected[sentences[7]], expected[sentences[8]]
    assert dict(found["train"]) | dict(found["dev"]) == expected
    assert len(found["train"]) + len(found["dev"]) == len(expected)
    assert [s for s, _ in found["train"]] == [
        s for s in expected if s in dict(found["train"])
    ]
    assert 8 <= len(found["dev"]) <= 40  # 20 are to be expected


def test_moses_gives_equal_bytes_and_a_dev_set_shared_by_languages(tmp_path):
    sentences = corpus_files.sentences()
    german = moses(tmp_path / "a.zip", sentences, [s + " A" for s in sentences])
    shuffled = random.Random(1).sample(sentences, len(sentences))
    french = moses(tmp_path / "b.zip", shuffled, [s + " B" for s in shuffled], "fr")
    held_out = []
    for code, archive in (("de", german), ("fr", french)):
        for out in ("one", "two"):
            paths = convert("ted2020", archive, tmp_path / out, [code])
        for path in paths:
            data = (tmp_path / "one" / path).read_bytes()
            assert data == (tmp_path / "two" / path).read_bytes()
        dev = tmp_path / "one" / "parallel" / "dev" / f"ted2020.en-{code}.tsv.gz"
        held_out.append([source for source, *_ in read_pairs(dev)])
    assert held_out[0] == held_out[1]


def test_dev_split_against_sorting():
    rows = [(f"Line, {n % 700}!", f"Zeile {n}") for n in range(1000)]
    split = DevSplit(size=20, one_in=4)
    held = [row for row in rows if split.holds_out(*row)]

    def number(row):
        key = row[0].lower().replace(" ", "").replace(",", "").replace("!", "")
        return int(hashlib.blake2b(key.encode(), digest_size=8).hexdigest(), 16)

    below = [row for row in rows if number(row) < 2**64 // 4]
    assert held == below
    assert 150 < len(held) < 350
    first = {number(row): row for row in reversed(below)}  # the first of equals stays
    assert list(split.rows()) == [first[n] for n in sorted(first)][:20]
    assert split.holds_out(held[0][0].upper().replace(",", " -"), "x")


def test_tatoeba(tmp_path):
    english, german = tmp_path / "tatoeba.deu-eng.eng", tmp_path / "tatoeba.deu-eng.deu"
    english.write_bytes(lines(["One.", "Two, two."]))
    german.write_bytes(lines(["Eins.", "Zwei\u00a0, zwei."]))
    rows = convert("tatoeba", [english, german], tmp_path / "out")
    assert rows == {"tatoeba/tatoeba.deu-eng.tsv.gz": 2}
    table = read_table(tmp_path / "out/tatoeba/tatoeba.deu-eng.tsv.gz", 2)
    assert [row for _, row in table] == [
        ["One.", "Eins."],
        ["Two, two.", "Zwei , zwei."],
    ]
    german.write_bytes(lines(["Eins."]))
    match = "deu-eng.deu` ends after line 1, `tatoeba.deu-eng.eng` goes on"
    fails(match, "tatoeba", [english, german], tmp_path / "new")


def test_stsb(tmp_path):
    text = '"A, man","He said ""no""",5.0\r\nOne,Two,2.615\r\n'
    files = [tmp_path / f"stsb-de-{part}.csv" for part in ("train", "dev", "test")]
    for file in files:
        file.write_bytes(text.encode())
    rows = convert("stsb-multi-mt", files, tmp_path / "out")
    assert rows == {f"sts/stsb.{p}.de.tsv.gz": 2 for p in ("train", "dev", "test")}
    table = [row for _, row in read_table(tmp_path / "out/sts/stsb.dev.de.tsv.gz", 3)]
    assert table == [["5.0", "A, man", 'He said "no"'], ["2.615", "One", "Two"]]
    for bad, match in (
        ("One,Two\n", "line 1: a row must be .*Received: 2 fields"),
        ("One,Two,2\nOne,Two,5.5\n", "line 2: a score must be .*0 to 5.*'5.5'"),
        ("One,Two,high\n", "line 1: a score must be .*'high'"),
        ("One,Two,nan\n", "line 1: a score must be .*'nan'"),
        ('"One,Two,2\n', "the file must be CSV"),
    ):
        files[0].write_text(bad)
        fails(
            f"stsb-de-train.csv`, .*{match}", "stsb-multi-mt", files, tmp_path / "new"
        )


TRACKS = {"1.ar-ar": "ar", "4a.es-en": "es", "4b.es-en": "mt", "5.en-en": "en"}


@pytest.fixture
def semeval(tmp_path):
    inputs = [
        (
            f"STS2017.eval.v1.1/STS.input.track{track}.txt",
            lines([f"{x} 1\t{x} 2\tsource"]),
        )
        for track, x in TRACKS.items()
    ]
    golds = [(f"STS2017.gs/STS.gs.track{track}.txt", b"3.4\n") for track in TRACKS]
    golds.append(("__MACOSX/STS2017.gs/._x", b"\0"))
    return [zipped(tmp_path / "in.zip", inputs), zipped(tmp_path / "gs.zip", golds)]


def test_sts2017(tmp_path, semeval):
    rows = convert("sts2017", semeval, tmp_path / "out", None)
    pairs = ("ar-ar", "es-en", "en-en")
    assert rows == {f"sts/sts2017.test.{pair}.tsv.gz": 1 for pair in pairs}
    table = read_table(tmp_path / "out/sts/sts2017.test.es-en.tsv.gz", 3)
    assert [row for _, row in table] == [["3.4", "es 1", "es 2"]]
    rows = convert("sts2017", semeval, tmp_path / "es", ["es"])
    assert list(rows) == [f"sts/sts2017.test.{p}.tsv.gz" for p in ("es-en", "en-en")]
    zipped(semeval[1], [("STS2017.gs/STS.gs.track5.en-en.txt", b"3\n4\n")])
    fails("en-en.txt` must have as many lines.*ends after line 1", "sts2017", semeval,
          tmp_path / "new", languages=["tr"])  # fmt: skip
    fails(r"must hold one file `\*STS.gs.track1.ar-ar.txt`. Received: none",
          "sts2017", semeval, tmp_path / "new", languages=["ar"])  # fmt: skip


def test_sts2017_extended(tmp_path):
    members = [("STS2017-extended/STS.nl-en.txt", b"Een.\tOne.\t4.5\n")]
    members += [("STS2017-extended/STS.ar-ar.txt", b"\xd8\xa7\t\xd8\xa8\t0\n")]
    archive = zipped(tmp_path / "x.zip", members)
    rows = convert("sts2017-extended", archive, tmp_path / "out", None)
    assert sorted(rows) == [f"sts/sts2017.test.{p}.tsv.gz" for p in ("ar-ar", "nl-en")]
    table = read_table(tmp_path / "out/sts/sts2017.test.nl-en.tsv.gz", 3)
    assert [row for _, row in table] == [["4.5", "Een.", "One."]]
    fails("no track in en, fr. Its tracks: nl-en, ar-ar", "sts2017-extended", archive,
          tmp_path / "new", languages=["fr"])  # fmt: skip


def test_bucc(tmp_path):
    files = [
        tmp_path / f"bucc2018-de-en.{p}-gold.tar.bz2" for p in ("sample", "training")
    ]
    for file, part in zip(files, ("sample", "training"), strict=True):
        tarred(file, [("bucc2018/README", b"\xff"), *bucc_members(part)])
    rows = convert("bucc2018", files, tmp_path / "out")
    names = [
        f"de-en.{p}.{e}" for p in ("sample", "training") for e in ("de", "en", "gold")
    ]
    assert rows == {f"bucc2018/de-en/{name}": 1 for name in names}
    assert (tmp_path / "out/bucc2018/de-en" / names[0]).read_bytes() == b"x-1\tA b\n"
    plain = bz2.decompress(files[0].read_bytes())  # packed in parallel: two streams
    files[0].write_bytes(bz2.compress(plain[:1000]) + bz2.compress(plain[1000:]))
    assert convert("bucc2018", files, tmp_path / "again") == rows
    tarred(files[0], bucc_members("sample")[:2])
    with pytest.raises(InputError, match="Missing: de-en.sample.gold"):
        convert("bucc2018", files, tmp_path / "new")
    tarred(files[0], bucc_members("sample", b"x-1 A\n"))
    fails("member bucc2018/de-en/de-en.sample.de`, line 1: a line must have two fields",
          "bucc2018", files, tmp_path / "none")  # fmt: skip
