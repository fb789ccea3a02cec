"""Steps that make a text table: spool what passes the filters, select, copy."""

import math
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.data.cleaning import Cleaning, normalise
from keras_msd.data.deduplicate import Deduplicator, text_hash
from keras_msd.data.order import file_shares, mix, permutation
from keras_msd.data.pair import PairFile, Pairs
from keras_msd.data.ragged import Ragged, RaggedWriter, read_flat
from keras_msd.progress import track

CHUNK = 8192  # rows in memory at a time
SIDES = ("source", "target")


def spool(
    pairs: Pairs, work: Path, cleaning: Cleaning, limit_per_file: int | None
) -> list[dict[str, Any]]:
    """Write all pairs that pass the filters to `work`, and which of them are repeats.

    Returns:
        For each file its `name`, `language`, the pairs `read` and dropped by reason,
        and `passed`, the number written.
    """
    counts = []
    repeats = Deduplicator(work / "hashes")
    with RaggedWriter(work / "source", np.uint8) as sources:
        with RaggedWriter(work / "target", np.uint8) as targets:
            for file in pairs.files:
                count = {"name": file.name, "language": file.language, "read": 0}
                count["passed"] = 0
                language = file.language.encode()
                passed = _filtered(file, cleaning, limit_per_file, count)
                for rows in track(passed, what=f"Reading {file.name}", steps=CHUNK):
                    sources.extend([source for source, _ in rows])
                    targets.extend([target for _, target in rows])
                    for source, target in rows:
                        repeats.add(text_hash(language, source, target))
                counts.append(count)
    repeats.write_repeats(work / "repeats")
    return counts


def _filtered(
    file: PairFile, cleaning: Cleaning, limit: int | None, count: dict[str, Any]
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield lists of normalised, encoded pairs; keep the books in `count`."""
    rows: list[tuple[bytes, bytes]] = []
    for source, target in file.iterate():
        count["read"] += 1
        source, target = normalise(source), normalise(target)
        reason = cleaning.reason(source, target)
        if reason is not None:
            count[reason] = count.get(reason, 0) + 1
            continue
        rows.append((source.encode(), target.encode()))
        count["passed"] += 1
        if len(rows) == CHUNK:
            yield rows
            rows = []
        if count["passed"] == limit:
            break
    yield rows


def select(
    counts: list[dict[str, Any]],
    work: Path,
    limit: int | None,
    seed: int,
    temperature: float,
) -> list[int]:
    """Turn `work/repeats` into `work/keep`, one byte per row; return rows kept by file.

    Under a limit per language its files get shares by `file_shares`, and the rows of
    a file's share are the first ones of a permutation of its distinct rows.
    """
    repeats = read_flat(work / "repeats", np.uint8)
    edges = np.cumsum([0] + [count["passed"] for count in counts])
    ranges = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    distinct = [
        sum(int((repeats[a:b] == 0).sum()) for a, b in _steps(*one)) for one in ranges
    ]
    shares = list(distinct)
    if limit is not None:
        for language in {count["language"] for count in counts}:
            own = [i for i, one in enumerate(counts) if one["language"] == language]
            fair = share_out([distinct[i] for i in own], limit, temperature)
            for index, share in zip(own, fair, strict=True):
                shares[index] = share
    with open(work / "keep", "wb") as handle:
        for index, one in enumerate(ranges):
            counts[index]["duplicate"] = counts[index].pop("passed") - distinct[index]
            counts[index]["limit"] = distinct[index] - shares[index]
            counts[index]["kept"] = shares[index]
            before = 0
            for start, stop in _steps(*one):
                keep = repeats[start:stop] == 0
                if shares[index] < distinct[index]:
                    ordinals = np.arange(before, before + int(keep.sum()))
                    before += len(ordinals)
                    place = permutation(ordinals, distinct[index], mix(seed, index))
                    keep[keep] = place < shares[index]
                handle.write(keep.astype(np.uint8).tobytes())
    return shares


def copy_kept(work: Path, folder: Path) -> None:
    """Copy the rows that `work/keep` marks from `work` to `folder`."""
    keep = read_flat(work / "keep", np.uint8)
    for side in SIDES:
        texts = Ragged(work / side, np.uint8)
        with RaggedWriter(folder / side, np.uint8) as kept:
            for start, stop in _steps(0, len(texts)):
                marks = keep[start:stop].tolist()
                kept.extend(list(compress(texts.chunk(start, stop), marks)))


def share_out(
    sizes: list[int], limit: int, temperature: float = float("inf")
) -> list[int]:
    """Divide `limit` by `file_shares`; what a small file cannot fill goes to others."""
    shares = [0] * len(sizes)
    full = [index for index, size in enumerate(sizes) if size]
    if not full:
        return shares
    parts = file_shares([sizes[index] for index in full], temperature)
    left, weight = limit, float(parts.sum())
    for place in np.argsort(np.take(sizes, full) / parts, kind="stable").tolist():
        index, part = full[place], float(parts[place])
        # A share is exact but for rounding of the weights: 25000 / 11, not one less.
        fair = math.floor(left * part / weight + 1e-9) if weight > part else left
        shares[index] = min(sizes[index], fair)
        left, weight = left - shares[index], weight - part
    return shares


def _steps(start: int, stop: int) -> Iterator[tuple[int, int]]:
    for first in range(start, stop, CHUNK):
        yield first, min(first + CHUNK, stop)
