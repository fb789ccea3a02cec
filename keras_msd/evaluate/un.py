"""Retrieval among millions of sentences, which are read and encoded as a stream."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError, existing_folder
from keras_msd.data.deduplicate import Deduplicator, text_hash
from keras_msd.data.readers import moses
from keras_msd.data.readers.lines import read_lines
from keras_msd.evaluate.nearest import top_k
from keras_msd.evaluate.vectors import SentenceEncoder, encoded, percent

BLOCK = 8192  # sentences encoded and held at a time


def retrieval_streamed(
    encoder: SentenceEncoder,
    queries: Sequence[str],
    candidates: str | Path | Iterable[Sequence[str]],
    gold: Sequence[int] | np.ndarray | None = None,
    engine: str = "numpy",
) -> dict[str, Any]:
    """Score precision at 1 of exact cosine search among any number of sentences.

    Vectors are kept for the queries and one block of candidates. The first of several
    equal maxima is the answer: a candidate that occurs twice is found at its first
    row only.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        queries: Sentences, one or more.
        candidates: A UTF-8 file (.gz too), a sentence a line; or lists of sentences, in
            a stream. A block of some thousand is quick.
        gold: The candidate that translates each query, rows from 0; if None, row i
            translates query i.
        engine: Of the search: "numpy" or "faiss".

    Returns:
        `{"precision": x100, "queries": n, "candidates": m, "primary": "precision"}`.

    Raises:
        InputError: There is no query, a file cannot be read, `gold` does not fit, or
            vectors are not finite.
    """
    queries = checks.sentences(queries)
    checks.at_least(1, queries=len(queries))
    wanted = np.arange(len(queries)) if gold is None else np.asarray(gold)
    if wanted.shape != (len(queries),) or wanted.dtype.kind not in "iu":
        raise InputError(
            "`gold` must name one candidate's row for each query. Received: shape "
            f"{wanted.shape}, {wanted.dtype}, for {len(queries)} queries."
        )
    if isinstance(candidates, str | Path):
        candidates = _blocks(text for _, text in read_lines(Path(candidates)))
    seen = 0

    def vectors() -> Iterator[np.ndarray]:
        nonlocal seen
        for block in candidates:
            texts = checks.sentences(block)
            if texts:
                seen += len(texts)
                yield encoded(encoder, texts)

    _, rows = top_k(encoded(encoder, queries), vectors(), 1, engine)
    outside = wanted[(wanted < 0) | (wanted >= seen)]
    if outside.size:
        raise InputError(
            f"Each query's translation must be a candidate. Received: row {outside[0]} "
            f"of {seen} candidates. Rows count from 0."
        )
    return {
        "precision": percent((rows[:, 0] == wanted).mean()),
        "queries": len(queries),
        "candidates": seen,
        "primary": "precision",
    }


def un_folder(
    encoder: SentenceEncoder,
    folder: str | Path,
    languages: Iterable[str],
    queries: int | None = None,
    engine: str = "numpy",
) -> dict[str, Any]:
    """Score the United Nations Parallel Corpus: English queries, all translations.

    Pairs that occur again are left out, so row i of one side translates row i of the
    other.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        folder: Holds `UNv1.0.en-<xx>.en` and `UNv1.0.en-<xx>.<xx>`, or a folder
            `en-<xx>` with them, as the corpus unpacks; or `UNv1.0.6way.en` and
            `UNv1.0.6way.<xx>`, or a folder `6way` with them; .gz too.
        languages: Codes, such as `es`.
        queries: How many English sentences are looked up, evenly spread; all if None.
            All translations are candidates in any case.
        engine: Of the search: "numpy" or "faiss".

    Returns:
        As `retrieval_streamed`: the mean over languages, sums, and `tracks`: the
        precision of each language.

    Raises:
        InputError: A file is missing or broken, or `queries` is below 1.

    Source: the task is of Guo et al. 2018, the corpus of Ziemski et al. 2016.
    """
    if queries is not None:
        checks.at_least(1, queries=queries)
    files = {code: _english_file(folder, code) for code in dict.fromkeys(languages)}
    if not files:
        raise InputError("Give at least one language. Received: none.")
    single = {}
    for code, file in files.items():
        pairs = _DistinctPairs(file, code)
        count = min(queries or len(pairs), len(pairs))
        rows = np.linspace(0, len(pairs) - 1, count).astype(np.int64)
        asked = set(rows.tolist())
        texts = [english for row, (english, _) in enumerate(pairs) if row in asked]
        blocks = _blocks(other for _, other in pairs)
        single[f"en-{code}"] = retrieval_streamed(encoder, texts, blocks, rows, engine)
    scores = list(single.values())
    return {
        "precision": round(float(np.mean([one["precision"] for one in scores])), 4),
        "queries": sum(one["queries"] for one in scores),
        "candidates": sum(one["candidates"] for one in scores),
        "tracks": {name: one["precision"] for name, one in single.items()},
        "primary": "precision",
    }


class _DistinctPairs:
    """Pairs of two files without those that occur again; each walk reads them anew."""

    def __init__(self, english: Path, language: str) -> None:
        self.english, self.language = english, language
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            finder = Deduplicator(folder / "hashes", partition_rows=1 << 20)
            for pair in moses.read(english, language):
                finder.add(text_hash(*(text.encode() for text in pair)))
            finder.write_repeats(folder / "repeats")
            self.repeats = np.fromfile(folder / "repeats", np.bool_)

    def __len__(self) -> int:
        return int(len(self.repeats) - self.repeats.sum())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        pairs = moses.read(self.english, self.language)
        for pair, repeated in zip(pairs, self.repeats, strict=True):
            if not repeated:
                yield pair


def _english_file(folder: str | Path, language: str) -> Path:
    folder = existing_folder(folder, "folder of the UN corpus")
    pair = f"en-{language}"
    for name in (pair, "6way"):
        for place in (folder, folder / name):
            for ending in ("", ".gz"):
                file = place / f"UNv1.0.{name}.en{ending}"
                if file.is_file():
                    return file
    raise InputError(
        f"`{folder}` must hold UNv1.0.{pair}.en and UNv1.0.{pair}.{language}, or "
        f"UNv1.0.6way.en and UNv1.0.6way.{language}, plain or .gz, there or in {pair}/ "
        "or 6way/. Received: no English file of these names. Unpack "
        f"UNv1.0.{pair}.tar.gz or UNv1.0.6way.tar.gz of the United Nations Parallel "
        "Corpus there."
    )


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    texts = iter(texts)
    while block := list(islice(texts, BLOCK)):
        yield block
