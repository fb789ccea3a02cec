"""Damaged and hostile archives: one clear message each, and nothing is written."""

import gzip
import random
import tarfile

import pytest
from corpus_files import bucc_members, fails, moses, sentences, tarred, zipped


def test_broken_lines_and_archives(tmp_path):
    path, out = tmp_path / "de-en.txt.zip", tmp_path / "out"
    english, other = sentences()[:300], sentences()[300:600]
    for texts, match in (
        ((english, other[:-1]), "`TED2020.de-en.de` ends after line 299, .* goes on"),
        ((["\t"], ["x"]), "holds no pair with text on both sides"),
        (([], []), "member TED2020.de-en.(en|de)` is empty"),
    ):
        fails(match, "ted2020", moses(path, *texts), out)
    moses(path, english, other)
    whole = path.read_bytes()
    for data in (whole[:-30], whole[: len(whole) // 2], b"<html>", b""):
        path.write_bytes(data)
        fails("de-en.txt.zip` is a damaged or truncated archive", "ted2020", path, out)
    place = whole.index(b"TED2020.de-en.en") + 60
    path.write_bytes(whole[:place] + b"\0\0\0\0" + whole[place + 4 :])
    fails("de-en.txt.zip` is a damaged", "ted2020", path, out)
    zipped(path, [("T.de-en.en", b"a\nb\n"), ("T.de-en.de", b"\xc3\xa4\nb\xffc\n")])
    fails("de-en.txt.zip, member T.de-en.de`, line 2: text must be UTF-8.*0xff",
          "ted2020", path, out)  # fmt: skip


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/x", "a/../../x", "..\\x", "C:\\x", "\\\\host\\x"]
)
def test_hostile_names(tmp_path, name):
    path = moses(tmp_path / "x.zip", ["a"], ["b"], more=[(name, b"x")])
    match = "a name that leads out of the folder.*not the archive of this corpus"
    fails(match, "ted2020", path, tmp_path / "out")
    file = tarred(tmp_path / "bucc2018-de-en.sample-gold.tar.bz2", [(name, b"x")])
    fails(match, "bucc2018", [file], tmp_path / "out")


def test_links_bombs_locks_and_doubles(tmp_path):
    out = tmp_path / "out"
    link = tarfile.TarInfo("bucc2018/de-en/de-en.sample.de")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    file = tarred(tmp_path / "bucc2018-de-en.sample-gold.tar.bz2", [("", link)])
    fails("which is a link or a device", "bucc2018", [file], out)
    tarred(file, [("bucc2018/x", bytes(3 << 20))])
    fails("may unpack to 1,048,576 bytes. Received: 3,145,728", "bucc2018", [file], out)
    tarred(file, bucc_members("sample", b"a\tb\n" * 9999))
    file.write_bytes(file.read_bytes()[:-20])
    fails("is a damaged or truncated archive", "bucc2018", [file], out)
    draw = random.Random(2)
    text = "".join(f"{n}\t{draw.getrandbits(400):x}\n" for n in range(15_000)).encode()
    whole = tarred(file, bucc_members("sample", text)).read_bytes()
    middle = len(whole) // 4  # past the first block, which has 900,000 bytes
    for data in (whole[:middle], whole[:middle] + bytes(9999) + whole[middle + 9999 :]):
        file.write_bytes(data)
        fails("is a damaged or truncated archive", "bucc2018", [file], out)
    file.write_bytes(gzip.compress(b"x"))
    fails("is a damaged or truncated archive", "bucc2018", [file], out)
    path = moses(tmp_path / "x.zip", ["a"], ["b"], more=[("bomb", bytes(3 << 20))])
    fails("may unpack to 1,048,576 bytes", "ted2020", path, out)
    moses(path, ["a"], ["b"], more=[(f"m{i}", b"") for i in range(10_001)])
    fails("files of an archive may be at most 10,000. Received: 10,005",
          "ted2020", path, out)  # fmt: skip
    moses(path, ["a"], ["b"], more=[("other/T.en", b"x")])
    fails(r"must hold one file `\*.en`. Received: TED2020.de-en.en, other/T.en",
          "ted2020", path, out)  # fmt: skip
    zipped(path, [("T.en", b"a\n")])
    fails(
        r"must hold one file `\*.de`. Received: none, among T.en", "ted2020", path, out
    )
    data = bytearray(moses(path, ["a"], ["b"]).read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1  # the flag of encryption
    path.write_bytes(data)
    fails("is locked with a password", "ted2020", path, out)
