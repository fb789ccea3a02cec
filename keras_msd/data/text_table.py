"""Clean, distinct, limited texts of a corpus, on disk and read by offset."""

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.data.cleaning import Cleaning
from keras_msd.data.collect import CHUNK, SIDES, copy_kept, select, spool
from keras_msd.data.pair import Pair, PairFile, Pairs
from keras_msd.data.ragged import Ragged
from keras_msd.files import atomic_path, digest, read_json, write_json

VERSION = 1


@dataclass(frozen=True)
class FileRange:
    """Rows `start` to `stop` (excluded) of a table come from one file."""

    name: str
    language: str
    start: int
    stop: int


class TextTable:
    """Texts of a corpus after filters, deduplication and limits.

    Make one with `TextTable.build`. Walked through, it gives `Pair`s in order.

    Attributes:
        files: `FileRange`s in order; files that keep no pair are left out.
        counts: For each file and language read, the pairs `read`, `kept`, and dropped
            as `empty`, `short`, `long`, `ratio`, `duplicate` or over a `limit`.
        key: Hash of everything the content depends on.
    """

    def __init__(self, folder: Path) -> None:
        meta = read_json(folder / "texts.json")
        self.folder, self.key = folder, meta["key"]
        self.files = [FileRange(**one) for one in meta["files"]]
        self.counts: list[dict[str, Any]] = meta["counts"]
        self._texts = {side: Ragged(folder / side, np.uint8) for side in SIDES}

    def __len__(self) -> int:
        return len(self._texts["source"])

    def __iter__(self) -> Iterator[Pair]:
        for file in self.files:
            for source, target in self._rows(file.start, file.stop):
                yield Pair(source, target, file.language)

    def _rows(self, start: int, stop: int) -> Iterator[tuple[str, str]]:
        for first in range(start, stop, CHUNK):
            last = min(first + CHUNK, stop)
            yield from zip(
                self.texts("source", first, last),
                self.texts("target", first, last),
                strict=True,
            )

    def texts(self, side: str, start: int, stop: int) -> list[str]:
        """Return `source` or `target` texts of rows `start` to `stop` (excluded)."""
        return [text.decode() for text in self._texts[side].chunk(start, stop)]

    def chunks(self, side: str) -> Iterator[list[str]]:
        """Yield all texts of one side in lists of a few thousand."""
        for start in range(0, len(self), CHUNK):
            yield self.texts(side, start, min(start + CHUNK, len(self)))

    @classmethod
    def open(cls, folder: str | Path) -> "TextTable":
        """Open a table that `build` made.

        Raises:
            InputError: No table is there, or one of another version.
        """
        folder = Path(folder)
        meta = read_json(folder / "texts.json")
        if meta.get("version") != VERSION:
            raise InputError(
                f"`{folder}` holds texts in format {meta.get('version')}; this library "
                f"reads format {VERSION}. Delete the folder; it is built again."
            )
        return cls(folder)

    @classmethod
    def build(
        cls,
        pairs: Pairs,
        folder: str | Path,
        cleaning: Cleaning | None = None,
        limit_per_file: int | None = None,
        limit_per_language: int | None = None,
        seed: int = 0,
        temperature: float = float("inf"),
    ) -> "TextTable":
        """Read a corpus, filter it, remove duplicates, and keep the rest in `folder`.

        Two pairs are duplicates if both texts and the language are equal; the first in
        reading order is kept. A table that is already there and was made of the same
        content with the same settings is opened instead.

        Args:
            pairs: The corpus.
            folder: Where the table lives; it appears when complete.
            cleaning: Filters; `Cleaning()` by default.
            limit_per_file: Stop reading a file once so many of its pairs passed the
                filters.
            limit_per_language: Most pairs of a language, shared out among its files
                (what small files do not fill goes to the larger ones) and drawn at
                random inside each.
            temperature: Infinity shares that limit out evenly, 1 by the files' sizes.
            seed: Chooses the pairs under `limit_per_language`.

        Raises:
            InputError: A file cannot be read, nothing is left after the filters, or
                `folder` holds another table.
        """
        folder = Path(folder)
        limits = {"limit_per_file": limit_per_file}
        limits["limit_per_language"] = limit_per_language
        checks.at_least(1, **{k: v for k, v in limits.items() if v is not None})
        cleaning = cleaning or Cleaning()
        settings = repr((VERSION, asdict(cleaning), limits, seed, temperature))
        key = digest(settings, pairs.digest())
        if folder.exists():
            return cls._reuse(folder, key)
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            work = temporary / "work"
            work.mkdir()
            counts = spool(pairs, work, cleaning, limit_per_file)
            kept = select(counts, work, limit_per_language, seed, temperature)
            if not any(kept):
                raise InputError(
                    "No pair is left after the filters. Received, by file: "
                    f"{str(counts):.300}. Loosen `cleaning` or give other files."
                )
            copy_kept(work, temporary)
            shutil.rmtree(work)
            meta = {"version": VERSION, "key": key, "counts": counts}
            meta["files"] = _ranges(counts)
            write_json(temporary / "texts.json", meta)
        return cls.open(folder)

    @classmethod
    def _reuse(cls, folder: Path, key: str) -> "TextTable":
        table = cls.open(folder)
        if table.key != key:
            raise InputError(
                f"`{folder}` holds a table of other files or other settings. Give "
                "another folder, or delete this one to have it built anew."
            )
        return table

    def pairs(self) -> Pairs:
        """Return the kept texts as a corpus."""
        return Pairs(
            PairFile(
                file.name,
                file.language,
                partial(self._rows, file.start, file.stop),
                fingerprint=digest(self.key, str(file.start)),
            )
            for file in self.files
        )


def _ranges(counts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ranges, start = [], 0
    for count in counts:
        stop = start + count["kept"]
        if count["kept"]:
            one = FileRange(count["name"], count["language"], start, stop)
            ranges.append(asdict(one))
        start = stop
    return ranges
