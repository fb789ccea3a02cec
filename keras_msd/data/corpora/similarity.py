"""Graded similarity sets become `sts/` of a data folder."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.corpora.archives import open_zip, zip_lines, zip_member
from keras_msd.data.corpora.catalogue import Corpus, Portion
from keras_msd.data.corpora.parallel import Rows
from keras_msd.data.corpora.tables import score, table
from keras_msd.data.readers.csv_rows import csv_rows

LOW, HIGH = 0, 5
# Track 4b judges machine translation; the published tables use 4a.
INPUT = re.compile(r"STS\.input\.track(?!4b)\w+\.([a-z]{2})-([a-z]{2})\.txt$")
EXTENDED = re.compile(r"STS\.([a-z]{2})-([a-z]{2})\.txt$")


def stsb(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Turn `sentence1,sentence2,score` of CSV files into `sts/stsb.<split>.<xx>`."""
    (language,) = portion.languages
    rows: Rows = {}
    for file in files:
        path = f"sts/stsb.{file.stem.rpartition('-')[2]}.{language}.tsv.gz"
        rows[path] = 0
        with table(out / path) as write:
            for where, one, two, gold in _csv_rows(file):
                write(score(gold, LOW, HIGH, where), one, two)
                rows[path] += 1
    return rows


def _csv_rows(file: Path) -> Iterator[tuple[str, str, str, str]]:
    for where, fields in csv_rows(file):
        if len(fields) != 3:
            raise InputError(
                f"{where}: a row must be sentence1,sentence2,score. Received: "
                f"{len(fields)} fields. Delete the file and give the command again."
            )
        yield where, fields[0], fields[1], fields[2]


def sts2017(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Join the inputs and gold scores of SemEval: `sts/sts2017.test.<xx>-<yy>`."""
    with open_zip(files[0]) as inputs, open_zip(files[1]) as golds:
        rows: Rows = {}
        for member, pair in _tracks(inputs, INPUT, portion, files[0]):
            gold = zip_member(golds, Path(member).name.replace(".input.", ".gs."))
            scores = [line for _, line in zip_lines(golds, gold)]
            texts = [line.split("\t") for _, line in zip_lines(inputs, member)]
            if len(texts) != len(scores):
                raise InputError(
                    f"`{member}` and `{gold}` must have as many lines. Received: "
                    f"{len(texts)} and {len(scores)}. Delete the archives and give the "
                    "command again."
                )
            triples = [[*t[:2], s] for t, s in zip(texts, scores, strict=True)]
            rows |= _write_track(triples, member, pair, out)
    return rows


def sts2017_extended(
    corpus: Corpus, portion: Portion, files: list[Path], out: Path
) -> Rows:
    """Turn `sentence1 TAB sentence2 TAB score` of each track into our order."""
    rows: Rows = {}
    with open_zip(files[0]) as archive:
        for member, pair in _tracks(archive, EXTENDED, portion, files[0]):
            triples = [line.split("\t") for _, line in zip_lines(archive, member)]
            rows |= _write_track(triples, member, pair, out)
    return rows


def _tracks(
    archive: zipfile.ZipFile, name: re.Pattern[str], portion: Portion, path: Path
) -> list[tuple[str, str]]:
    """Return (member, pair of codes) of the tracks in the languages that are wanted."""
    found = [
        (member, match)
        for member in archive.namelist()
        if (match := name.search(member)) and "__MACOSX" not in member
    ]
    wanted = dict.fromkeys(["en", *portion.languages])
    tracks = [
        (member, f"{match[1]}-{match[2]}")
        for member, match in found
        if not portion.languages or {match[1], match[2]} <= wanted.keys()
    ]
    if not tracks:
        pairs = ", ".join(f"{match[1]}-{match[2]}" for _, match in found) or "none"
        raise InputError(
            f"`{path}` has no track in {', '.join(wanted)}. Its tracks: {pairs}. Give "
            "languages among them."
        )
    return tracks


def _write_track(triples: list[list[str]], member: str, pair: str, out: Path) -> Rows:
    path = f"sts/sts2017.test.{pair}.tsv.gz"
    with table(out / path) as write:
        for number, fields in enumerate(triples, 1):
            where = f"`{member}`, line {number}"
            if len(fields) != 3:
                raise InputError(
                    f"{where}: a line must have two sentences, with a score. Received: "
                    f"{len(fields)} of the three. Delete the archive and give the "
                    "command again."
                )
            write(score(fields[2], LOW, HIGH, where), fields[0], fields[1])
    return {path: len(triples)}
