"""Sentences and pairs of a data folder, for benchmarks of any library."""

import gzip
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path

LANGUAGES = "en ar de es fr it ja nl pl pt ru tr zh".split()


def rows(path: Path, most: int | None = None) -> Iterator[list[str]]:
    """Yield the columns of each line of a compressed TSV file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in islice(lines, most):
            yield line.rstrip("\n").split("\t")


def in_turn(parts: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the first text of each part, then the second of each, and so on."""
    return (text for text in chain.from_iterable(zip_longest(*parts)) if text)


def sentences(
    folder: Path, count: int, languages: Sequence[str] = LANGUAGES, of_a_file: int = 200
) -> list[str]:
    """Return different sentences, the languages in turn.

    Args:
        folder: Of files `<name>.<language>-<language>.tsv.gz`, at any depth.
        count: Most sentences.
        languages: Their codes.
        of_a_file: Lines that are read of each file.
    """
    found: dict[str, list[str]] = {code: [] for code in languages}
    for path in sorted(folder.rglob("*.tsv.gz")):
        columns = zip(*rows(path, of_a_file), strict=False)
        codes = path.name.split(".")[1].split("-")
        for code, texts in zip(codes, columns, strict=False):
            found.get(code, []).extend(texts)
    return list(dict.fromkeys(in_turn(found.values())))[:count]


def pairs(folder: Path, count: int) -> list[tuple[str, str]]:
    """Return pairs with different English lines, the files in turn."""
    files = sorted(folder.glob("parallel/train/*.tsv.gz"))
    texts = zip_longest(*(rows(path, count) for path in files))
    found: dict[str, str] = {}
    for english, other, *_ in (row for turn in texts for row in turn if row):
        found.setdefault(english, other)
        if len(found) == count:
            return list(found.items())
    raise SystemExit(f"`{folder}` has only {len(found)} pairs of {count}.")
