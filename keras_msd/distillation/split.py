"""What `distil` does with its folder and the pairs before anything is loaded."""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.choices import MIN_PAIRS
from keras_msd.data.corpora import write_rows
from keras_msd.data.pair import (
    ENGLISH,
    Cleaning,
    PairFile,
    Pairs,
    normalize,
    pair_code,
)
from keras_msd.data.readers import read_pairs
from keras_msd.data.readers.lines import read_texts
from keras_msd.data.readers.tables import pairs_of_rows
from keras_msd.evaluate.parts import CHOOSE, REPORT, half_of
from keras_msd.io.files import atomic_path, read_json, text_hash, write_json

HELD_OUT_SHARE = 1 / 8  # share of source sentences, chosen by hash
MAX_HELD_OUT = 2000  # held-out pairs per language
CLEANING = Cleaning(max_chars=None, max_words=None)  # the encoder cuts long texts
COUNTS, SETTINGS = "pairs.json", "settings.json"
TEXTS = "texts"  # name of the files of sentences without translations
NO_LANGUAGE = "xx"  # in the name of such a file, which has any language

Counts = dict[str, dict[str, int]]  # by language pair, then by use or reason


def open_pairs(
    pairs: Any, columns: Sequence[str | int] | None, format: str | None, **codes: Any
) -> Pairs:
    """Return pairs that are in files or in memory, ready to be read."""
    if isinstance(pairs, Pairs):
        return pairs
    listed = [pairs] if isinstance(pairs, str | Path) else pairs
    paths = isinstance(listed, list | tuple) and listed
    if paths and isinstance(listed[0], str | Path):
        return read_pairs(listed, format, columns=columns, **codes)
    names = None if columns is None else [str(column) for column in columns]
    return pairs_of_rows(pairs, columns=names, **codes)


def check_new(out: Path) -> None:
    """Raise `InputError` if a folder holds anything but an earlier `distil`."""
    if (out / SETTINGS).is_file() or not out.exists():
        return
    if out.is_file() or own_entries(out):
        raise InputError(
            f"`{out}` must be a new folder, or that of an earlier `distil`. Received: "
            "a folder with other files, or a file. Use another folder."
        )


def own_entries(folder: Path) -> list[Path]:
    """Return what is in a folder, but for hidden files of other programs."""
    return [path for path in folder.iterdir() if path.name[0] != "."]


def split(corpus: Pairs, folder: Path) -> tuple[Counts, Counts]:
    """Write `parallel/train` and `parallel/dev`, unless `folder` has them.

    One source sentence in eight is held out with one of its translations; a hash of the
    sentence decides which. No held-out sentence is in a training pair.

    Returns:
        For each language pair, the numbers of pairs in "train", "choose" (tuning half)
        and "report" (reporting half); and those that are not used, by reason.

    Raises:
        InputError: There are too few pairs.
    """
    if (folder / COUNTS).is_file():
        known = read_json(folder / COUNTS)
        return known["pairs"], known["dropped"]
    by_code: dict[str, list[PairFile]] = {}
    for file in corpus.files:
        by_code.setdefault(pair_code(*file.languages), []).append(file)
    counts: Counts = {}
    dropped: Counts = {}
    with atomic_path(folder) as temporary:
        for code, files in by_code.items():
            found = _split_one(files, temporary / "parallel")
            counts[code], dropped[code] = found
        _check_counts(counts, dropped)
        write_json(temporary / COUNTS, {"pairs": counts, "dropped": dropped})
    return counts, dropped


def split_texts(texts: Iterable[str], folder: Path) -> dict[str, int]:
    """Write sentences without translations as `split` writes pairs.

    One in eight is held out. A training row has two sentences of about equal length:
    each learns its own vector, whatever stands beside it.

    Returns:
        The numbers of sentences in "train", "choose" and "report"; all are 0, and
        nothing is written, if they are too few to train on.
    """
    if (folder / COUNTS).is_file():
        return dict(read_json(folder / COUNTS)[TEXTS])
    known = dict.fromkeys(filter(None, map(normalize, texts)))
    held = sorted((it for it in known if _place(it) < HELD_OUT_SHARE), key=_place)
    trained = [it for it in known if _place(it) >= HELD_OUT_SHARE]
    held = held[:MAX_HELD_OUT]
    of = [half_of(text) for text in held]
    counts = {"train": len(trained), CHOOSE: of.count(CHOOSE), REPORT: of.count(REPORT)}
    if len(trained) < MIN_PAIRS or not min(counts.values()):
        return dict.fromkeys(counts, 0)
    trained.sort(key=lambda text: len(text.encode()))
    rows = zip(trained[::2], [*trained[1::2], trained[-1]], strict=False)
    with atomic_path(folder) as temporary:
        name = f"{TEXTS}.{ENGLISH}-{NO_LANGUAGE}.tsv.gz"
        write_rows(temporary / "parallel" / "train" / name, rows)
        write_rows(temporary / f"{TEXTS}.tsv.gz", ([text] for text in held))
        write_json(temporary / COUNTS, {TEXTS: counts})
    return counts


def read_held_texts(folder: Path) -> list[str]:
    """Return the sentences that `split_texts` held out; none if it was not called."""
    path = folder / f"{TEXTS}.tsv.gz"
    return read_texts(path) if path.is_file() else []


def draw_pairs(folder: Path, out: Path, count: int) -> Path:
    """Write the training pairs that so many draws need, so that no other is embedded.

    All files are drawn from equally often. Where one has more pairs than it is drawn
    from, those with the lowest hashes stay. The held-out pairs go with them.

    Returns:
        `out`; `folder` if all pairs are needed.
    """
    if out.is_dir():
        return out
    paths = sorted((folder / "parallel" / "train").iterdir())
    corpora = [[(it.source, it.target) for it in read_pairs([path])] for path in paths]
    each = -(-count // len(paths))
    if all(len(rows) <= each for rows in corpora):
        return folder
    with atomic_path(out) as temporary:
        for path, rows in zip(paths, corpora, strict=True):
            chosen = sorted(rows, key=lambda row: text_hash(*row))[:each]
            write_rows(temporary / "parallel" / "train" / path.name, chosen)
        if (held := folder / "parallel" / "dev").is_dir():
            shutil.copytree(held, temporary / "parallel" / "dev")
    return out


def _check_counts(counts: Counts, dropped: Counts) -> None:
    total = sum(count["train"] for count in counts.values())
    if total < MIN_PAIRS:
        lost = sum(map(Counter[str], dropped.values()), Counter[str]())
        reasons = ", ".join(f"{number} {reason}" for reason, number in lost.items())
        raise InputError(
            f"`pairs` needs at least {MIN_PAIRS} training pairs after one in "
            f"eight is held out. Received: {total}"
            f"{f' (dropped: {reasons})' if lost else ''}. Add pairs, or give the texts "
            "as `texts` (`--text`), which needs no translations."
        )
    for code, count in counts.items():
        if not min(count.values()):
            said = ", ".join(f"{number} to {use}" for use, number in count.items())
            raise InputError(
                f"`pairs` in `{code}` has too few pairs. Received: {said}. Add more, "
                "or leave that language out."
            )


def _split_one(
    files: Iterable[PairFile], folder: Path
) -> tuple[dict[str, int], dict[str, int]]:
    """Split the pairs of one language pair.

    Returns:
        The number of pairs in each part, and of dropped pairs by reason.
    """
    files, dropped = list(files), Counter[str]()
    name = f"own.{'-'.join(files[0].languages)}.tsv.gz"
    held: dict[str, tuple[float, str]] = {}
    # Held-out translations; training pairs with one of them are dropped.
    seen: set[str] = set()
    for source, target in _clean(files, Counter()):
        if (place := _place(source)) < HELD_OUT_SHARE:
            if source not in held and target not in seen:
                held[source] = place, target
            seen.add(target)
    chosen = sorted(held, key=lambda source: held[source])[:MAX_HELD_OUT]
    write_rows(folder / "dev" / name, ((it, held[it][1]) for it in chosen))
    dev = {(source, held[source][1]) for source in chosen}

    def training() -> Iterator[tuple[str, str]]:
        known = set[bytes]()
        for row in _clean(files, dropped):
            if (key := text_hash(*row)) in known:
                dropped["duplicate"] += 1
                continue
            known.add(key)
            if _place(row[0]) >= HELD_OUT_SHARE and row[1] not in seen:
                yield row
            elif row not in dev:
                dropped["held_out"] += 1

    trained = write_rows(folder / "train" / name, training())
    of = [half_of(source) for source in chosen]
    counts = {"train": trained, CHOOSE: of.count(CHOOSE), REPORT: of.count(REPORT)}
    return counts, dict(dropped)


def _clean(
    files: Iterable[PairFile], dropped: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs that pass the filters; count the others by reason."""
    for file in files:
        for pair in file.rows():
            source, target = map(normalize, pair)
            if reason := CLEANING.reason(source, target):
                dropped[reason] += 1
            else:
                yield source, target


def _place(source: str) -> float:
    """Map a text to a number in [0, 1) by its hash."""
    return int.from_bytes(text_hash(source)[:6]) / 2**48
