"""What a home gives becomes `parallel/`, `tatoeba/`, `sts/` or `bucc2018/` of a folder.

A converter is `(corpus, portion, files, out) -> rows by path in out`. The tables that
it writes are complete or not there at all.
"""

import gzip
import hashlib
import heapq
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from keras_msd.checks import InputError, at_least
from keras_msd.data.cleaning import normalize
from keras_msd.data.corpora.archives import (
    Lines,
    open_zip,
    tar_lines,
    zip_lines,
    zip_member,
)
from keras_msd.data.corpora.catalogue import Corpus, Portion
from keras_msd.data.readers.lines import csv_rows, read_lines
from keras_msd.data.readers.moses import aligned
from keras_msd.files import atomic_path
from keras_msd.progress import track

Rows = dict[str, int]  # rows written, by path in the data folder
Pair = tuple[str, str]

ONE_IN = 200
LARGEST = 1000
NOT_WORDS = re.compile(r"[\W_]+")
LOW, HIGH = 0, 5
# Track 4b judges machine translation; the published tables use 4a.
INPUT = re.compile(r"STS\.input\.track(?!4b)\w+\.([a-z]{2})-([a-z]{2})\.txt$")
EXTENDED = re.compile(r"STS\.([a-z]{2})-([a-z]{2})\.txt$")


def moses(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Split the two texts of an OPUS archive into training and development pairs.

    Texts are normalised and pairs with an empty side left out; see `DevSplit` for the
    development set.
    """
    (language,) = portion.languages
    name = f"{corpus.name}.en-{language}.tsv.gz"
    train, dev = (f"parallel/{part}/{name}" for part in ("train", "dev"))
    split = DevSplit()
    with open_zip(files[0]) as archive:
        ends = [zip_member(archive, f".{code}") for code in ("en", portion.code)]
        both = aligned([zip_lines(archive, end) for end in ends], ends)
        pairs = track(_full(both), what=f"{name}, pairs")
        training = (pair for pair in pairs if not split.holds_out(*pair))
        if (first := next(training, None)) is None:
            raise InputError(
                f"`{files[0]}` holds no pair with text on both sides. Delete it and "
                "give the command again."
            )
        rows = {train: write_rows(out / train, chain([first], training))}
    if split.kept:
        rows[dev] = write_rows(out / dev, split.rows())
    return rows


def tatoeba(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Put the English and the other text side by side, in their order."""
    path = f"tatoeba/tatoeba.{portion.code}-eng.tsv.gz"
    both = aligned([read_lines(file) for file in files], [f.name for f in files])
    return {path: write_rows(out / path, _full(both))}


def _full(pairs: Iterable[Pair]) -> Iterator[Pair]:
    for source, target in pairs:
        pair = normalize(source), normalize(target)
        if all(pair):
            yield pair


class DevSplit:
    """Sends each pair to training, or holds it out for development.

    What decides is a hash of the English sentence without case, punctuation and
    spaces. So the same sentence is held out of every corpus and language that is split
    like this, and the order of the rows does not count. Of those held out, the `size`
    with the smallest hashes are the development set, each English sentence once; the
    rest is left out. Memory holds `size` pairs.

    Args:
        size: Most pairs of the development set.
        one_in: Of so many English sentences, one is held out.
    """

    def __init__(self, size: int = LARGEST, one_in: int = ONE_IN) -> None:
        at_least(1, size=size, one_in=one_in)
        self.size = size
        self.bound = 2**64 // one_in
        self.kept: dict[int, Pair] = {}
        self._largest_first: list[int] = []

    def holds_out(self, source: str, target: str) -> bool:
        """Return whether a pair is not for training, and remember it if needed."""
        key = NOT_WORDS.sub("", source.casefold()).encode()
        number = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
        if number >= self.bound:
            return False
        if number not in self.kept:
            self.kept[number] = (source, target)
            heapq.heappush(self._largest_first, -number)
            if len(self.kept) > self.size:
                del self.kept[-heapq.heappop(self._largest_first)]
        return True

    def rows(self) -> Iterator[Pair]:
        """Yield the development set, in the order of the hashes."""
        for number in sorted(self.kept):
            yield self.kept[number]


def stsb(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Turn `sentence1,sentence2,score` of CSV files into `sts/stsb.<split>.<xx>`."""
    (language,) = portion.languages
    rows: Rows = {}
    for file in files:
        path = f"sts/stsb.{file.stem.rpartition('-')[2]}.{language}.tsv.gz"
        rows[path] = write_rows(out / path, _scored(csv_rows(file)))
    return rows


def sts2017(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Join the inputs and gold scores of SemEval: `sts/sts2017.test.<xx>-<yy>`."""
    rows: Rows = {}
    with open_zip(files[0]) as inputs, open_zip(files[1]) as golds:
        for member, path in _tracks(inputs, INPUT, portion, files[0]):
            gold = zip_member(golds, Path(member).name.replace(".input.", ".gs."))
            sides = zip_lines(inputs, member), zip_lines(golds, gold)
            both = aligned(sides, (member, gold))
            triples = ([*texts.split("\t")[:2], score] for texts, score in both)
            rows[path] = write_rows(out / path, _scored(_numbered(member, triples)))
    return rows


def sts2017_extended(
    corpus: Corpus, portion: Portion, files: list[Path], out: Path
) -> Rows:
    """Turn `sentence1 TAB sentence2 TAB score` of each track into our order."""
    rows: Rows = {}
    with open_zip(files[0]) as archive:
        for member, path in _tracks(archive, EXTENDED, portion, files[0]):
            triples = (line.split("\t") for _, line in zip_lines(archive, member))
            rows[path] = write_rows(out / path, _scored(_numbered(member, triples)))
    return rows


def _tracks(
    archive: zipfile.ZipFile, name: re.Pattern[str], portion: Portion, origin: Path
) -> list[tuple[str, str]]:
    """Return (member, path to write) of the tracks in the languages asked for."""
    tracks = {
        member: match.groups()
        for member in archive.namelist()
        if (match := name.search(member)) and "__MACOSX" not in member
    }
    asked = dict.fromkeys(["en", *portion.languages])
    chosen = [
        (member, f"sts/sts2017.test.{'-'.join(pair)}.tsv.gz")
        for member, pair in tracks.items()
        if not portion.languages or set(pair) <= asked.keys()
    ]
    if not chosen:
        pairs = ", ".join(map("-".join, tracks.values())) or "none"
        raise InputError(
            f"`{origin}` has no track in {', '.join(asked)}. Its tracks: {pairs}. Give "
            "languages among them."
        )
    return chosen


def _numbered(
    member: str, rows: Iterable[list[str]]
) -> Iterator[tuple[str, list[str]]]:
    for number, fields in enumerate(rows, 1):
        yield f"`{member}`, line {number}", fields


def _scored(rows: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, str, str]]:
    """Yield (score, sentence 1, sentence 2) of (where, [sentence 1, 2, score])."""
    for where, fields in rows:
        if len(fields) != 3:
            raise InputError(
                f"{where}: a row must be sentence 1, sentence 2, score. Received: "
                f"{len(fields)} fields. Delete the file and give the command again."
            )
        first, second, score = fields
        try:
            fits = LOW <= float(score) <= HIGH
        except ValueError:
            fits = False
        if not fits:
            raise InputError(
                f"{where}: a score must be a number from {LOW} to {HIGH}. Received: "
                f"{score!r:.40}. Get the file again."
            )
        yield score, first, second


def bucc(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Copy `<xx>-en.<part>.<xx|en|gold>`: lines of two fields, texts as they are."""
    pair = f"{portion.code}-en"
    rows: Rows = {}
    for file in files:
        part = re.sub(r".*\.(\w+)-gold\..*", r"\1", file.name)
        names = [f"{pair}.{part}.{end}" for end in (portion.code, "en", "gold")]
        for member, lines in tar_lines(file):
            name = member.rpartition("/")[2]
            if name in names:
                path = f"bucc2018/{pair}/{name}"
                rows[path] = _copy(lines, f"{file}, member {member}", out / path)
        missing = [name for name in names if f"bucc2018/{pair}/{name}" not in rows]
        if missing:
            raise InputError(
                f"`{file}` must hold {', '.join(names)}. Missing: "
                f"{', '.join(missing)}. Delete it and give the command again."
            )
    return rows


def _copy(lines: Lines, source: str, path: Path) -> int:
    number = 0
    with (
        atomic_path(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as out,
    ):
        for number, line in lines:
            if line.count("\t") != 1:
                raise InputError(
                    f"`{source}`, line {number}: a line must have two fields, with a "
                    f"tab between. Received: {line!r:.80}. Delete the archive and give "
                    "the command again."
                )
            out.write(line + "\n")
    return number


def write_rows(path: Path, rows: Iterable[Sequence[str]]) -> int:
    """Write rows as gzip-compressed TSV and count them; equal rows, equal bytes.

    The fields are normalised, so that none holds a tab or an end of line.
    """
    count = 0
    with (
        atomic_path(path) as temporary,
        open(temporary, "wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
        io.TextIOWrapper(packed, "utf-8", newline="\n") as text,
    ):
        for fields in rows:
            text.write("\t".join(map(normalize, fields)) + "\n")
            count += 1
    return count


CONVERTERS: dict[str, Callable[[Corpus, Portion, list[Path], Path], Rows]] = {
    "bucc": bucc,
    "moses": moses,
    "sts2017": sts2017,
    "sts2017-extended": sts2017_extended,
    "stsb": stsb,
    "tatoeba": tatoeba,
}
